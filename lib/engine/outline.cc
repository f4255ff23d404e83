// SPDX-License-Identifier: Apache-2.0
#include "engine/outline.h"

#include "image/polygon.h"

namespace npuseg::engine {

core::Result<Outlines> make_outlines(const image::Rle& runs) {
  NPUSEG_ASSIGN_OR_RETURN(const std::vector<image::Ring> rings, image::mask_rings(runs));
  size_t words = 1;
  for (const image::Ring& ring : rings) words += 2 + 2 * ring.points.size();
  if (words > INT32_MAX) {
    return core::Status(core::Code::kLimitExceeded,
                        core::format("cannot outline mask: %u x %u: %zu rings need more than "
                                     "2147483647 words; read it as run lengths",
                                     runs.width, runs.height, rings.size()));
  }
  std::vector<int32_t> out;
  out.reserve(words);
  out.push_back(static_cast<int32_t>(rings.size()));
  for (const image::Ring& ring : rings) {
    out.push_back(static_cast<int32_t>(ring.points.size()));
    out.push_back(static_cast<int32_t>(ring.parent));
    for (const image::Point& point : ring.points) {
      out.push_back(point.x);
      out.push_back(point.y);
    }
  }
  return std::make_shared<const std::vector<int32_t>>(std::move(out));
}

}  // namespace npuseg::engine

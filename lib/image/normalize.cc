// SPDX-License-Identifier: Apache-2.0
#include "image/normalize.h"

#include <cmath>
#include <cstddef>

namespace npuseg::image {

using core::Code;
using core::format;
using core::Result;
using core::Status;

Result<NormalizeTable> make_normalize_table(const Normalization& how) {
  const double factor = how.rescale_factor;
  if (how.rescale && (!std::isfinite(factor) || factor == 0.0)) {
    return Status(Code::kInvalidArgument,
                  format("pixel normalisation: rescale_factor %g is not usable; it must be a "
                         "number other than 0, commonly 1/255",
                         factor));
  }
  NormalizeTable table{};
  for (size_t c = 0; c < 3; ++c) {
    if (how.normalize &&
        (!std::isfinite(how.mean[c]) || !std::isfinite(how.std_dev[c]) || how.std_dev[c] == 0.0)) {
      return Status(Code::kInvalidArgument,
                    format("pixel normalisation: channel %zu has mean %g and std %g; both must be "
                           "numbers and std not 0",
                           c, how.mean[c], how.std_dev[c]));
    }
    float mean = static_cast<float>(how.mean[c]);
    float deviation = static_cast<float>(how.std_dev[c]);
    const bool fused = how.rescale && how.fused;
    if (fused) {
      // A float32 tensor times a Python number: the number is rounded to float32 first.
      const float inverse = static_cast<float>(1.0 / factor);
      mean = mean * inverse;
      deviation = deviation * inverse;
    }
    const float scale = static_cast<float>(factor);
    for (size_t v = 0; v < 256; ++v) {
      const float x = static_cast<float>(v);
      float value = x;
      if (how.rescale && !(how.normalize && fused)) value = x * scale;
      if (how.normalize) value = (value - mean) / deviation;
      table[c][v] = value;
    }
  }
  return table;
}

Status normalize_planar(core::Call& call, const RgbView& in, const NormalizeTable& table,
                        float* planar) {
  const size_t plane = size_t{in.width} * in.height;
  constexpr size_t kRows = 16;
  return core::parallel_for(call, (in.height + kRows - 1) / kRows, [&](size_t block, int) {
    for (size_t y = block * kRows; y < in.height && y < (block + 1) * kRows; ++y) {
      const uint8_t* from = in.row(y);
      float* r = planar + y * in.width;
      float* g = r + plane;
      float* b = g + plane;
      for (size_t x = 0; x < in.width; ++x, from += 3) {
        r[x] = table[0][from[0]];
        g[x] = table[1][from[1]];
        b[x] = table[2][from[2]];
      }
    }
  });
}

}  // namespace npuseg::image

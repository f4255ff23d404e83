// SPDX-License-Identifier: Apache-2.0
// RGB8 to planar float32 by a table of 256 values per channel, the floats the reference computes.
#pragma once

#include <array>
#include <cstdint>

#include "core/status.h"
#include "core/threads.h"
#include "image/picture.h"

namespace npuseg::image {

struct Normalization {
  bool rescale = true;
  double rescale_factor = 1.0 / 255.0;
  bool normalize = true;
  std::array<double, 3> mean{0.5, 0.5, 0.5};
  std::array<double, 3> std_dev{0.5, 0.5, 0.5};
  // Both steps as one, as transformers does: (x - mean/f) / (std/f) in float32. Else one after the
  // other, (x * f - mean) / std, as the public runtime of NPU bundles does: the last bits differ.
  bool fused = true;
};

using NormalizeTable = std::array<std::array<float, 256>, 3>;

// INVALID_ARGUMENT for a factor or deviation that is zero or not finite.
core::Result<NormalizeTable> make_normalize_table(const Normalization& how);

// planar: 3*height*width floats, channel after channel.
core::Status normalize_planar(core::Call& call, const RgbView& in, const NormalizeTable& table,
                              float* planar);

}  // namespace npuseg::image

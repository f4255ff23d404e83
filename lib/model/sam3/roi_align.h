// SPDX-License-Identifier: Apache-2.0
// RoI align with torchvision's rule: aligned = False, adaptive sample count (spec section 8.1).
#pragma once

#include <cstddef>

#include "core/tensor_view.h"

namespace npuseg::sam3 {

// map [height*width, channels]; box x0, y0, x1, y1 in map cells. out [channels, bins, bins].
void roi_align(core::ConstMatrixView map, size_t height, size_t width, const float box[4],
               size_t bins, float* out);

}  // namespace npuseg::sam3

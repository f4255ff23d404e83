// SPDX-License-Identifier: Apache-2.0
// Antialiased resize of RGB8, byte for byte what torchvision computes on uint8 tensors: integer
// taps per axis, a horizontal pass rounded to bytes, then a vertical pass.
#pragma once

#include <cstdint>
#include <vector>

#include "core/status.h"
#include "core/threads.h"
#include "image/picture.h"

namespace npuseg::image {

enum class Filter : uint8_t { kBilinear, kBicubic };

// The taps of one axis: output i is (sum_j weights[i*max_taps + j] * in[first[i] + j] + half) >>
// precision, j < count[i].
struct AxisTaps {
  uint32_t precision = 0;
  uint32_t max_taps = 0;
  std::vector<uint32_t> first;
  std::vector<uint32_t> count;
  std::vector<int16_t> weights;  // rows of max_taps, zero padded
};
AxisTaps make_axis_taps(uint32_t in, uint32_t out, Filter filter);

// An axis that keeps its size is copied, not filtered.
core::Result<Picture> resize_rgb(core::Call& call, const RgbView& in, uint32_t out_width,
                                 uint32_t out_height, Filter filter,
                                 const core::MemoryBudgetPtr& budget = nullptr);

}  // namespace npuseg::image

// SPDX-License-Identifier: Apache-2.0
// Position encodings: 2-D rotary tables and the sine encodings (spec sections 5.6, 6.1, 8, 11).
//
// All are evaluated in double and rounded once, so their error against exact arithmetic is never
// larger than that of the reference's float32 evaluation.
#pragma once

#include <cstddef>
#include <vector>

#include "checkpoint/sam3_config.h"

namespace npuseg::sam3 {

// Cosines and sines [side*side, head_dim/2] of a square grid in raster order: first half of a
// head's channel pairs turns with x * step, second half with y * step.
struct RopeTable {
  std::vector<float> cosine;
  std::vector<float> sine;
  size_t rows = 0;
};
RopeTable make_rope_table(size_t side, double step, size_t head_dim, double theta);

// enc(value)[i] = sin(value / t_i) for even i, cos for odd i, t_i = 10000^(2*floor(i/2)/count).
void sine_encode(double value, size_t count, float* out);

// [side*side, channels]: y half first, then x; coordinates 1-based and scaled to (0, 2 pi].
std::vector<float> make_sine_positions(size_t side, size_t channels);

}  // namespace npuseg::sam3

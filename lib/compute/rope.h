// SPDX-License-Identifier: Apache-2.0
// Rotary position embedding that pairs channel c with channel c + half.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "compute/gemm.h"

namespace npuseg::compute {

// Cosines and sines of position * theta^(-2j / channels), [positions, channels / 2]. As in the
// reference, frequency and angle are rounded to float32 before the cosine is taken.
struct RopeTable {
  std::vector<float> cosine;
  std::vector<float> sine;
  size_t positions = 0;
  size_t half = 0;
};
core::Result<RopeTable> make_rope_table(core::Call& call, size_t positions, size_t channels,
                                        double theta);

// In place on `heads` runs of columns of x. Each run is `axes` equal parts of 2 * table.half
// columns; part a of row r rotates by table row positions[r * axes + a]: channels c and c + half
// become (x_c cos - x_{c+half} sin, x_{c+half} cos + x_c sin). Positions are below table.positions.
core::Status rope_halves(const Exec& exec, core::MatrixView x, size_t heads, size_t axes,
                         const RopeTable& table, const int32_t* positions);

}  // namespace npuseg::compute

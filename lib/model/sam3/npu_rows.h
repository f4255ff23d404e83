// SPDX-License-Identifier: Apache-2.0
// Norms, softmax and GELU of rows as the public runtime of these bundles rounds them (spec
// iron-bundle-sam3.md, 7.0): what follows is rounded to bfloat16, where another last bit now and
// then becomes another value and, layers later, another picture.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "compute/gemm.h"
#include "compute/norm.h"

namespace npuseg::sam3 {

// LayerNorm of single rows.
class RowNorm {
 public:
  // The weights may be empty: ones and zeros.
  RowNorm(const compute::LayerNorm& norm, size_t columns);
  // out may be x.
  void apply(const float* x, float* out) const;

 private:
  std::vector<float> gamma_;
  std::vector<float> beta_;
  float eps_;
};

// row = softmax of the first `valid` values, 0 behind them; values of infinity count for nothing.
void softmax_row(float* row, size_t valid, size_t count);

// Of every bfloat16 value its erf-GELU, rounded.
std::vector<uint16_t> make_gelu_table();

// GroupNorm over a map [pixels, channels] and ReLU, in place.
core::Status group_norm_relu(const compute::Exec& exec, size_t groups, const float* gamma,
                             const float* beta, float eps, core::MatrixView map);

// The scalar functions, for tests.
float fast_exp(float x);
float fast_erf(float x);

}  // namespace npuseg::sam3

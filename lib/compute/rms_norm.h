// SPDX-License-Identifier: Apache-2.0
// Root-mean-square normalisation of rows, or of equal runs of columns (heads) within rows.
#pragma once

#include <cstddef>

#include "compute/gemm.h"

namespace npuseg::compute {

struct RmsNorm {
  core::TensorView gamma{};  // [columns of a run]; empty: no scale
  float eps = 1e-6f;
};

// How the normalised values go on to the output.
struct RmsNormOptions {
  size_t runs = 1;                   // each of x.cols / runs columns, normalised on its own
  float input_scale = 1.0f;          // x is multiplied by it first (rounded)
  core::ConstMatrixView residual{};  // added behind gamma; may alias out
  float output_scale = 1.0f;         // multiplies the sum
};

// out = (s*x / sqrt(mean((s*x)^2) + eps) * gamma + residual) * output_scale. gamma multiplies as it
// is. Rows do not depend on each other. out may alias x.
core::Status rms_norm(const Exec& exec, core::ConstMatrixView x, const RmsNorm& norm,
                      core::MatrixView out, const RmsNormOptions& options = {});

}  // namespace npuseg::compute

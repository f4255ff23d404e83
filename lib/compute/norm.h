// SPDX-License-Identifier: Apache-2.0
// LayerNorm and GroupNorm, statistics and result in one pass over cached rows.
#pragma once

#include "compute/gemm.h"

namespace npuseg::compute {

struct LayerNorm {
  core::TensorView gamma;  // [cols]
  core::TensorView beta;   // [cols]
  float eps = 1e-5f;
};

// out[r', :] = (x[r, :] - mean) / sqrt(var + eps) * gamma + beta, biased variance, two-pass float32
// statistics. add (may be empty) is added to the normalised row into `out_plus_add` (may be empty):
// out_plus_add[r, :] = out[r, :] + add[r, :] (positions for q and k). out may alias x.
// out_rows: row r goes to row out_rows[r] of out (window order); null: r. Rows not named stay as
// they are.
core::Status layer_norm(const Exec& exec, core::ConstMatrixView x, const LayerNorm& norm,
                        core::MatrixView out, const int32_t* out_rows = nullptr,
                        core::ConstMatrixView add = {}, core::MatrixView out_plus_add = {});

// GroupNorm over a channels-last map [pixels, channels], statistics per group of channels over all
// pixels (accumulated in double, fixed order), then optional relu. In place allowed.
core::Status group_norm(const Exec& exec, core::ConstMatrixView x, size_t groups,
                        const core::TensorView& gamma, const core::TensorView& beta, float eps,
                        bool relu, core::MatrixView out);

}  // namespace npuseg::compute

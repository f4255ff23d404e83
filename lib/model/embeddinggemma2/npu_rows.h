// SPDX-License-Identifier: Apache-2.0
// RMS norm and rotation of rows as the public runtime of these bundles rounds them (spec
// iron-bundle-embeddinggemma2.md, 9.2 and 9.3): what follows is rounded to bfloat16, where another
// last bit now and then becomes another value and, layers later, another picture.
#pragma once

#include <cstddef>
#include <cstdint>

#include "compute/gemm.h"
#include "compute/rms_norm.h"
#include "compute/rope.h"

namespace npuseg::embeddinggemma2 {

// As compute::rms_norm.
core::Status rms_rows(const compute::Exec& exec, core::ConstMatrixView x,
                      const compute::RmsNorm& norm, core::MatrixView out,
                      const compute::RmsNormOptions& options = {});

// As compute::rope_halves.
core::Status rotate_rows(const compute::Exec& exec, core::MatrixView x, size_t heads, size_t axes,
                         const compute::RopeTable& table, const int32_t* positions);

}  // namespace npuseg::embeddinggemma2

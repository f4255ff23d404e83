// SPDX-License-Identifier: Apache-2.0
// Patch tokens -> soft tokens of the text encoder: mean of square cells, scale-free norm,
// projection (spec embeddinggemma2-model.md, sections 9 and 10).
#pragma once

#include "model/embeddinggemma2/embeddinggemma2.h"

namespace npuseg::embeddinggemma2 {

// Means of pooling x pooling patches times sqrt(hidden size), [cells, vision hidden size],
// row-major over the pooled grid.
core::Result<core::Matrix> pool_patches(const compute::Exec& exec, core::ConstMatrixView tokens,
                                        size_t grid_width, size_t pooling);

// [cells, vision hidden size] -> [cells, text hidden size]
core::Result<core::Matrix> project_soft_tokens(const Model& model, const compute::Exec& exec,
                                               core::ConstMatrixView pooled);

}  // namespace npuseg::embeddinggemma2

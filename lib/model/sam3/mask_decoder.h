// SPDX-License-Identifier: Apache-2.0
// Mask decoder: pixel decoder over the pyramid, mask embeddings, semantic map (spec section 13).
#pragma once

#include <span>
#include <vector>

#include "compute/gemm.h"
#include "model/sam3/sam3.h"

namespace npuseg::sam3 {

// Pixel embedding [mask_side^2, D]: M attends to the prompt, is upsampled level by level, added to
// the levels and convolved. levels: finest first, the last one gives only its size.
core::Result<core::Matrix> run_pixel_decoder(const Model& model, const compute::Exec& exec,
                                             const std::vector<core::Matrix>& levels,
                                             core::ConstMatrixView memory,
                                             core::ConstMatrixView prompt);

// Mask logits [rows.size(), mask_side^2] of the named queries. instance_projection is folded into
// the mask embeddings (me*W_inst and me*b_inst, spec 20.4), so its full-size map never exists.
core::Result<core::Matrix> run_mask_head(const Model& model, const compute::Exec& exec,
                                         core::ConstMatrixView hidden,
                                         std::span<const uint32_t> rows,
                                         core::ConstMatrixView pixel_embedding);

// Semantic logits [1, mask_side^2].
core::Result<core::Matrix> run_semantic_head(const Model& model, const compute::Exec& exec,
                                             core::ConstMatrixView pixel_embedding);

}  // namespace npuseg::sam3

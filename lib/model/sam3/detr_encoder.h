// SPDX-License-Identifier: Apache-2.0
// DETR encoder: the map attends to itself and to the prompt (spec section 10).
#pragma once

#include "compute/gemm.h"
#include "model/sam3/sam3.h"

namespace npuseg::sam3 {

// The part of layer 0 that no prompt changes: map + self-attention. Kept with the picture.
core::Result<core::Matrix> run_detr_encoder_input(const Model& model, const compute::Exec& exec,
                                                  core::ConstMatrixView map);

// The rest: encoder_input [tokens, D] of the above and prompt [n, D] -> M [tokens, D].
core::Result<core::Matrix> run_detr_encoder(const Model& model, const compute::Exec& exec,
                                            core::ConstMatrixView encoder_input,
                                            core::ConstMatrixView prompt);

}  // namespace npuseg::sam3

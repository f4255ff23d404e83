// SPDX-License-Identifier: Apache-2.0
// DETR decoder: object queries and the presence token, iterative box refinement with a position
// bias from the boxes (spec section 11).
#pragma once

#include <vector>

#include "compute/gemm.h"
#include "model/sam3/sam3.h"

namespace npuseg::sam3 {

struct DecoderOutput {
  core::Matrix hidden;            // [Q, D] last layer, normalised
  std::vector<float> references;  // [Q, 4] refined (cx, cy, w, h), normalised
  float presence_logit = 0.0f;    // clamped to +-10
};

// memory: M [side*side, D] of the DETR encoder; prompt [n, D].
core::Result<DecoderOutput> run_detr_decoder(const Model& model, const compute::Exec& exec,
                                             core::ConstMatrixView memory,
                                             core::ConstMatrixView prompt);

// Building blocks, for tests.
float inverse_sigmoid(float p);
// sign(d) * log2(|8 d| + 1) / 3
float log_scale(float d);

}  // namespace npuseg::sam3

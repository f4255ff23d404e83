// SPDX-License-Identifier: Apache-2.0
// DETR decoder: object queries and the presence token, iterative box refinement with a position
// bias from the boxes (spec section 11).
#pragma once

#include <functional>
#include <vector>

#include "compute/gemm.h"
#include "model/sam3/sam3.h"

namespace npuseg::sam3 {

struct DecoderOutput {
  core::Matrix hidden;            // [Q, D] last layer, normalised
  std::vector<float> references;  // [Q, 4] refined (cx, cy, w, h), normalised
  float presence_logit = 0.0f;    // clamped to +-10
};

// Fills the projected keys and values [side*side, D] that a layer's queries look at. Both are
// columns of the same rows.
using VisionKeys =
    std::function<core::Status(size_t layer, core::MatrixView keys, core::MatrixView values)>;

// prompt [n, D].
core::Result<DecoderOutput> run_detr_decoder(const Graph& graph, const compute::Exec& exec,
                                             const VisionKeys& vision_keys,
                                             core::ConstMatrixView prompt);
// memory: M [side*side, D] of the DETR encoder.
core::Result<DecoderOutput> run_detr_decoder(const Model& model, const compute::Exec& exec,
                                             core::ConstMatrixView memory,
                                             core::ConstMatrixView prompt);

// Building blocks, for tests.
float inverse_sigmoid(float p);
// sign(d) * log2(|8 d| + 1) / 3
float log_scale(float d);

}  // namespace npuseg::sam3

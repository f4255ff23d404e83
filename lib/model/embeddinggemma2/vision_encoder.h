// SPDX-License-Identifier: Apache-2.0
// The layers of the vision tower: full attention over the patches of one picture, axial rotary
// positions (spec embeddinggemma2-model.md, section 9).
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "model/embeddinggemma2/embeddinggemma2.h"

namespace npuseg::embeddinggemma2 {

// Column and row of every patch: [patches, 2].
std::vector<int32_t> patch_positions(size_t patches, size_t grid_width);

// tokens [grid_height * grid_width, vision hidden size], in place. after_layer (may be empty) sees
// the tokens behind every layer.
core::Status run_vision_encoder(
    const Model& model, const compute::Exec& exec, size_t grid_width, size_t grid_height,
    core::MatrixView tokens,
    const std::function<void(size_t layer, core::ConstMatrixView tokens)>& after_layer = {});

}  // namespace npuseg::embeddinggemma2

// SPDX-License-Identifier: Apache-2.0
// The layers of the text encoder: sliding and full attention in both directions, gated MLP, and the
// gate by the per-layer input (spec embeddinggemma2-model.md, section 11).
#pragma once

#include <functional>

#include "model/embeddinggemma2/text_embedder.h"

namespace npuseg::embeddinggemma2 {

// Slice `layer` of the per-layer inputs, from the embedded tokens: out [tokens, per_layer_size].
core::Status per_layer_input(const Model& model, const compute::Exec& exec, size_t layer,
                             core::ConstMatrixView embedded, core::MatrixView out);

// Residual stream behind the last layer, before the final norm: [tokens, text hidden size].
// after_layer (may be empty) sees it behind every layer. Counts one step of progress a layer; the
// caller begins the stage.
core::Result<core::Matrix> run_text_encoder(
    const Model& model, const compute::Exec& exec, const PackedTokens& packed,
    const std::function<void(size_t layer, core::ConstMatrixView tokens)>& after_layer = {});

}  // namespace npuseg::embeddinggemma2

// SPDX-License-Identifier: Apache-2.0
// Inputs -> one matrix of token vectors: rows of the token table times sqrt(hidden size), soft
// tokens as they are (spec embeddinggemma2-model.md, sections 10 and 11).
#pragma once

#include <span>
#include <vector>

#include "model/embeddinggemma2/embeddinggemma2.h"

namespace npuseg::embeddinggemma2 {

// Sequences one behind another.
struct PackedTokens {
  core::Matrix tokens;             // [all tokens, text hidden size]
  std::vector<size_t> starts;      // first row of every sequence, and the end
  std::vector<int32_t> positions;  // of every row within its sequence
  size_t longest = 0;
};

// Number of tokens; INVALID_ARGUMENT naming the fault when a part or an id does not fit the model,
// LIMIT_EXCEEDED above its positions.
core::Result<size_t> check_sequence(const EmbeddingGemma2Config& config, const Sequence& sequence);

core::Result<PackedTokens> embed_tokens(const Model& model, const compute::Exec& exec,
                                        std::span<const Sequence> sequences);

}  // namespace npuseg::embeddinggemma2

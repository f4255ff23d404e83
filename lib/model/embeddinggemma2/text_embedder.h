// SPDX-License-Identifier: Apache-2.0
// Inputs -> one matrix of token vectors: rows of the token table times sqrt(hidden size), soft
// tokens as they are (spec embeddinggemma2-model.md, sections 10 and 11).
#pragma once

#include <cstdint>
#include <functional>
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

size_t token_count(const Sequence& sequence);

// Number of tokens; INVALID_ARGUMENT naming the fault when a part or an id does not fit the model,
// LIMIT_EXCEEDED above its positions. Ids of `also` are known whatever the vocabulary.
core::Result<size_t> check_sequence(const EmbeddingGemma2Config& config, const Sequence& sequence,
                                    std::span<const int64_t> also = {});

// Ends of the runs of sequences of at most `most` tokens together; a longer one is a run of its
// own.
std::vector<size_t> pack_ends(std::span<const Sequence> sequences, size_t most);

// Writes the vector of an id of a sequence. Any thread.
using EmbedId = std::function<void(const Sequence& sequence, int64_t id, float* out)>;
core::Result<PackedTokens> pack_tokens(const compute::Exec& exec, size_t hidden,
                                       std::span<const Sequence> sequences, const EmbedId& embed);

// pack_tokens of checked sequences with the model's token table.
core::Result<PackedTokens> embed_tokens(const Model& model, const compute::Exec& exec,
                                        std::span<const Sequence> sequences);

}  // namespace npuseg::embeddinggemma2

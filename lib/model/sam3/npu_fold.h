// SPDX-License-Identifier: Apache-2.0
// Attention to a prompt as two matrix products whose weights hold the prompt, and the weights of
// the mask head, which hold the queries (spec iron-bundle-sam3.md, 7.9 and 7.12). Packed for the
// kernels d_s, d_c and m_head.
#pragma once

#include <span>
#include <vector>

#include "bundle/bfp16.h"
#include "compute/gemm.h"
#include "model/sam3/weights.h"

namespace npuseg::sam3 {

using PackedBytes = std::vector<unsigned char>;

struct FoldedPrompt {
  PackedBytes scores;   // d_s: normalised rows -> scores of every head and token
  PackedBytes context;  // d_c: their softmax -> what attention adds
};

// prompt [n, D], n <= length. Tokens behind it have the keys and values of a zero vector, which
// share their blocks with real ones.
core::Result<FoldedPrompt> fold_prompt(const compute::Exec& exec, const AttentionWeights& weights,
                                       size_t heads, size_t length, const bundle::PackedLayout& s,
                                       const bundle::PackedLayout& c, core::ConstMatrixView prompt);

// Column q of the result are the mask weights of hidden [Q, D]'s row q, for the queries named;
// column Q those of the semantic map; all others are zero.
core::Result<PackedBytes> fold_masks(const compute::Exec& exec, const Weights& weights,
                                     const bundle::PackedLayout& layout,
                                     core::ConstMatrixView hidden,
                                     std::span<const uint32_t> queries);

}  // namespace npuseg::sam3

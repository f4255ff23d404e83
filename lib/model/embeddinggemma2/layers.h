// SPDX-License-Identifier: Apache-2.0
// The two residual blocks that the layers of both towers share: attention and gated MLP, each
// between two RMS norms. Formulas: spec embeddinggemma2-model.md, sections 9 and 11.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "compute/gemm.h"
#include "compute/rope.h"
#include "core/buffer.h"
#include "model/embeddinggemma2/weights.h"

namespace npuseg::embeddinggemma2 {

// What a layer needs beside its weights.
struct LayerShape {
  float eps = 1e-6f;
  size_t heads = 0;
  size_t kv_heads = 0;
  size_t head_dim = 0;
  size_t radius = SIZE_MAX;  // of the attention window; SIZE_MAX: none
  const compute::RopeTable* rope = nullptr;
  size_t axes = 1;                     // a head is as many parts, rotated on their own
  const int32_t* positions = nullptr;  // [tokens, axes]
  std::vector<size_t> starts;          // first token of every sequence, and the end
};

// Activations that every layer uses again, for layers of up to qkv_width columns.
struct LayerWork {
  core::Matrix normed;  // [tokens, hidden]
  core::Matrix branch;  // [tokens, hidden]
  core::Matrix qkv;     // [tokens, widest q + k + v]
  core::Matrix inner;   // [tokens of a band, 2 * intermediate]

  static core::Result<LayerWork> make(const compute::Exec& exec, size_t tokens, size_t hidden,
                                      size_t qkv_width, size_t intermediate);
};

// h += norm(o_proj(attention(rope(norm(q)), rope(norm(k)), norm(v)))), in place.
core::Status attention_block(const compute::Exec& exec, const LayerWeights& weights,
                             const LayerShape& shape, core::MatrixView h, LayerWork* work);

// h += norm(down(gelu(gate(norm(h))) * up(norm(h)))), in place.
core::Status mlp_block(const compute::Exec& exec, const LayerWeights& weights,
                       const LayerShape& shape, core::MatrixView h, LayerWork* work);

// NaN or infinity in a stage's output (weights too large for float32): CORRUPT_DATA naming it.
core::Status check_finite(core::ConstMatrixView values, const char* stage);

}  // namespace npuseg::embeddinggemma2

// SPDX-License-Identifier: Apache-2.0
// softmax(q*k^T * scale + bias) * v, tiled: no full score matrix exists at any time.
#pragma once

#include <cstddef>
#include <cstdint>

#include "compute/gemm.h"

namespace npuseg::compute {

// Heads are contiguous runs of head_dim columns. A batch element (a window, a sequence) is a run of
// rows.
struct Attention {
  const float* query = nullptr;  // [batch * queries, heads * head_dim], rows query_stride apart
  const float* key = nullptr;    // [batch * keys, ...]
  const float* value = nullptr;  // [batch * keys, ...]
  float* out = nullptr;          // [batch * queries, heads * head_dim]
  size_t query_stride = 0;
  size_t key_stride = 0;
  size_t value_stride = 0;
  size_t out_stride = 0;
  size_t batch = 1;
  size_t queries = 0;
  size_t keys = 0;
  // Batch elements of different lengths, self-attention: batch + 1 first rows, the last is the end.
  // Then queries and keys above are not read. Null: all of the same size.
  const size_t* starts = nullptr;
  size_t heads = 0;
  size_t head_dim = 0;
  size_t key_heads = 0;      // heads of key and value, each shared by heads / key_heads; 0: heads
  float scale = 1.0f;        // > 0
  bool causal = false;       // key j is visible to query i iff j <= i
  size_t radius = SIZE_MAX;  // key j is visible to query i iff |i - j| <= radius
  // Additive bias of a key at (y, x) of a grid, key = y * grid_width + x, given in two parts that
  // are summed: bias_y [heads, queries, grid_height], bias_x [heads, queries, grid_width]. Null: 0.
  // Only with batch 1.
  const float* bias_y = nullptr;
  const float* bias_x = nullptr;
  size_t grid_height = 0;
  size_t grid_width = 0;
};

// Numeric contract: float32; running maximum and sum per query (online softmax over key blocks of a
// fixed size), exp within 2 ulp; fixed order for any thread count. out may alias query (same
// strides), not key or value. A query's result does not depend on the other batch elements.
core::Status attention(const Exec& exec, const Attention& args);

}  // namespace npuseg::compute

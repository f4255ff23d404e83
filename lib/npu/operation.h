// SPDX-License-Identifier: Apache-2.0
// What a kernel of an IRON bundle computes, as plain data. A graph fills it in from the bundle's
// manifest; hardware needs it for work labels alone, the software NPU computes by it.
//
// Formulas: spec iron-bundle-sam3, sections 4.3 to 4.7; iron-bundle-embeddinggemma2, section 7.
// Memory formats: activations bfloat16, weights bfp16ebs8, rows `stride` elements apart.
#pragma once

#include <cstddef>
#include <cstdint>
#include <variant>
#include <vector>

namespace npuseg::npu {

enum class GemmActivation : uint8_t { kNone, kRelu, kGeluTanh };

// C[r, n] = bf16(activation(bias[n] + sum over i < k of A[r * lda + i] * B[i, n])), r < rows.
// Arguments: A, packed B, C. lda < k: rows of A overlap (3x3 convolution). lda > k: a slice of
// columns of wider rows.
struct Gemm {
  size_t rows = 0;
  size_t k = 0;
  size_t n = 0;  // columns of B
  size_t lda = 0;
  size_t c_stride = 0;
  // Order of packed B. tile_n 0: the manifest does not say it.
  size_t tile_k = 0;
  size_t tile_n = 0;
  size_t ct_k = 0;
  bool bias = false;
  GemmActivation activation = GemmActivation::kNone;
  // Every tile of tile_n columns of B is half gates, half the other branch; C has n / 2 columns,
  // gelu_tanh(gate) * other. Without activation.
  bool pair = false;

  [[nodiscard]] size_t out_columns() const { return pair ? n / 2 : n; }
  // Elements that the views of A and C span.
  [[nodiscard]] size_t a_elements() const { return (rows - 1) * lda + k; }
  [[nodiscard]] size_t c_elements() const { return (rows - 1) * c_stride + out_columns(); }
};

// A heads' matrix in a buffer: row r of head h begins at element first + r * stride + h * head_dim.
struct HeadRows {
  size_t first = 0;
  size_t stride = 0;
};

// Per head and window softmax(scale * q k^T) v without a causal mask; bf16 output. Window w is rows
// w * length .. of all four. Arguments: q, k, v, o.
struct Attention {
  size_t windows = 1;
  size_t length = 0;  // rows of a window: queries, and keys unless key_words
  size_t heads = 0;
  size_t head_dim = 0;
  HeadRows q;
  HeadRows k;
  HeadRows v;
  HeadRows o;
  float scale = 1.0f;
  bool base2 = false;  // 2^(scale * q k) in place of e^(...)
  // Words of the instruction stream that hold the number of valid keys, and those that hold
  // no_window while every key is seen. Empty: fixed.
  std::vector<uint32_t> key_words;
  std::vector<uint32_t> window_words;
  uint32_t no_window = 0;

  [[nodiscard]] size_t elements(const HeadRows& rows) const {
    return rows.first + (windows * length - 1) * rows.stride + heads * head_dim;
  }
};

// Half-split rotation of `heads` runs of head_dim columns by a bf16 table [rows, head_dim] of
// interleaved cosines and sines. Arguments: x, table, y.
struct Rope {
  size_t rows = 0;
  size_t heads = 0;
  size_t head_dim = 0;
  size_t in_stride = 0;
  size_t out_stride = 0;
};

// x_out = x + delta; h = (x_out - mean) / sqrt(variance + eps), of x_out as stored. delta and h are
// bf16. Rows are dense. Arguments: x, delta, x_out, h.
struct AddNorm {
  size_t rows = 0;
  size_t columns = 0;
  float eps = 1e-6f;
  bool residual_f32 = false;  // x and x_out are float32, else bf16
};

using Operation = std::variant<Gemm, Attention, Rope, AddNorm>;

// Arguments and which of them (bit i: argument i) the kernel writes.
[[nodiscard]] size_t argument_count(const Operation& operation);
[[nodiscard]] uint32_t written_arguments(const Operation& operation);
// Multiplications and additions, 0 where they do not count: the work label of a context.
[[nodiscard]] uint64_t operation_count(const Operation& operation);
// "GEMM", "attention", ...: for messages.
[[nodiscard]] const char* operation_name(const Operation& operation);

}  // namespace npuseg::npu

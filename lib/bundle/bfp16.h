// SPDX-License-Identifier: Apache-2.0
// bfp16ebs8: eight values that share an exponent, and the tile order in which the NPU reads a
// matrix of them (spec iron-bundle-sam3, section 5). Byte-exact in both directions.
//
// A block is 9 bytes: the shared biased exponent E, then eight int8 mantissas; a value is
// mantissa * 2^(E - 133). The eight values of a block are consecutive k of one column of B [K, N].
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "core/status.h"

namespace npuseg::bundle {

constexpr size_t kBlockValues = 8;
constexpr size_t kBlockBytes = 9;

// values[i * stride], i < 8 -> 9 bytes. Rounds to nearest even, saturates at +127 without a larger
// exponent. What the format makes of negative values far below the largest (-1, not 0), of
// subnormals and of infinities is kept bit by bit; who must not pack such values checks first.
void pack_block(const float* values, size_t stride, unsigned char* block);

// Exact, also as bfloat16 (seven mantissa bits), but for E > 248, where large mantissas overflow to
// infinity. E == 0 gives zeros.
void unpack_block(const unsigned char* block, float* values);

// Geometry of a packed B [k, n]: n/tile_n column blocks, each a chunk with the block's biases
// (when `bias`; ct_k * tile_n * 9/8 bytes, of which 2 * tile_n are bfloat16 values and the rest
// zero) and k * tile_n values.
struct PackedLayout {
  size_t k = 0;
  size_t n = 0;
  size_t tile_k = 0;  // does not change the order of the bytes
  size_t tile_n = 0;
  size_t ct_k = 0;  // depth of the slices in which k is consumed
  bool bias = false;

  // Bytes of a column block's bias chunk and of the whole column block.
  [[nodiscard]] size_t chunk_bytes() const { return bias ? ct_k * tile_n / 8 * kBlockBytes : 0; }
  [[nodiscard]] size_t column_block_bytes() const {
    return chunk_bytes() + k * tile_n / 8 * kBlockBytes;
  }
  // Bytes of the packed matrix.
  [[nodiscard]] size_t bytes() const { return n / tile_n * column_block_bytes(); }
  // Where the block of column `col` and rows 8 * group .. 8 * group + 7 lies.
  [[nodiscard]] size_t block_offset(size_t group, size_t col) const {
    const size_t slice_groups = ct_k / 8;
    const size_t inside = ((group / slice_groups * (tile_n / 8) + col % tile_n / 8) * slice_groups +
                           group % slice_groups) *
                              8 +
                          col % 8;
    return col / tile_n * column_block_bytes() + chunk_bytes() + inside * kBlockBytes;
  }
};

// Tile sizes that divide, and sizes whose product does not overflow. All other functions take only
// layouts that pass. `what` names the kernel in the message ("gemm v_qkv").
core::Status check_layout(const PackedLayout& layout, const std::string& what);

// B's element (row, col) is b[row * row_stride + col * col_stride]; a torch weight [n, k] has row
// stride 1 and column stride k. `bias` has n values, null for none (required with layout.bias; a
// layout without bias ignores it). INVALID_ARGUMENT unless `packed` has layout.bytes().
core::Status pack_matrix(const PackedLayout& layout, const float* b, size_t row_stride,
                         size_t col_stride, const float* bias, std::span<unsigned char> packed);

// Columns first_col .. first_col + cols - 1 and rows first_row .. first_row + rows - 1 of B, one
// column a row of `out`: out[c * out_stride + r], which is how a torch weight lies. first_row and
// rows are multiples of 8. `packed` has layout.bytes().
void unpack_columns(const PackedLayout& layout, std::span<const unsigned char> packed,
                    size_t first_col, size_t cols, size_t first_row, size_t rows, float* out,
                    size_t out_stride);
// The same as bfloat16 bits.
void unpack_columns_bf16(const PackedLayout& layout, std::span<const unsigned char> packed,
                         size_t first_col, size_t cols, size_t first_row, size_t rows,
                         uint16_t* out, size_t out_stride);

// Biases of some columns; zeros without layout.bias.
void unpack_bias(const PackedLayout& layout, std::span<const unsigned char> packed,
                 size_t first_col, size_t cols, float* out);

}  // namespace npuseg::bundle

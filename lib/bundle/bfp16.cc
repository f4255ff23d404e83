// SPDX-License-Identifier: Apache-2.0
#include "bundle/bfp16.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "core/bf16.h"

namespace npuseg::bundle {

using core::Code;
using core::format;
using core::Status;

namespace {

constexpr int kMantissaShift = 17;  // a float's 24-bit magnitude to seven bits
constexpr uint32_t kFarBelow = 32;  // exponent distance from which only the sign is left

// value / 2^shift, ties to even; 17 <= shift < 49, |value| < 2^24.
int64_t divide_to_even(int64_t value, uint32_t shift) {
  const int64_t floor = value >> shift;
  const int64_t rest = value - (floor << shift);
  const int64_t half = int64_t{1} << (shift - 1);
  return floor + (rest > half || (rest == half && (floor & 1) != 0) ? 1 : 0);
}

// 2^(E - 133), E >= 1; exact, subnormal below E = 7.
float scale_of(unsigned char exponent) {
  constexpr int kBias = 133;
  if (exponent > kBias - 127) {
    return std::bit_cast<float>((uint32_t{exponent} - (kBias - 127)) << 23);
  }
  return std::ldexp(1.0f, int{exponent} - kBias);
}

// Calls fn(block, row - first_row) for the blocks of one column in ascending rows. Those of a slice
// lie eight blocks apart, so that the place is computed once a slice.
template <class Fn>
void for_each_block(const PackedLayout& layout, std::span<const unsigned char> packed, size_t col,
                    size_t first_row, size_t rows, Fn&& fn) {
  const size_t slice_groups = layout.ct_k / kBlockValues;
  size_t group = first_row / kBlockValues;
  const size_t end = group + rows / kBlockValues;
  size_t row = 0;
  while (group < end) {
    const size_t slice_end = std::min(end, (group / slice_groups + 1) * slice_groups);
    const unsigned char* block = packed.data() + layout.block_offset(group, col);
    for (; group < slice_end; ++group) {
      fn(block, row);
      block += 8 * kBlockBytes;
      row += kBlockValues;
    }
  }
}

}  // namespace

void pack_block(const float* values, size_t stride, unsigned char* block) {
  uint32_t bits[kBlockValues];
  uint32_t largest = 0;
  for (size_t i = 0; i < kBlockValues; ++i) {
    bits[i] = std::bit_cast<uint32_t>(values[i * stride]);
    largest = std::max(largest, (bits[i] >> 23) & 0xffu);
  }
  block[0] = static_cast<unsigned char>(largest);
  for (size_t i = 0; i < kBlockValues; ++i) {
    const bool negative = (bits[i] >> 31) != 0;
    const uint32_t exponent = (bits[i] >> 23) & 0xffu;
    const uint32_t below = largest - exponent;
    int64_t mantissa = negative ? -1 : 0;
    if (below < kFarBelow) {
      const auto magnitude =
          static_cast<int64_t>((bits[i] & 0x7fffffu) | (exponent != 0 ? 0x800000u : 0u));
      mantissa = divide_to_even(negative ? -magnitude : magnitude, kMantissaShift + below);
    }
    const auto byte = static_cast<int8_t>(std::clamp<int64_t>(mantissa, -128, 127));
    block[1 + i] = static_cast<unsigned char>(byte);
  }
}

void unpack_block(const unsigned char* block, float* values) {
  if (block[0] == 0) {
    std::fill_n(values, kBlockValues, 0.0f);
    return;
  }
  const float scale = scale_of(block[0]);
  for (size_t i = 0; i < kBlockValues; ++i) {
    values[i] = static_cast<float>(static_cast<int8_t>(block[1 + i])) * scale;
  }
}

Status check_layout(const PackedLayout& layout, const std::string& what) {
  const auto refuse = [&](const std::string& why) {
    return Status(Code::kCorruptData,
                  "cannot use bundle: " + what + ": " + why + "; export the bundle again");
  };
  const struct {
    const char* name;
    size_t value;
  } sizes[] = {{"K", layout.k},
               {"N", layout.n},
               {"tile_k", layout.tile_k},
               {"tile_n", layout.tile_n},
               {"ct_k", layout.ct_k}};
  // Far above every model, far below an overflow of products of two.
  constexpr size_t kMost = size_t{1} << 26;
  for (const auto& size : sizes) {
    if (size.value == 0 || size.value > kMost) {
      return refuse(
          format("%s is %zu, between 1 and %zu is possible", size.name, size.value, kMost));
    }
  }
  const struct {
    const char* name;
    size_t value;
    const char* by_name;
    size_t by;
  } divisions[] = {{"K", layout.k, "tile_k", layout.tile_k},
                   {"N", layout.n, "tile_n", layout.tile_n},
                   {"tile_k", layout.tile_k, "ct_k", layout.ct_k},
                   {"ct_k", layout.ct_k, "the block", 8},
                   {"tile_n", layout.tile_n, "the block", 8}};
  for (const auto& division : divisions) {
    if (division.value % division.by != 0) {
      return refuse(format("%s %zu is no multiple of %s %zu", division.name, division.value,
                           division.by_name, division.by));
    }
  }
  return {};
}

Status pack_matrix(const PackedLayout& layout, const float* b, size_t row_stride, size_t col_stride,
                   const float* bias, std::span<unsigned char> packed) {
  if (packed.size() != layout.bytes() || (layout.bias && bias == nullptr)) {
    return Status(Code::kInvalidArgument,
                  format("cannot pack a matrix: %zu x %zu%s takes %zu bytes, %zu are given%s",
                         layout.k, layout.n, layout.bias ? " with bias" : "", layout.bytes(),
                         packed.size(), bias == nullptr ? ", no bias" : ""));
  }
  if (layout.bias) {
    for (size_t first = 0; first < layout.n; first += layout.tile_n) {
      unsigned char* chunk = packed.data() + first / layout.tile_n * layout.column_block_bytes();
      std::memset(chunk, 0, layout.chunk_bytes());
      for (size_t i = 0; i < layout.tile_n; ++i) {
        const uint16_t value = core::to_bf16(bias[first + i]);
        chunk[2 * i] = static_cast<unsigned char>(value);
        chunk[2 * i + 1] = static_cast<unsigned char>(value >> 8);
      }
    }
  }
  for (size_t col = 0; col < layout.n; ++col) {
    for (size_t group = 0; group < layout.k / kBlockValues; ++group) {
      pack_block(b + group * kBlockValues * row_stride + col * col_stride, row_stride,
                 packed.data() + layout.block_offset(group, col));
    }
  }
  return {};
}

void unpack_columns(const PackedLayout& layout, std::span<const unsigned char> packed,
                    size_t first_col, size_t cols, size_t first_row, size_t rows, float* out,
                    size_t out_stride) {
  for (size_t c = 0; c < cols; ++c) {
    for_each_block(layout, packed, first_col + c, first_row, rows,
                   [&, row = out + c * out_stride](const unsigned char* block, size_t r) {
                     unpack_block(block, row + r);
                   });
  }
}

void unpack_columns_bf16(const PackedLayout& layout, std::span<const unsigned char> packed,
                         size_t first_col, size_t cols, size_t first_row, size_t rows,
                         uint16_t* out, size_t out_stride) {
  for (size_t c = 0; c < cols; ++c) {
    for_each_block(layout, packed, first_col + c, first_row, rows,
                   [&, row = out + c * out_stride](const unsigned char* block, size_t r) {
                     float values[kBlockValues];
                     unpack_block(block, values);
                     for (size_t i = 0; i < kBlockValues; ++i) {
                       row[r + i] = static_cast<uint16_t>(std::bit_cast<uint32_t>(values[i]) >> 16);
                     }
                   });
  }
}

void unpack_bias(const PackedLayout& layout, std::span<const unsigned char> packed,
                 size_t first_col, size_t cols, float* out) {
  for (size_t c = 0; c < cols; ++c) {
    if (!layout.bias) {
      out[c] = 0;
      continue;
    }
    const size_t col = first_col + c;
    const unsigned char* at =
        packed.data() + col / layout.tile_n * layout.column_block_bytes() + col % layout.tile_n * 2;
    out[c] = core::from_bf16(static_cast<uint16_t>(at[0] | (at[1] << 8)));
  }
}

}  // namespace npuseg::bundle

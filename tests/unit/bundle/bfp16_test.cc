// SPDX-License-Identifier: Apache-2.0
// bfp16ebs8 and bfloat16 against the golden values of spec iron-bundle-sam3, 5.1 and 19.1 - 19.3.
#include "bundle/bfp16.h"

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "cmocka_cpp.h"
#include "core/bf16.h"
#include "golden_values.h"

namespace {

using namespace npuseg::bundle;
using npuseg::core::Code;
using npuseg::core::from_bf16;
using npuseg::core::to_bf16;
using npuseg::test::crc32;
using npuseg::test::val;
using npuseg::test::wild;

float bits(uint32_t value) { return std::bit_cast<float>(value); }

void test_bf16(void**) {
  std::vector<uint16_t> all(65536);
  for (size_t i = 0; i < all.size(); ++i) all[i] = to_bf16(wild(i));
  assert_int_equal(crc32(all.data(), all.size() * 2), 0x801e8fc2);
  all.resize(4096);
  for (size_t i = 0; i < all.size(); ++i) all[i] = to_bf16(val(i));
  assert_int_equal(crc32(all.data(), all.size() * 2), 0x0a79e632);
  const struct {
    uint32_t from;
    uint16_t to;
  } cases[] = {{0x00000001, 0x0000}, {0x80000001, 0x8000}, {0x00008000, 0x0000},
               {0x00008001, 0x0001}, {0x00018000, 0x0002}, {0x3f808000, 0x3f80},
               {0x3f818000, 0x3f82}, {0x3f808001, 0x3f81}, {0x7f800000, 0x7f80},
               {0xffffffff, 0xffff}, {0x7f7fffff, 0x7f80}, {0x7f7f8000, 0x7f80},
               {0x7f7f7fff, 0x7f7f}, {0x7f800001, 0x7fc0}, {0x7fbfffff, 0x7fff}};
  for (const auto& one : cases) assert_int_equal(to_bf16(bits(one.from)), one.to);
  for (uint32_t i = 0; i < 65536; ++i) {
    const float wide = from_bf16(static_cast<uint16_t>(i));
    if (!std::isnan(wide)) assert_int_equal(to_bf16(wide), i);
  }
}

struct BlockCase {
  std::array<float, 8> values;
  int exponent;
  std::array<int, 8> mantissas;
};

void test_blocks(void**) {
  const float inf = std::numeric_limits<float>::infinity();
  const float top = std::numeric_limits<float>::max();
  const float nan = bits(0x7fc00000);
  const auto two = [](int power) { return std::ldexp(1.0f, power); };
  const BlockCase cases[] = {
      {{64, 14.9375f, 106.5f, 94.5f, 0, -1.5f, -2.5f, 3}, 133, {64, 15, 106, 94, 0, -2, -2, 3}},
      {{1, -0.0f, 0.0f, -1e-30f, 1.9999f, -1.9999f, -two(-8), two(-7)},
       127,
       {64, -1, 0, -1, 127, -128, 0, 0}},
      {{0, 0, 0, 0, 0, 0, 0, 0}, 0, {0, 0, 0, 0, 0, 0, 0, 0}},
      {{-0.0f, -0.0f, -0.0f, -0.0f, -0.0f, -0.0f, -0.0f, -0.0f}, 0, {0, 0, 0, 0, 0, 0, 0, 0}},
      {{bits(0x00000001), bits(0x80000001), bits(0x007fffff), bits(0x807fffff), 0, -0.0f,
        bits(0x00400000), bits(0x00010000)},
       0,
       {0, 0, 64, -64, 0, 0, 32, 0}},
      {{two(-126), -two(-126), bits(0x007fffff), bits(0x807fffff), bits(0x00000001),
        bits(0x80000001), 0, -0.0f},
       1,
       {64, -64, 32, -32, 0, 0, 0, 0}},
      {{inf, -inf, 1, -1, 0, -0.0f, top, -top}, 255, {64, -64, 0, -1, 0, -1, 64, -64}},
      {{nan, -nan, 1, -1, 0, -0.0f, 2, -2}, 255, {96, -96, 0, -1, 0, -1, 0, -1}},
      {{64, 0.5f, 1.5f, 2.5f, 3.5f, -0.5f, -1.5f, -2.5f}, 133, {64, 0, 2, 2, 4, 0, -2, -2}},
      {{64, 0.50001f, 0.49999f, -0.50001f, -0.49999f, 63.5f, -63.5f, 62.5f},
       133,
       {64, 1, 0, -1, 0, 64, -64, 62}},
      {{127.5f, -127.5f, 127.4999f, 127, -127, 126.5f, -126.5f, 127.75f},
       133,
       {127, -128, 127, 127, -127, 126, -126, 127}},
      {{-127.99f, 127.99f, -64, 64, 1, -1, 0.25f, -0.25f}, 133, {-128, 127, -64, 64, 1, -1, 0, 0}},
      {{1, two(-31), -two(-31), two(-32), -two(-32), two(-33), -two(-33), -1},
       127,
       {64, 0, 0, 0, -1, 0, -1, -64}},
      {{1, two(-6), two(-7), two(-8), -two(-7), -two(-8), -1.5f * two(-7), 1.5f * two(-7)},
       127,
       {64, 1, 0, 0, 0, 0, -1, 1}},
      {{2, 1, -2, -1, 1.984375f, -1.984375f, 1.9921875f, -1.9921875f},
       128,
       {64, 32, -64, -32, 64, -64, 64, -64}},
  };
  for (const BlockCase& one : cases) {
    unsigned char block[kBlockBytes];
    pack_block(one.values.data(), 1, block);
    assert_int_equal(block[0], one.exponent);
    for (size_t i = 0; i < 8; ++i) {
      assert_int_equal(static_cast<int8_t>(block[1 + i]), one.mantissas[i]);
    }
    float back[8];
    unpack_block(block, back);
    for (size_t i = 0; i < 8; ++i) {
      const double want =
          one.exponent == 0 ? 0.0 : std::ldexp(double(one.mantissas[i]), one.exponent - 133);
      assert_true(back[i] == static_cast<float>(want));
      if (one.exponent <= 248) assert_true(from_bf16(to_bf16(back[i])) == back[i]);
    }
  }
}

void test_many_blocks(void**) {
  std::vector<unsigned char> packed(8192 * kBlockBytes);
  const auto pack_all = [&](auto&& value) {
    for (size_t i = 0; i < 8192; ++i) {
      float values[8];
      for (size_t j = 0; j < 8; ++j) values[j] = value(8 * i + j);
      pack_block(values, 1, packed.data() + i * kBlockBytes);
    }
    return crc32(packed.data(), packed.size());
  };
  assert_int_equal(pack_all(wild), 0x0bd0b8a0);
  assert_int_equal(
      pack_all([](size_t n) { return std::ldexp(val(n), static_cast<int>(n % 23) - 11); }),
      0x30d753d4);
}

struct MatrixCase {
  PackedLayout layout;
  size_t bytes;
  uint32_t crc;
  unsigned char first[18];
  unsigned char last[9];
};

const MatrixCase kMatrices[] = {
    {{8, 8, 8, 8, 8, false},
     72,
     0xe30db5c4,
     {0x7f, 0x83, 0x20, 0xc3, 0x61, 0x04, 0xa7, 0x44, 0xe7, 0x7f, 0x72, 0x15, 0xb8, 0x55, 0xf8,
      0x9b, 0x38, 0xdb},
     {0x7f, 0x2c, 0xcf, 0x6c, 0x0f, 0xb2, 0x50, 0xf3, 0x96}},
    {{16, 16, 16, 8, 8, true},
     432,
     0x0fb2e8b3,
     {0x7f, 0x83, 0xc3, 0x04, 0x44, 0x8a, 0xca, 0x0b, 0x4b, 0x7f, 0x72, 0xb8, 0xf8, 0x38, 0x79,
      0xbf, 0xff, 0x40},
     {0x7f, 0xdd, 0x1e, 0x5e, 0xa4, 0xe4, 0x25, 0x65, 0xab}},
    {{64, 32, 32, 16, 16, false},
     2304,
     0xa6409ac3,
     {0x7f, 0x83, 0x04, 0x8a, 0x0b, 0x91, 0x12, 0x98, 0x19, 0x7f, 0x72, 0xf8, 0x79, 0xff, 0x86,
      0x06, 0x8d, 0x0d},
     {0x7f, 0xdc, 0x5d, 0xe4, 0x64, 0xeb, 0x6b, 0xf2, 0x72}},
    {{64, 32, 32, 16, 16, true},
     2880,
     0xc1bf958d,
     {0x7f, 0x83, 0x04, 0x8a, 0x0b, 0x91, 0x12, 0x98, 0x19, 0x7f, 0x72, 0xf8, 0x79, 0xff, 0x86,
      0x06, 0x8d, 0x0d},
     {0x7f, 0xdc, 0x5d, 0xe4, 0x64, 0xeb, 0x6b, 0xf2, 0x72}},
    {{64, 32, 64, 32, 32, true},
     3456,
     0x540fb879,
     {0x7f, 0x83, 0x04, 0x8a, 0x0b, 0x91, 0x12, 0x98, 0x19, 0x7f, 0x72, 0xf8, 0x79, 0xff, 0x86,
      0x06, 0x8d, 0x0d},
     {0x7f, 0xdc, 0x5d, 0xe4, 0x64, 0xeb, 0x6b, 0xf2, 0x72}},
    {{128, 64, 64, 32, 32, true},
     11520,
     0x4b69828d,
     {0x7f, 0x83, 0x8a, 0x91, 0x98, 0x9f, 0xa6, 0xae, 0xb5, 0x7f, 0x72, 0x79, 0x86, 0x8d, 0x94,
      0x9b, 0xa2, 0xa9},
     {0x7e, 0xfb, 0x09, 0x18, 0x26, 0x34, 0x42, 0x50, 0x5f}},
    {{256, 256, 256, 32, 32, true},
     82944,
     0x833d1e9e,
     {0x7f, 0x83, 0x9f, 0xbc, 0xd8, 0xf5, 0x11, 0x2e, 0x4a, 0x7f, 0x72, 0x94, 0xb0, 0xcd, 0xe9,
      0x06, 0x22, 0x3f},
     {0x7f, 0xe4, 0x01, 0x1e, 0x3a, 0x56, 0x73, 0x95, 0xb2}},
    {{256, 256, 128, 128, 32, true},
     82944,
     0x9fa3643c,
     {0x7f, 0x83, 0x9f, 0xbc, 0xd8, 0xf5, 0x11, 0x2e, 0x4a, 0x7f, 0x72, 0x94, 0xb0, 0xcd, 0xe9,
      0x06, 0x22, 0x3f},
     {0x7f, 0xe4, 0x01, 0x1e, 0x3a, 0x56, 0x73, 0x95, 0xb2}},
    {{256, 128, 256, 64, 128, true},
     55296,
     0x2956f71b,
     {0x7f, 0x83, 0x91, 0x9f, 0xae, 0xbc, 0xca, 0xd8, 0xe7, 0x7f, 0x72, 0x86, 0x94, 0xa2, 0xb0,
      0xbe, 0xcd, 0xdb},
     {0x7f, 0xba, 0xc8, 0xd6, 0xe4, 0xf2, 0x01, 0x0f, 0x1d}},
    {{512, 96, 512, 32, 64, false},
     55296,
     0x9d8ad604,
     {0x7f, 0x83, 0x0b, 0x98, 0x20, 0xae, 0x36, 0xc3, 0x4b, 0x7f, 0x72, 0xff, 0x8d, 0x14, 0xa2,
      0x2a, 0xb7, 0x3f},
     {0x7f, 0x9d, 0x24, 0xb2, 0x3a, 0xc7, 0x4f, 0xdd, 0x65}},
    {{768, 64, 256, 64, 128, false},
     55296,
     0xaead22f2,
     {0x7f, 0x83, 0x8a, 0x91, 0x98, 0x9f, 0xa6, 0xae, 0xb5, 0x7f, 0x72, 0x79, 0x86, 0x8d, 0x94,
      0x9b, 0xa2, 0xa9},
     {0x7f, 0x33, 0x3a, 0x41, 0x48, 0x4f, 0x56, 0x5e, 0x65}},
    {{40, 24, 40, 24, 40, true},
     2160,
     0x73e1d145,
     {0x7f, 0x83, 0x61, 0x44, 0x27, 0x0b, 0xee, 0xd2, 0xb5, 0x7f, 0x72, 0x55, 0x38, 0x1c, 0xff,
      0xe2, 0xc6, 0xa9},
     {0x7f, 0xc7, 0xab, 0x8e, 0x6c, 0x4f, 0x33, 0x16, 0xf9}},
};

std::vector<float> matrix_of(const PackedLayout& layout) {
  std::vector<float> b(layout.k * layout.n);
  for (size_t i = 0; i < b.size(); ++i) b[i] = val(i);
  return b;
}

std::vector<float> bias_of(const PackedLayout& layout) {
  std::vector<float> bias(layout.n);
  for (size_t i = 0; i < bias.size(); ++i) bias[i] = val(i + 5);
  return bias;
}

void test_matrices(void**) {
  for (const MatrixCase& one : kMatrices) {
    const PackedLayout& layout = one.layout;
    assert_true(check_layout(layout, "gemm x").ok());
    assert_int_equal(layout.bytes(), one.bytes);
    const std::vector<float> b = matrix_of(layout);
    const std::vector<float> bias = bias_of(layout);
    // Filled, so that what packing leaves out is seen.
    std::vector<unsigned char> packed(one.bytes, 0xa5);
    assert_true(pack_matrix(layout, b.data(), layout.n, 1, bias.data(), packed).ok());
    assert_int_equal(crc32(packed.data(), packed.size()), one.crc);
    const size_t chunk = layout.chunk_bytes();
    assert_memory_equal(packed.data() + chunk, one.first, std::min<size_t>(18, one.bytes - chunk));
    assert_memory_equal(packed.data() + packed.size() - 9, one.last, 9);
    if (layout.bias) {
      const unsigned char start[] = {0x86, 0x3f, 0x5e, 0x3f, 0x30, 0x3f};
      assert_memory_equal(packed.data(), start, sizeof start);
    }
    // The same from the transpose, which is how a linear layer's weight lies.
    std::vector<float> transposed(b.size());
    for (size_t k = 0; k < layout.k; ++k) {
      for (size_t n = 0; n < layout.n; ++n) transposed[n * layout.k + k] = b[k * layout.n + n];
    }
    std::vector<unsigned char> again(one.bytes, 0);
    assert_true(pack_matrix(layout, transposed.data(), 1, layout.k, bias.data(), again).ok());
    assert_memory_equal(again.data(), packed.data(), packed.size());
  }
}

void test_unpacking(void**) {
  for (const MatrixCase& one : kMatrices) {
    const PackedLayout& layout = one.layout;
    const std::vector<float> b = matrix_of(layout);
    const std::vector<float> bias = bias_of(layout);
    std::vector<unsigned char> packed(one.bytes);
    assert_true(pack_matrix(layout, b.data(), layout.n, 1, bias.data(), packed).ok());
    std::vector<float> whole(layout.n * layout.k);
    unpack_columns(layout, packed, 0, layout.n, 0, layout.k, whole.data(), layout.k);
    for (size_t n = 0; n < layout.n; ++n) {
      for (size_t group = 0; group < layout.k; group += 8) {
        const unsigned char* block = packed.data() + layout.block_offset(group / 8, n);
        // Half a step of the block, but for what saturated at +127.
        const double bound = std::ldexp(1.0, int{block[0]} - 134);
        for (size_t j = 0; j < 8; ++j) {
          const double error =
              double(whole[n * layout.k + group + j]) - double(b[(group + j) * layout.n + n]);
          assert_true(std::fabs(error) <= bound ||
                      (static_cast<int8_t>(block[1 + j]) == 127 && std::fabs(error) <= 2 * bound));
        }
      }
    }
    // Part of the columns and rows into a wider output; nothing else is written.
    const size_t first_row = layout.k > 8 ? 8 : 0;
    const size_t rows = layout.k - first_row;
    const size_t first_col = layout.n / 3;
    const size_t cols = layout.n - first_col - 1;
    std::vector<float> part(cols * (rows + 3), -7.0f);
    std::vector<uint16_t> half(cols * (rows + 3), 0xdead);
    unpack_columns(layout, packed, first_col, cols, first_row, rows, part.data(), rows + 3);
    unpack_columns_bf16(layout, packed, first_col, cols, first_row, rows, half.data(), rows + 3);
    for (size_t c = 0; c < cols; ++c) {
      for (size_t r = 0; r < rows + 3; ++r) {
        const float value = part[c * (rows + 3) + r];
        const uint16_t narrow = half[c * (rows + 3) + r];
        if (r >= rows) {
          assert_true(value == -7.0f && narrow == 0xdead);
          continue;
        }
        assert_true(value == whole[(first_col + c) * layout.k + first_row + r]);
        assert_true(from_bf16(narrow) == value);
      }
    }
    std::vector<float> biases(cols);
    unpack_bias(layout, packed, first_col, cols, biases.data());
    for (size_t c = 0; c < cols; ++c) {
      const float want = layout.bias ? npuseg::core::round_to_bf16(bias[first_col + c]) : 0.0f;
      assert_true(biases[c] == want);
    }
  }
}

void test_bad_layouts(void**) {
  const struct {
    PackedLayout layout;
    const char* word;
  } cases[] = {
      {{0, 8, 8, 8, 8, false}, "K is 0"},
      {{8, 8, 8, 0, 8, false}, "tile_n is 0"},
      {{8, 8, 8, 8, 0, false}, "ct_k is 0"},
      {{SIZE_MAX - 7, 8, 8, 8, 8, false}, "K is"},
      {{24, 8, 16, 8, 8, false}, "K 24 is no multiple of tile_k 16"},
      {{16, 24, 16, 16, 8, false}, "N 24 is no multiple of tile_n 16"},
      {{32, 8, 32, 8, 24, false}, "tile_k 32 is no multiple of ct_k 24"},
      {{12, 8, 12, 8, 12, false}, "ct_k 12 is no multiple of the block 8"},
      {{8, 12, 8, 12, 8, false}, "tile_n 12 is no multiple of the block 8"},
  };
  for (const auto& one : cases) {
    const auto status = check_layout(one.layout, "gemm v_o");
    assert_int_equal(static_cast<int>(status.code()), static_cast<int>(Code::kCorruptData));
    assert_non_null(std::strstr(status.message().c_str(), one.word));
    assert_non_null(std::strstr(status.message().c_str(), "gemm v_o"));
  }
  const PackedLayout layout{8, 8, 8, 8, 8, true};
  const std::vector<float> b(64, 1.0f);
  std::vector<unsigned char> packed(layout.bytes());
  assert_false(pack_matrix(layout, b.data(), 8, 1, nullptr, packed).ok());
  packed.pop_back();
  assert_false(pack_matrix(layout, b.data(), 8, 1, b.data(), packed).ok());
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(test_bf16),      cmocka_unit_test(test_blocks),
      cmocka_unit_test(test_matrices),  cmocka_unit_test(test_many_blocks),
      cmocka_unit_test(test_unpacking), cmocka_unit_test(test_bad_layouts),
  };
  return cmocka_run_group_tests_name("bfp16", tests, nullptr, nullptr);
}

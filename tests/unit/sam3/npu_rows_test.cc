// SPDX-License-Identifier: Apache-2.0
// What the NPU graph's host computes itself, against the golden values of spec iron-bundle-sam3,
// 19.7 and 19.8, to the bit.
#include "model/sam3/npu_rows.h"

#include <bit>
#include <cmath>
#include <vector>

#include "compute/attention.h"
#include "golden_values.h"
#include "model/sam3/layers.h"
#include "model/sam3/npu_fold.h"
// Behind all others.
#include "fixture.h"

namespace {

using namespace npuseg::sam3;
using namespace npuseg::test;
using npuseg::bundle::PackedLayout;
using npuseg::core::Call;
using npuseg::core::DType;
using npuseg::core::Matrix;
using npuseg::core::MatrixView;
using npuseg::core::Shape;
using npuseg::core::TensorView;

uint32_t bits(float value) { return std::bit_cast<uint32_t>(value); }

uint32_t crc_of(const std::vector<float>& values) {
  return crc32(values.data(), values.size() * sizeof(float));
}

TensorView view_of(const std::vector<float>& values, const Shape& shape) {
  return {values.data(), DType::kF32, shape, nullptr};
}

void test_scalars(void**) {
  const struct {
    float x;
    uint32_t exp;
    uint32_t erf;
  } cases[] = {{0.0f, 0x3f800000, 0x00000000},   {0.3f, 0x3facc82c, 0x3ea841c6},
               {-0.3f, 0x3f3da643, 0xbea841c6},  {1.0f, 0x402df854, 0x3f57bb44},
               {-1.0f, 0x3ebc5ab1, 0xbf57bb44},  {2.5f, 0x4142eb7e, 0x3f7fe554},
               {50.0f, 0x638c8814, 0x3f800000},  {HUGE_VALF, 0x7e36d7ee, 0x3f800000},
               {-87.0f, 0x00b336a1, 0xbf800000}, {-100.0f, 0x00b336a1, 0xbf800000}};
  for (const auto& one : cases) {
    assert_int_equal(bits(fast_exp(one.x)), one.exp);
    assert_int_equal(bits(fast_erf(one.x)), one.erf);
  }
  std::vector<float> exponentials(8192);
  std::vector<float> errors(8192);
  for (size_t i = 0; i < 8192; ++i) {
    const float x = (static_cast<float>(i) - 4096.0f) / 512.0f;
    exponentials[i] = fast_exp(x);
    errors[i] = fast_erf(x);
  }
  assert_int_equal(crc_of(exponentials), 0x7f147ca8);
  assert_int_equal(crc_of(errors), 0x1298d0e5);
}

void test_gelu(void**) {
  const std::vector<uint16_t> table = make_gelu_table();
  std::vector<uint16_t> finite;
  for (uint32_t i = 0; i < 65536; ++i) {
    if ((i & 0x7f80) != 0x7f80) finite.push_back(table[i]);
  }
  assert_int_equal(finite.size(), 65280);
  assert_int_equal(crc32(finite.data(), finite.size() * 2), 0xd66ddfb4);
  assert_int_equal(table[0xc040], 0xbb85);
  assert_true((table[0x7fc0] & 0x7fff) > 0x7f80);  // a NaN stays one
}

void test_softmax(void**) {
  const struct {
    size_t count;
    uint32_t crc;
  } cases[] = {{7, 0x96f5d6ac}, {8, 0xd60d54ce}, {32, 0xdd55dbda}, {33, 0x2ee96e0a}};
  for (const auto& one : cases) {
    std::vector<float> row(one.count + 5, 7.0f);
    for (size_t i = 0; i < one.count; ++i) row[i] = val(i);
    softmax_row(row.data(), one.count, row.size());
    assert_int_equal(crc32(row.data(), one.count * sizeof(float)), one.crc);
    for (size_t i = one.count; i < row.size(); ++i) assert_true(row[i] == 0.0f);
  }
  std::vector<float> none(4, -HUGE_VALF);
  softmax_row(none.data(), 4, 4);
  for (const float value : none) assert_true(value == 0.0f);
}

void test_norms(void**) {
  std::vector<float> x(64);
  std::vector<float> gamma(64);
  std::vector<float> beta(64);
  for (size_t i = 0; i < 64; ++i) {
    x[i] = val(i);
    gamma[i] = 1.0f + val(i + 3) / 8.0f;
    beta[i] = val(i + 9) / 4.0f;
  }
  RowNorm({view_of(gamma, {64}), view_of(beta, {64}), 1e-5f}, 64).apply(x.data(), x.data());
  assert_int_equal(crc_of(x), 0x486c885d);

  std::vector<float> map(36 * 64);
  for (size_t i = 0; i < map.size(); ++i) {
    map[i] = val(i) + static_cast<float>(i % 64) / 16.0f;
  }
  for (size_t i = 0; i < 64; ++i) {
    gamma[i] = 1.0f + val(i) / 8.0f;
    beta[i] = val(i + 1) / 4.0f;
  }
  Call call;
  must(group_norm_relu({&call, nullptr}, 8, gamma.data(), beta.data(), 1e-5f,
                       {map.data(), 36, 64, 64}));
  assert_int_equal(crc_of(map), 0x85b6a226);
}

// Linear layers [out, in] of the values val(i + first) / 8.
struct Layer {
  Layer(size_t out, size_t in, size_t first_weight, size_t first_bias)
      : weight(out * in), bias(out) {
    for (size_t i = 0; i < weight.size(); ++i) weight[i] = val(i + first_weight) / 8.0f;
    for (size_t i = 0; i < out; ++i) bias[i] = val(i + first_bias) / 8.0f;
    views = {view_of(weight, {out, in}), view_of(bias, {out})};
  }
  std::vector<float> weight;
  std::vector<float> bias;
  LinearWeights views;
};

void test_folded_prompt(void**) {
  const Layer q(64, 64, 1, 2);
  const Layer k(64, 64, 3, 4);
  const Layer v(64, 64, 5, 6);
  const Layer o(64, 64, 7, 8);
  const AttentionWeights weights = {q.views, k.views, v.views, o.views};
  std::vector<float> prompt(32 * 64);
  for (size_t i = 0; i < prompt.size(); ++i) prompt[i] = val(i + 9);
  const PackedLayout s{64, 64, 32, 32, 32, true};
  const PackedLayout c{64, 64, 64, 16, 16, true};
  const struct {
    size_t valid;
    uint32_t s;
    uint32_t c;
  } cases[] = {
      {1, 0x559b836d, 0x8f63be34}, {5, 0xdef118dc, 0x9faefa81}, {32, 0xe0d7f725, 0x14cfd1f6}};
  for (const auto& one : cases) {
    for (const int threads : {1, 3}) {
      Call call(on_threads(threads));
      const FoldedPrompt folded = must(
          fold_prompt({&call, nullptr}, weights, 2, 32, s, c, {prompt.data(), one.valid, 64, 64}));
      assert_int_equal(folded.scores.size(), 6912);
      assert_int_equal(folded.context.size(), 5760);
      assert_int_equal(crc32(folded.scores.data(), folded.scores.size()), one.s);
      assert_int_equal(crc32(folded.context.data(), folded.context.size()), one.c);
    }
  }
  Call call;
  assert_false(fold_prompt({&call, nullptr}, weights, 2, 4, s, c, {prompt.data(), 5, 64, 64}).ok());
}

// The public program's sums run in another order, which another mantissa may show.
constexpr size_t kMostMantissas = 2;

void test_folded_masks(void**) {
  const Layer embed[3] = {{64, 64, 11, 14}, {64, 64, 12, 15}, {64, 64, 13, 16}};
  const Layer instance(64, 64, 17, 18);
  Layer semantic(1, 64, 19, 20);
  Weights weights;
  for (size_t i = 0; i < 3; ++i) weights.mask.mask_embedder[i] = embed[i].views;
  weights.mask.instance_projection = instance.views;
  weights.mask.semantic_projection = semantic.views;
  std::vector<float> hidden(5 * 64);
  for (size_t i = 0; i < hidden.size(); ++i) hidden[i] = val(i + 21);
  const PackedLayout layout{64, 32, 32, 32, 32, true};
  const npuseg::core::ConstMatrixView queries{hidden.data(), 5, 64, 64};
  const std::vector<uint32_t> all = {0, 1, 2, 3, 4};
  Call call;
  const PackedBytes packed = must(fold_masks({&call, nullptr}, weights, layout, queries, all));
  assert_int_equal(packed.size(), 3456);
  print_message("mask head: CRC %08x, published 7a2fd521\n", crc32(packed.data(), packed.size()));
  const unsigned char bias[] = {0x59, 0xbf, 0x0a, 0xc0, 0xe8, 0xbf,
                                0x5a, 0x3e, 0x09, 0x40, 0x56, 0xbe};
  assert_memory_equal(packed.data(), bias, sizeof bias);
  const unsigned char data[] = {0x82, 0xbd, 0xcd, 0xd8, 0xf2, 0x0a, 0x20, 0x43, 0x62,
                                0x82, 0xba, 0xad, 0xab, 0xb4, 0xc3, 0xd6, 0x03, 0x33};
  size_t different = 0;
  for (size_t i = 0; i < sizeof data; ++i) different += packed[1152 + i] != data[i] ? 1 : 0;
  assert_true(different <= kMostMantissas);

  // A column depends on its own query alone; those not asked for are zero.
  const std::vector<uint32_t> some = {3, 1};
  const PackedBytes fewer = must(fold_masks({&call, nullptr}, weights, layout, queries, some));
  std::vector<float> full(32 * 64);
  std::vector<float> part(32 * 64);
  npuseg::bundle::unpack_columns(layout, packed, 0, 32, 0, 64, full.data(), 64);
  npuseg::bundle::unpack_columns(layout, fewer, 0, 32, 0, 64, part.data(), 64);
  for (size_t column = 0; column < 32; ++column) {
    const bool asked = column == 1 || column == 3 || column == 5;
    for (size_t i = 0; i < 64; ++i) {
      assert_true(part[column * 64 + i] == (asked ? full[column * 64 + i] : 0.0f));
    }
  }
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(test_scalars),       cmocka_unit_test(test_gelu),
      cmocka_unit_test(test_softmax),       cmocka_unit_test(test_norms),
      cmocka_unit_test(test_folded_prompt), cmocka_unit_test(test_folded_masks),
  };
  return cmocka_run_group_tests_name("sam3 npu rows", tests, nullptr, nullptr);
}

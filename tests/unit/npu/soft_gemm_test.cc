// SPDX-License-Identifier: Apache-2.0
// GEMM on the software NPU against sums in double: biases, activations, pairs, split weights,
// slices of wider rows, overlapping rows, strides; faithful mode to the bit, fast mode within
// float32's error; no dependence on threads.
#include "soft_support.h"
// Behind all others.
#include "cmocka_cpp.h"

namespace {

using namespace npuseg::test;
using npuseg::npu::Gemm;
using npuseg::npu::GemmActivation;
using npuseg::npu::soft::Mode;

struct Case {
  const char* name;
  Gemm gemm;
  size_t planes = 1;
  size_t first = 0;  // column of A's rows where the view begins
};

Gemm gemm(size_t rows, size_t k, size_t n, size_t tile_n, size_t ct_k) {
  Gemm made;
  made.rows = rows;
  made.k = k;
  made.n = n;
  made.lda = k;
  made.c_stride = n;
  made.tile_k = made.ct_k = ct_k;
  made.tile_n = tile_n;
  return made;
}

std::vector<Case> cases() {
  std::vector<Case> list;
  list.push_back({"plain", gemm(32, 128, 96, 32, 32)});
  list.push_back({"one row, one block", gemm(1, 8, 8, 8, 8)});
  Case bias{"odd sizes with bias", gemm(37, 40, 72, 24, 40)};
  bias.gemm.bias = true;
  list.push_back(bias);
  Case relu{"bias and ReLU", gemm(19, 64, 64, 16, 16)};
  relu.gemm.bias = true;
  relu.gemm.activation = GemmActivation::kRelu;
  list.push_back(relu);
  Case gelu{"bias and GELU", gemm(7, 136, 48, 16, 8)};
  gelu.gemm.bias = true;
  gelu.gemm.activation = GemmActivation::kGeluTanh;
  list.push_back(gelu);
  // Several depths of a panel (384).
  list.push_back({"deep", gemm(13, 1280, 40, 8, 128)});
  list.push_back({"wide", gemm(5, 16, 520, 8, 16)});
  list.push_back({"split weights", gemm(21, 192, 64, 16, 16), 2});
  Case pair{"pairs", gemm(18, 64, 96, 32, 16)};
  pair.gemm.pair = true;
  pair.gemm.c_stride = 48;
  list.push_back(pair);
  Case wide_pair{"pairs, split, wider rows", gemm(9, 192, 160, 80, 16), 2};
  wide_pair.gemm.pair = true;
  wide_pair.gemm.c_stride = 99;
  list.push_back(wide_pair);
  Case slice{"slice of wider rows", gemm(16, 64, 64, 16, 16), 2, 128};
  slice.gemm.lda = 200;
  slice.gemm.c_stride = 65;
  list.push_back(slice);
  // 3x3 convolution, two pixels a row: K = 12 d, lda = 6 d.
  Case convolution{"overlapping rows", gemm(23, 96, 16, 16, 32)};
  convolution.gemm.lda = 48;
  list.push_back(convolution);
  return list;
}

struct Output {
  Halves c;
  bool ok = false;
};

Output compute(const Case& one, Mode mode, int threads, const Halves& a, const Weight& weight) {
  Machine machine(mode, threads);
  auto view = machine.buffer(a);
  view.offset = one.first * 2;
  view.bytes -= view.offset;
  const auto c = machine.buffer(Halves(one.gemm.rows * one.gemm.c_stride, 0x1234));
  const auto status = machine.run(one.gemm, {view, machine.buffer(weight.packed), c});
  if (!status.ok()) print_message("%s: %s\n", one.name, status.message().c_str());
  return {halves_of(c), status.ok()};
}

void test_products(void**) {
  Random random(1);
  for (const Case& one : cases()) {
    const Gemm& g = one.gemm;
    const Halves a = random.halves(one.first + g.a_elements() + 5);
    const Weight weight(g, one.planes, random);
    const auto expected = expect_gemm(g, a, one.first, weight);
    const Output faithful = compute(one, Mode::kFaithful, 1, a, weight);
    const Output fast = compute(one, Mode::kFast, 1, a, weight);
    assert_true(faithful.ok && fast.ok);
    Difference exact;
    Difference near;
    for (size_t r = 0; r < g.rows; ++r) {
      for (size_t j = 0; j < g.c_stride; ++j) {
        const size_t at = r * g.c_stride + j;
        if (j >= g.out_columns()) {
          assert_int_equal(faithful.c[at], 0x1234);
          assert_int_equal(fast.c[at], 0x1234);
          continue;
        }
        const Expected& e = expected[r * g.out_columns() + j];
        compare(faithful.c[at], e, g.k + 8, &exact);
        compare(fast.c[at], e, g.k + 8, &near);
      }
    }
    print_message("%-26s fast: %zu of %zu values round elsewhere\n", one.name, near.unequal,
                  near.values);
    assert_int_equal(exact.values, g.rows * g.out_columns());
    assert_int_equal(exact.unequal, 0);
    assert_int_equal(near.wrong, 0);
    // An error far below a unit of bf16 moves few values over a rounding boundary; more in GELU's
    // tail, the difference of nearly equal numbers.
    const size_t share = g.activation == GemmActivation::kGeluTanh || g.pair ? 10 : 50;
    assert_true(near.unequal * share <= near.values + share);
    assert_true(compute(one, Mode::kFaithful, 3, a, weight).c == faithful.c);
    assert_true(compute(one, Mode::kFast, 3, a, weight).c == fast.c);
  }
}

// A row depends on itself alone: rows that are garbage do not matter.
void test_rows_are_independent(void**) {
  Random random(2);
  Case one{"independent", gemm(24, 64, 48, 16, 16)};
  Halves a = random.halves(one.gemm.a_elements());
  const Weight weight(one.gemm, 1, random);
  const Output before = compute(one, Mode::kFast, 1, a, weight);
  std::fill(a.begin() + 20 * 64, a.end(), uint16_t{0x7f80});
  const Output behind = compute(one, Mode::kFast, 1, a, weight);
  for (size_t i = 0; i < size_t{20} * 48; ++i) assert_int_equal(before.c[i], behind.c[i]);
}

// So many rows that the weight is unpacked beforehand give the bytes that few of them give.
void test_many_rows(void**) {
  Random random(5);
  Case plain{"many rows", gemm(900, 96, 80, 16, 16)};
  const Gemm& g = plain.gemm;
  const Halves a = random.halves(g.a_elements());
  for (const bool two_planes : {false, true}) {
    plain.gemm.bias = !two_planes;
    const Weight weight(g, two_planes ? 2 : 1, random);
    const Output whole = compute(plain, Mode::kFast, 2, a, weight);
    assert_true(whole.ok);
    Case few = plain;
    few.gemm.rows = 100;
    for (size_t first = 0; first < g.rows; first += 100) {
      const auto begin = a.begin() + static_cast<std::ptrdiff_t>(first * g.lda);
      const Halves part(begin, begin + static_cast<std::ptrdiff_t>(few.gemm.a_elements()));
      const Output some = compute(few, Mode::kFast, 1, part, weight);
      assert_true(some.ok);
      assert_memory_equal(some.c.data(), whole.c.data() + first * g.c_stride,
                          some.c.size() * sizeof(uint16_t));
    }
  }
}

// Rows that count have the same bytes however few they are; what lies behind them stays, and all
// rows count again when that is said. A pair and columns of a slice as well.
void test_expected_rows(void**) {
  Random random(4);
  Case pair{"pair", gemm(48, 64, 64, 32, 16)};
  pair.gemm.pair = true;
  pair.gemm.c_stride = 40;
  Case plain{"plain", gemm(48, 96, 48, 16, 16)};
  plain.gemm.lda = 100;
  for (const Case& one : {plain, pair}) {
    const Gemm& g = one.gemm;
    const Halves a = random.halves(g.a_elements());
    const Weight weight(g, 1, random);
    for (const Mode mode : {Mode::kFast, Mode::kFaithful}) {
      const Output whole = compute(one, mode, 1, a, weight);
      assert_true(whole.ok);
      for (const size_t rows : std::initializer_list<size_t>{1, 2, 7, 16, 33, 47, 48, 1000}) {
        Machine machine(mode, 2);
        const auto c = machine.buffer(Halves(g.rows * g.c_stride, 0x1234));
        const auto kernel = machine.kernel(g).value();
        const auto run =
            kernel->make_run(std::vector{machine.buffer(a), machine.buffer(weight.packed), c})
                .value();
        run->expect_rows(rows);
        assert_true(run->submit(machine.call).ok() && run->wait(machine.call).ok());
        Halves found = halves_of(c);
        const size_t count = std::min(rows, g.rows) * g.c_stride;
        for (size_t i = 0; i < found.size(); ++i) {
          assert_int_equal(found[i], i < count ? whole.c[i] : 0x1234);
        }
        run->expect_rows(0);
        assert_true(run->submit(machine.call).ok() && run->wait(machine.call).ok());
        found = halves_of(c);
        assert_true(found == whole.c);
      }
    }
  }
}

// Bands of zeros are skipped, and that changes nothing.
void test_banded_weight(void**) {
  Random random(3);
  constexpr size_t kChannels = 64;
  Case one{"convolution", gemm(11, 12 * kChannels, 2 * kChannels, 64, 128)};
  one.gemm.lda = 6 * kChannels;
  std::vector<float> b(one.gemm.k * one.gemm.n, 0.0f);
  for (size_t j = 0; j < 2; ++j) {
    for (size_t i = 0; i < 9 * kChannels; ++i) {
      for (size_t o = 0; o < kChannels; ++o) {
        b[(j * 3 * kChannels + i) * one.gemm.n + j * kChannels + o] = random.uniform(-1.0f, 1.0f);
      }
    }
  }
  Weight weight(one.gemm, 1, random);
  assert_true(
      npuseg::bundle::pack_matrix(weight.layout, b.data(), one.gemm.n, 1, nullptr, weight.packed)
          .ok());
  for (size_t n = 0; n < one.gemm.n; ++n) {
    for (size_t group = 0; group < one.gemm.k / 8; ++group) {
      float block[8];
      npuseg::bundle::unpack_block(weight.packed.data() + weight.layout.block_offset(group, n),
                                   block);
      for (size_t i = 0; i < 8; ++i) {
        weight.value[(group * 8 + i) * one.gemm.n + n] = static_cast<double>(block[i]);
      }
    }
  }
  const Halves a = random.halves(one.gemm.a_elements());
  const auto expected = expect_gemm(one.gemm, a, 0, weight);
  const Output fast = compute(one, Mode::kFast, 1, a, weight);
  Difference near;
  for (size_t i = 0; i < expected.size(); ++i) compare(fast.c[i], expected[i], 768, &near);
  assert_int_equal(near.wrong, 0);
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(test_products),      cmocka_unit_test(test_rows_are_independent),
      cmocka_unit_test(test_many_rows),     cmocka_unit_test(test_expected_rows),
      cmocka_unit_test(test_banded_weight),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}

// SPDX-License-Identifier: Apache-2.0
// Narrowing of weights to bfloat16 and to scaled 8-bit integers, and products with the latter: the
// same bits as scalar references on every instruction set, up to guard pages.
#include "compute/weight_forms.h"

#include <limits>

#include "compute/elementwise.h"
#include "reference.h"
// Behind all others.
#include "cmocka_cpp.h"

namespace {

using namespace npuseg::test;
using npuseg::core::DType;
using npuseg::core::kScaleGroup;
using npuseg::core::TensorView;

constexpr size_t kSizes[] = {1, 2, 3, 5, 8, 9, 31, 33, 63, 64, 65, 127, 128, 200, 1009};

float float_of(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

// The nearest of the two bfloat16 around a value, by distance; ties go to the even one.
uint16_t nearest_bf16(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  const uint32_t low = bits & 0xFFFF0000u;
  const uint32_t rest = bits & 0xFFFFu;
  const bool up = rest > 0x8000u || (rest == 0x8000u && (low & 0x10000u) != 0);
  return static_cast<uint16_t>((low >> 16) + (up ? 1 : 0));
}

void test_narrow_bf16(void**) {
  Random random(3);
  for (const size_t n : kSizes) {
    Guarded<float> in(n);
    Guarded<uint16_t> out(n);
    for (int round = 0; round < 200; ++round) {
      for (size_t i = 0; i < n; ++i) {
        auto bits = static_cast<uint32_t>(random.bits() >> 32);
        if (round % 3 == 1) bits = (bits & 0xFFFF0000u) | 0x8000u;  // ties
        if (round % 3 == 2) bits = (bits & 0xFFFF0000u) | 0x7FFFu | (bits & 2u);
        in[i] = float_of(bits);
      }
      npuseg::compute::narrow_bf16(in.data(), out.data(), n);
      for (size_t i = 0; i < n; ++i) {
        const float back = float_of(static_cast<uint32_t>(out[i]) << 16);
        if (std::isnan(in[i])) {
          assert_true(std::isnan(back));
        } else {
          assert_int_equal(out[i], nearest_bf16(in[i]));
        }
      }
    }
  }
  const float special[] = {0.0f,     -0.0f, INFINITY, -INFINITY, std::numeric_limits<float>::max(),
                           0x1p-149f};
  const uint16_t want[] = {0, 0x8000, 0x7F80, 0xFF80, 0x7F80, 0};
  uint16_t got[6];
  npuseg::compute::narrow_bf16(special, got, 6);
  assert_memory_equal(got, want, sizeof got);
}

struct Held {
  std::vector<int8_t> values;
  std::vector<float> scales;
};

Held reference_i8(const float* in, size_t count) {
  Held held;
  for (size_t begin = 0; begin < count; begin += kScaleGroup) {
    const size_t end = std::min(count, begin + kScaleGroup);
    float largest = 0.0f;
    for (size_t i = begin; i < end; ++i) largest = std::max(largest, std::fabs(in[i]));
    const bool any = largest >= 0x1p-100f;
    held.scales.push_back(any ? largest / 127.0f : 0.0f);
    for (size_t i = begin; i < end; ++i) {
      held.values.push_back(any ? static_cast<int8_t>(std::nearbyintf(in[i] * (127.0f / largest)))
                                : int8_t{0});
    }
  }
  return held;
}

void test_narrow_i8(void**) {
  Random random(4);
  for (const size_t n : kSizes) {
    const size_t groups = (n + kScaleGroup - 1) / kScaleGroup;
    Guarded<float> in(n);
    Guarded<int8_t> out(n);
    Guarded<float> scales(groups);
    Guarded<float> back(n);
    for (const float size : {1.0f, 3e-30f, 2e37f, 1e-31f, 0.0f}) {
      fill(in, random, -size, size);
      if (size == 1.0f && n > 3) in[2] = in[0] * 0.5f;
      npuseg::compute::narrow_i8(in.data(), out.data(), scales.data(), n);
      const Held want = reference_i8(in.data(), n);
      assert_memory_equal(out.data(), want.values.data(), n);
      assert_memory_equal(scales.data(), want.scales.data(), groups * sizeof(float));
      npuseg::compute::widen_i8(out.data(), scales.data(), 0, n, back.data());
      for (size_t i = 0; i < n; ++i) {
        const float scale = scales[i / kScaleGroup];
        assert_true(back[i] == static_cast<float>(out[i]) * scale);
        const double off = std::fabs(static_cast<double>(back[i]) - static_cast<double>(in[i]));
        // Half a step, and three roundings of up to 127 steps.
        assert_true(off <= static_cast<double>(scale) * (0.5 + 127.0 * 3.0 * kU) + 0x1p-100);
      }
    }
  }
}

// A value that is no number spoils its group, whatever stands beside it.
void test_not_finite(void**) {
  for (const float bad : {NAN, -NAN, INFINITY, -INFINITY}) {
    for (size_t at = 0; at < 130; ++at) {
      std::vector<float> in(130, 0.25f);
      in[at] = bad;
      std::vector<int8_t> out(130);
      std::vector<float> scales(3);
      npuseg::compute::narrow_i8(in.data(), out.data(), scales.data(), in.size());
      for (size_t g = 0; g < 3; ++g) {
        assert_true(std::isnan(scales[g]) == (g == at / kScaleGroup));
      }
    }
  }
}

struct Matrix8 {
  Matrix8(size_t rows, size_t cols, Random& random) {
    std::vector<float> row(cols);
    const size_t groups = (cols + kScaleGroup - 1) / kScaleGroup;
    values.resize(rows * cols);
    scales.resize(rows * groups);
    for (size_t r = 0; r < rows; ++r) {
      fill(row, random);
      npuseg::compute::narrow_i8(row.data(), values.data() + r * cols, scales.data() + r * groups,
                                 cols);
    }
    view.data = values.data();
    view.dtype = DType::kI8;
    view.shape = {rows, cols};
    view.scales = scales.data();
    for (size_t r = 0; r < rows; ++r) {
      for (size_t c = 0; c < cols; ++c) {
        wide.push_back(static_cast<float>(values[r * cols + c]) *
                       scales[r * groups + c / kScaleGroup]);
      }
    }
  }
  std::vector<int8_t> values;
  std::vector<float> scales;
  std::vector<float> wide;
  TensorView view;
};

// Any range, also over rows, and of a part of the rows.
void test_widen_ranges(void**) {
  Random random(5);
  for (const size_t cols : {size_t{1}, size_t{7}, size_t{64}, size_t{100}, size_t{192}}) {
    const Matrix8 m(5, cols, random);
    assert_int_equal(m.view.bytes(), 5 * cols + 5 * ((cols + 63) / 64) * sizeof(float));
    const size_t count = 5 * cols;
    for (size_t first = 0; first < count; ++first) {
      for (const size_t n : {size_t{1}, count / 3, count - first}) {
        if (n == 0 || first + n > count) continue;
        Guarded<float> out(n);
        npuseg::compute::widen(m.view, first, n, out.data());
        assert_memory_equal(out.data(), m.wide.data() + first, n * sizeof(float));
      }
    }
    const TensorView middle = m.view.rows(2, 2);
    assert_int_equal(middle.shape.elements(), 2 * cols);
    std::vector<float> out(2 * cols);
    npuseg::compute::widen(middle, 0, out.size(), out.data());
    assert_memory_equal(out.data(), m.wide.data() + 2 * cols, out.size() * sizeof(float));
  }
}

// A linear layer gives the bits that it gives for the widened weight.
void test_linear(void**) {
  Random random(6);
  for (const size_t k : {size_t{48}, size_t{200}, size_t{1100}}) {
    const Matrix8 m(37, k, random);
    std::vector<float> x(19 * k);
    fill(x, random);
    for (const int threads : kThreadCounts) {
      OnThreads on(threads);
      std::vector<float> got(19 * 37);
      std::vector<float> want(19 * 37);
      assert_true(npuseg::compute::linear(on.exec, view(x.data(), 19, k), m.view,
                                          view(got.data(), 19, 37), {})
                      .ok());
      assert_true(npuseg::compute::linear(on.exec, view(x.data(), 19, k), tensor(m.wide, {37, k}),
                                          view(want.data(), 19, 37), {})
                      .ok());
      assert_memory_equal(got.data(), want.data(), got.size() * sizeof(float));
    }
  }
}

}  // namespace

int main() {
  npuseg::compute::apply_isa_limit();
  const CMUnitTest tests[] = {
      cmocka_unit_test(test_narrow_bf16), cmocka_unit_test(test_narrow_i8),
      cmocka_unit_test(test_not_finite),  cmocka_unit_test(test_widen_ranges),
      cmocka_unit_test(test_linear),
  };
  return on_every_target(
      [&] { return cmocka_run_group_tests_name("compute/weight forms", tests, nullptr, nullptr); });
}

// SPDX-License-Identifier: Apache-2.0
// The kernels of encoders whose inputs run together, against double loops on every instruction
// set: row-independent linear layers, RMS norms, rotary embedding of halves, gated activations.
#include <memory>

#include "compute/elementwise.h"
#include "compute/gated.h"
#include "compute/rms_norm.h"
#include "compute/rope.h"
#include "reference.h"
// Behind all others.
#include "cmocka_cpp.h"

namespace {

using namespace npuseg::test;
using npuseg::compute::Activation;
using npuseg::compute::Epilogue;
using npuseg::compute::linear;
using npuseg::core::ConstMatrixView;
using npuseg::core::DType;

// Values that bfloat16 holds, as floats and as stored.
void fill_bf16(Random& random, std::vector<float>* values, std::vector<uint16_t>* stored) {
  for (size_t i = 0; i < values->size(); ++i) {
    uint32_t bits;
    const float value = random.uniform(-1.0f, 1.0f);
    std::memcpy(&bits, &value, sizeof bits);
    bits &= 0xFFFF0000u;
    std::memcpy(&(*values)[i], &bits, sizeof bits);
    (*stored)[i] = static_cast<uint16_t>(bits >> 16);
  }
}

void test_linear(void**) {
  Random random(3);
  const size_t shapes[][3] = {{1, 1, 1},    {2, 3, 5},      {6, 64, 96},   {7, 65, 515},
                              {13, 70, 33}, {18, 130, 512}, {400, 17, 64}, {5, 48, 1540}};
  for (const auto& [m, n, k] : shapes) {
    Guarded<float> x((m - 1) * (k + 3) + k);
    fill(x, random);
    std::vector<float> w(n * k);
    std::vector<uint16_t> stored(n * k);
    fill_bf16(random, &w, &stored);
    std::vector<float> bias(n);
    fill(bias, random);
    for (const DType type : {DType::kF32, DType::kBF16}) {
      const void* data = type == DType::kF32 ? static_cast<const void*>(w.data()) : stored.data();
      OnThreads on(2);
      std::vector<float> out(m * n, 0.5f);
      Epilogue epilogue;
      epilogue.bias = tensor(bias, {n});
      epilogue.residual = view(static_cast<const float*>(out.data()), m, n);
      const ConstMatrixView in{x.data(), m, k, k + 3};
      assert_true(
          linear(on.exec, in, tensor(data, type, {n, k}), view(out.data(), m, n), epilogue).ok());
      Worst worst;
      for (size_t i = 0; i < m; ++i) {
        for (size_t j = 0; j < n; ++j) {
          double sum = 0.0;
          double size = 0.0;
          for (size_t l = 0; l < k; ++l) {
            const double product = static_cast<double>(in.row(i)[l]) * w[j * k + l];
            sum += product;
            size += std::fabs(product);
          }
          const double want = sum + bias[j] + 0.5;
          worst.add(out[i * n + j], want, size * sum_error(k) + (std::fabs(sum) + 2.5) * 3 * kU);
        }
      }
      assert_true(worst.within("linear"));
    }
  }
}

// Every row alone, and on other thread counts, has the bits it has among all.
void test_rows_are_independent(void**) {
  Random random(4);
  for (const size_t k : {size_t{96}, size_t{517}, size_t{1024}}) {
    const size_t m = 401;
    const size_t n = 129;
    std::vector<float> x(m * k);
    std::vector<float> w(n * k);
    fill(x, random);
    fill(w, random);
    std::vector<float> all(m * n);
    OnThreads one(1);
    const auto weight = tensor(w, {n, k});
    assert_true(linear(one.exec, {x.data(), m, k, k}, weight, view(all.data(), m, n)).ok());
    for (const int threads : kThreadCounts) {
      OnThreads on(threads);
      std::vector<float> again(m * n);
      assert_true(linear(on.exec, {x.data(), m, k, k}, weight, view(again.data(), m, n)).ok());
      assert_memory_equal(all.data(), again.data(), m * n * sizeof(float));
    }
    for (const size_t rows : {size_t{1}, size_t{2}, size_t{3}, size_t{4}, size_t{5}, size_t{6},
                              size_t{7}, size_t{18}, size_t{48}, size_t{49}, size_t{385}}) {
      for (const size_t first : {size_t{0}, size_t{5}, m - rows}) {
        std::vector<float> some(rows * n);
        assert_true(
            linear(one.exec, {x.data() + first * k, rows, k, k}, weight, view(some.data(), rows, n))
                .ok());
        assert_memory_equal(all.data() + first * n, some.data(), rows * n * sizeof(float));
      }
    }
  }
}

void test_rms_norm(void**) {
  Random random(5);
  for (const size_t count : {size_t{1}, size_t{4}, size_t{31}, size_t{96}, size_t{512}}) {
    for (const size_t runs : {size_t{1}, size_t{3}}) {
      const size_t rows = 5;
      const size_t cols = runs * count;
      std::vector<float> x(rows * cols);
      std::vector<float> gamma(count);
      fill(x, random);
      fill(gamma, random, 0.5f, 1.5f);
      for (const bool plain : {true, false}) {
        std::vector<float> out(rows * cols, 0.25f);
        npuseg::compute::RmsNorm norm{{}, 1e-6f};
        npuseg::compute::RmsNormOptions options;
        options.runs = runs;
        if (!plain) {
          norm.gamma = tensor(gamma, {count});
          options.input_scale = 0.3f;
          options.residual = view(static_cast<const float*>(out.data()), rows, cols);
          options.output_scale = 0.9f;
        }
        OnThreads on(2);
        assert_true(npuseg::compute::rms_norm(on.exec, {x.data(), rows, cols, cols}, norm,
                                              view(out.data(), rows, cols), options)
                        .ok());
        Worst worst;
        for (size_t r = 0; r < rows * runs; ++r) {
          const double scale = plain ? 1.0 : static_cast<double>(0.3f);
          double mean = 0.0;
          for (size_t c = 0; c < count; ++c) {
            const double v = scale * x[r * count + c];
            mean += v * v / static_cast<double>(count);
          }
          const double factor = 1.0 / std::sqrt(mean + static_cast<double>(1e-6f));
          for (size_t c = 0; c < count; ++c) {
            double want = scale * x[r * count + c] * factor;
            // Sum of squares (half of its error), four products, residual and last product.
            double bound = std::fabs(want) * (0.5 * sum_error(count + 1) + 4 * kU);
            if (!plain) {
              want = (want * gamma[c] + 0.25) * static_cast<double>(0.9f);
              bound = bound * 1.5 + (std::fabs(want) + 0.5) * 3 * kU;
            }
            worst.add(out[r * count + c], want, bound + 1e-30);
          }
        }
        assert_true(worst.within("rms_norm"));
      }
    }
  }
}

void test_rope(void**) {
  Random random(6);
  for (const size_t part : {size_t{2}, size_t{8}, size_t{18}, size_t{64}}) {
    for (const size_t axes : {size_t{1}, size_t{2}}) {
      const size_t rows = 7;
      const size_t heads = 3;
      const size_t cols = heads * axes * part;
      OnThreads on(2);
      auto made = npuseg::compute::make_rope_table(on.call, 40, part, 1e4);
      assert_true(made.ok());
      std::vector<int32_t> positions(rows * axes);
      for (int32_t& p : positions) p = static_cast<int32_t>(random.bits() % 40);
      std::vector<float> x(rows * cols);
      fill(x, random);
      const std::vector<float> before = x;
      assert_true(npuseg::compute::rope_halves(on.exec, view(x.data(), rows, cols), heads, axes,
                                               made.value(), positions.data())
                      .ok());
      Worst worst;
      for (size_t r = 0; r < rows; ++r) {
        for (size_t p = 0; p < heads * axes; ++p) {
          for (size_t j = 0; j < part / 2; ++j) {
            // The float32 frequency and angle are part of the definition.
            const float exponent = static_cast<float>(2 * j) / static_cast<float>(part);
            const float f = 1.0f / static_cast<float>(std::pow(1e4, static_cast<double>(exponent)));
            const double angle =
                static_cast<double>(static_cast<float>(positions[r * axes + p % axes]) * f);
            const size_t low = r * cols + p * part + j;
            const double a = before[low];
            const double b = before[low + part / 2];
            worst.add(x[low], a * std::cos(angle) - b * std::sin(angle), 6 * kU);
            worst.add(x[low + part / 2], b * std::cos(angle) + a * std::sin(angle), 6 * kU);
          }
        }
      }
      assert_true(worst.within("rope_halves"));
    }
  }
}

void test_gated(void**) {
  Random random(7);
  for (const size_t cols : {size_t{1}, size_t{7}, size_t{32}, size_t{2050}}) {
    const size_t rows = 9;
    std::vector<float> gate(rows * cols);
    std::vector<float> other(rows * cols);
    fill(gate, random, -6.0f, 6.0f);
    fill(other, random);
    const std::vector<float> before = gate;
    OnThreads on(2);
    assert_true(npuseg::compute::multiply_gated(
                    on.exec, Activation::kGeluTanh, view(gate.data(), rows, cols),
                    view(static_cast<const float*>(other.data()), rows, cols))
                    .ok());
    Worst worst;
    for (size_t i = 0; i < gate.size(); ++i) {
      const double v = before[i];
      const double u = std::sqrt(2.0 / M_PI) * (v + 0.044715 * v * v * v);
      const double want = v / (1.0 + std::exp(-2.0 * u)) * other[i];
      // Rounding of u moves the sigmoid by up to |2u| of itself.
      worst.add(gate[i], want, std::fabs(want) * (12.0 + 8.0 * std::fabs(u)) * kU + 1e-30);
    }
    assert_true(worst.within("multiply_gated"));
  }
}

}  // namespace

int main() {
  npuseg::compute::apply_isa_limit();
  const CMUnitTest tests[] = {
      cmocka_unit_test(test_linear),   cmocka_unit_test(test_rows_are_independent),
      cmocka_unit_test(test_rms_norm), cmocka_unit_test(test_rope),
      cmocka_unit_test(test_gated),
  };
  return on_every_target(
      [&] { return cmocka_run_group_tests_name("compute/encoder", tests, nullptr, nullptr); });
}

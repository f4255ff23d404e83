// SPDX-License-Identifier: Apache-2.0
// Norms, activations, rotary embedding, widening and scanning against double or bit-exact
// references, on every instruction set, on sizes around the vector lengths and up to guard pages.
#include <string>

#include "compute/elementwise.h"
#include "compute/norm.h"
#include "compute/simd_kernels.h"
#include "core/env.h"
#include "reference.h"
// Behind all others.
#include "cmocka_cpp.h"

namespace {

using namespace npuseg::test;
using npuseg::compute::Activation;
using npuseg::core::DType;

constexpr size_t kSizes[] = {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 64, 127, 1009};

// ---- activations: relative bounds, so small results of large negative x count ----

double gelu_bound(double x) {
  // x/2 * erfc(z), z = -x/sqrt 2: exp(-z^2 + P) with z^2 off by 5 roundings of its size; up to 16
  // for the rest, most near z = 0.95 where 1 - erf(z) loses two bits. Below 1.2e-38 exp is 0.
  const double z = std::min(x, 0.0) * M_SQRT1_2;
  const double want = std::fabs(0.5 * x * std::erfc(-x * M_SQRT1_2));
  return want * kU * (5.0 * z * z + 16.0) + 3e-37;
}
// x * sigmoid(u): exp(-|u|) off by 4 roundings and by those of u; three more operations.
double sigmoid_product_bound(double x, double u, double roundings_of_u) {
  const double want = std::fabs(x / (1.0 + std::exp(-u)));
  return want * kU * (roundings_of_u * std::fabs(u) + 8.0) + 3e-36;
}

template <class Want, class Bound>
void check_activation(Activation activation, const char* name, Want want, Bound bound) {
  std::vector<float> x;
  for (int i = -130000; i <= 130000; ++i) x.push_back(static_cast<float>(i) * 1e-4f);
  for (float tiny = 1e-3f; tiny > 1e-37f; tiny *= 0.37f) {
    x.push_back(tiny);
    x.push_back(-tiny);
  }
  for (float large = 13.0f; large < 1e30f; large *= 1.3f) {
    x.push_back(large);
    x.push_back(-large);
  }
  std::vector<float> y = x;
  npuseg::compute::apply_activation(activation, y.data(), y.size());
  Worst worst;
  for (size_t i = 0; i < x.size(); ++i) worst.add(y[i], want(x[i]), bound(x[i]));
  print_message("%s: %.2f of its bound\n", name, worst.ratio());
  assert_true(worst.within(name));
}

void test_activations(void**) {
  const auto gelu = [](double x) { return 0.5 * x * std::erfc(-x * M_SQRT1_2); };
  check_activation(Activation::kGelu, "gelu", gelu, gelu_bound);
  check_activation(
      Activation::kSilu, "silu", [](double x) { return x / (1.0 + std::exp(-x)); },
      [](double x) { return sigmoid_product_bound(x, x, 0.0); });
  check_activation(
      Activation::kQuickGelu, "quick gelu",
      [](double x) { return x / (1.0 + std::exp(-1.702 * x)); },
      [](double x) { return sigmoid_product_bound(x, 1.702 * x, 2.0); });
  const auto u = [](double x) { return 2.0 * std::sqrt(2.0 / M_PI) * (x + 0.044715 * x * x * x); };
  check_activation(
      Activation::kGeluTanh, "tanh gelu", [&](double x) { return x / (1.0 + std::exp(-u(x))); },
      [&](double x) { return sigmoid_product_bound(x, u(x), 6.0); });
  check_activation(
      Activation::kRelu, "relu", [](double x) { return std::max(x, 0.0); },
      [](double) { return 1e-300; });
}

void test_sigmoid_sizes(void**) {
  Random random(5);
  for (const size_t n : kSizes) {
    Guarded<float> in(n);
    Guarded<float> out(n);
    fill(in, random, -100.0f, 100.0f);
    npuseg::compute::sigmoid(in.data(), out.data(), n);
    Worst worst;
    for (size_t i = 0; i < n; ++i) {
      const double want = 1.0 / (1.0 + std::exp(-static_cast<double>(in[i])));
      worst.add(out[i], want, want * 6.0 * kU + 1.3e-38);
    }
    assert_true(worst.within("sigmoid"));
  }
}

void test_exp(void**) {
  // Two scores 0 and -x give exp(-x) exactly as the softmax uses it.
  Worst worst;
  for (int i = 0; i < 87000; ++i) {
    float scores[2] = {0.0f, static_cast<float>(-i) * 1e-3f};
    const double want = std::exp(static_cast<double>(scores[1]));
    float maximum = -INFINITY;
    float total = 0.0f;
    npuseg::compute::softmax_row(scores, 2, 1.0f, nullptr, &maximum, &total);
    assert_true(scores[0] == 1.0f && maximum == 0.0f);
    // 2 ulp: at most 4u of the value.
    worst.add(scores[1], want, want * 4.0 * kU);
  }
  print_message("exp: %.2f of its bound\n", worst.ratio());
  assert_true(worst.within("exp"));
}

void test_epilogue_sizes(void**) {
  Random random(6);
  for (const size_t n : kSizes) {
    Guarded<float> in(n);
    Guarded<float> bias(n);
    Guarded<float> residual(n);
    Guarded<float> out(n);
    fill(in, random);
    fill(bias, random);
    fill(residual, random);
    npuseg::compute::epilogue_row(in.data(), bias.data(), Activation::kRelu, residual.data(),
                                  out.data(), n);
    for (size_t i = 0; i < n; ++i) {
      assert_true(out[i] == std::max(in[i] + bias[i], 0.0f) + residual[i]);
    }
  }
}

void test_add(void**) {
  Random random(7);
  for (const size_t cols : kSizes) {
    std::vector<float> a(70 * (cols + 2));
    std::vector<float> b(a.size());
    fill(a, random);
    fill(b, random);
    std::vector<float> want = a;
    for (size_t i = 0; i < a.size(); ++i) {
      if (i % (cols + 2) < cols) want[i] = a[i] + b[i];
    }
    OnThreads on(3);
    const auto out = view(a.data(), 70, cols, cols + 2);
    assert_true(npuseg::compute::add(on.exec, out,
                                     view(static_cast<const float*>(b.data()), 70, cols, cols + 2),
                                     out)
                    .ok());
    assert_memory_equal(a.data(), want.data(), a.size() * sizeof(float));
  }
}

void test_rope(void**) {
  Random random(8);
  for (const size_t dim : std::array<size_t, 8>{2, 4, 8, 16, 20, 32, 64, 66}) {
    const size_t heads = 3;
    const size_t rows = 29;
    const size_t table_rows = 9;
    const size_t stride = heads * dim + 5;
    std::vector<float> cosine(table_rows * dim / 2);
    std::vector<float> sine(cosine.size());
    std::vector<float> x(rows * stride);
    fill(cosine, random);
    fill(sine, random);
    fill(x, random);
    std::vector<float> first;
    for (const int threads : kThreadCounts) {
      std::vector<float> y = x;
      OnThreads on(threads);
      assert_true(npuseg::compute::rope_interleaved(on.exec, view(y.data(), rows, stride), heads,
                                                    dim, cosine.data(), sine.data(), table_rows)
                      .ok());
      if (first.empty()) first = y;
      assert_memory_equal(y.data(), first.data(), y.size() * sizeof(float));
    }
    Worst worst;
    for (size_t r = 0; r < rows; ++r) {
      for (size_t i = 0; i < stride; ++i) {
        const double got = first[r * stride + i];
        if (i >= heads * dim) {
          assert_true(got == static_cast<double>(x[r * stride + i]));
          continue;
        }
        const size_t at = (r % table_rows) * (dim / 2) + i % dim / 2;
        const double self = x[r * stride + i];
        const double other = x[r * stride + (i ^ 1)];
        const double turned = i % 2 == 0 ? -other * sine[at] : other * sine[at];
        const double size = std::fabs(self * cosine[at]) + std::fabs(turned);
        // Two products and a sum.
        worst.add(got, self * cosine[at] + turned, 2.0 * size * kU + 1e-30);
      }
    }
    assert_true(worst.within("rope"));
  }
}

// ---- norms ----

void test_layer_norm(void**) {
  Random random(9);
  for (const size_t cols :
       {size_t{1}, size_t{3}, size_t{8}, size_t{33}, size_t{256}, size_t{1009}}) {
    for (const float offset : {0.0f, 100.0f}) {
      const size_t rows = 131;
      std::vector<float> x(rows * (cols + 1));
      std::vector<float> gamma(cols);
      std::vector<float> beta(cols);
      std::vector<float> extra(rows * cols);
      fill(x, random, offset - 1.0f, offset + 1.0f);
      fill(gamma, random);
      fill(beta, random);
      fill(extra, random);
      std::vector<int32_t> to(rows);
      for (size_t r = 0; r < rows; ++r) to[r] = static_cast<int32_t>((r * 7) % rows);
      npuseg::compute::LayerNorm norm;
      norm.gamma = tensor(gamma, {cols});
      norm.beta = tensor(beta, {cols});
      norm.eps = 1e-6f;
      std::vector<float> first;
      std::vector<float> sums(rows * cols);
      for (const int threads : kThreadCounts) {
        OnThreads on(threads);
        std::vector<float> out(rows * cols);
        assert_true(npuseg::compute::layer_norm(
                        on.exec, view(static_cast<const float*>(x.data()), rows, cols, cols + 1),
                        norm, view(out.data(), rows, cols), to.data(),
                        view(static_cast<const float*>(extra.data()), rows, cols),
                        view(sums.data(), rows, cols))
                        .ok());
        if (first.empty()) first = out;
        assert_memory_equal(out.data(), first.data(), out.size() * sizeof(float));
      }
      Worst worst;
      for (size_t r = 0; r < rows; ++r) {
        const float* row = x.data() + r * (cols + 1);
        const auto n = static_cast<double>(cols);
        double mean = 0.0;
        double size = 0.0;
        for (size_t c = 0; c < cols; ++c) {
          mean += row[c] / n;
          size += std::fabs(static_cast<double>(row[c])) / n;
        }
        double variance = 0.0;
        for (size_t c = 0; c < cols; ++c) variance += (row[c] - mean) * (row[c] - mean) / n;
        const double deviation = std::sqrt(variance + static_cast<double>(norm.eps));
        // The mean is off by d; the variance by its own sum and by d^2; the rest are 6 roundings.
        const double d = size * (sum_error(cols) + kU);
        const double stretch =
            sum_error(cols) + 6.0 * kU + (d * d + 2.0 * kU * size * d) / (deviation * deviation);
        for (size_t c = 0; c < cols; ++c) {
          const double normed = (row[c] - mean) / deviation;
          const double scaled = std::fabs(normed * gamma[c]);
          const double want = normed * gamma[c] + beta[c];
          const double bound = std::fabs(static_cast<double>(gamma[c])) * d / deviation +
                               scaled * stretch + std::fabs(want) * kU + 1e-30;
          const size_t at = static_cast<size_t>(to[r]) * cols + c;
          worst.add(first[at], want, bound);
          assert_true(sums[at] == first[at] + extra[r * cols + c]);
        }
      }
      assert_true(worst.within("layer_norm"));
      // In place, without a permutation.
      OnThreads on(2);
      const auto self = view(x.data(), rows, cols, cols + 1);
      assert_true(npuseg::compute::layer_norm(on.exec, self, norm, self).ok());
      for (size_t r = 0; r < rows; ++r) {
        assert_memory_equal(self.row(r), first.data() + static_cast<size_t>(to[r]) * cols,
                            cols * sizeof(float));
      }
    }
  }
}

void group_norm_case(size_t pixels, size_t channels, size_t groups, bool relu) {
  Random random(pixels + channels);
  std::vector<float> x(pixels * channels);
  std::vector<float> gamma(channels);
  std::vector<float> beta(channels);
  fill(x, random, -1.0f, 2.0f);
  fill(gamma, random);
  fill(beta, random);
  std::vector<float> first;
  for (const int threads : kThreadCounts) {
    OnThreads on(threads);
    std::vector<float> out = x;
    const auto self = view(out.data(), pixels, channels);
    assert_true(npuseg::compute::group_norm(on.exec, self, groups, tensor(gamma, {channels}),
                                            tensor(beta, {channels}), 1e-5f, relu, self)
                    .ok());
    if (first.empty()) first = out;
    assert_memory_equal(out.data(), first.data(), out.size() * sizeof(float));
  }
  Worst worst;
  const size_t per_group = channels / groups;
  for (size_t g = 0; g < groups; ++g) {
    const double n = static_cast<double>(pixels * per_group);
    double mean = 0.0;
    double variance = 0.0;
    const auto value = [&](size_t i) {
      return static_cast<double>(x[i / per_group * channels + g * per_group + i % per_group]);
    };
    for (size_t i = 0; i < pixels * per_group; ++i) mean += value(i) / n;
    for (size_t i = 0; i < pixels * per_group; ++i) {
      variance += (value(i) - mean) * (value(i) - mean) / n;
    }
    const double factor = 1.0 / std::sqrt(variance + static_cast<double>(1e-5f));
    for (size_t i = 0; i < pixels * per_group; ++i) {
      const size_t c = g * per_group + i % per_group;
      const double scale = gamma[c] * factor;
      const double plain = (value(i) - mean) * scale + beta[c];
      const double want = relu ? std::max(plain, 0.0) : plain;
      // Scale, shift and result are rounded once each, and the product where there is no fused
      // multiply-add; statistics are double.
      const double bound = kU * (2.0 * std::fabs(value(i) * scale) +
                                 std::fabs(beta[c] - mean * scale) + std::fabs(plain)) +
                           1e-12;
      worst.add(first[i / per_group * channels + c], want, bound);
    }
  }
  assert_true(worst.within("group_norm"));
}

void test_group_norm(void**) {
  group_norm_case(1, 8, 2, false);
  group_norm_case(77, 24, 8, true);
  group_norm_case(5000, 66, 3, true);
}

// ---- stored tensors ----

// Every half and every bfloat16, at an odd address too.
void test_widen(void**) {
  for (const DType type : {DType::kBF16, DType::kF16}) {
    for (const size_t shift : {size_t{0}, size_t{1}}) {
      Guarded<unsigned char> stored(2 * 65536 + shift);
      for (size_t i = 0; i < 65536; ++i) {
        const auto bits = static_cast<uint16_t>(i);
        std::memcpy(stored.data() + 2 * i, &bits, 2);
      }
      std::vector<float> out(65536);
      npuseg::compute::widen(tensor(stored.data(), type, {65536}), 0, 65536, out.data());
      for (uint32_t i = 0; i < 65536; ++i) {
        const bool half = type == DType::kF16;
        const uint32_t exponent = half ? (i >> 10) & 31 : (i >> 7) & 255;
        const uint32_t mantissa = half ? i & 1023 : i & 127;
        if (exponent == (half ? 31u : 255u)) {
          assert_true(mantissa == 0 ? std::isinf(out[i]) : std::isnan(out[i]));
        } else {
          const int bits = half ? 10 : 7;
          const int bias = half ? 15 : 127;
          const int lead = exponent == 0 ? 0 : 1 << bits;
          const double want = std::ldexp(static_cast<double>(static_cast<int>(mantissa) + lead),
                                         std::max(static_cast<int>(exponent), 1) - bias - bits);
          assert_true(std::fabs(static_cast<double>(out[i])) == want);
        }
        assert_true(std::signbit(out[i]) == (i >= 32768));
      }
      // Parts of it.
      for (const size_t n : kSizes) {
        Guarded<float> part(n);
        npuseg::compute::widen(tensor(stored.data(), type, {65536}), 777, n, part.data());
        assert_memory_equal(part.data(), out.data() + 777, n * sizeof(float));
      }
    }
  }
}

void test_find_non_finite(void**) {
  const float bad[] = {INFINITY, -INFINITY, NAN, -NAN};
  for (const size_t n : kSizes) {
    for (const size_t shift : {size_t{0}, size_t{1}}) {
      Guarded<unsigned char> f32(4 * n + shift);
      Guarded<unsigned char> f16(2 * n + shift);
      const float large = 3.4e38f;
      for (size_t i = 0; i < n; ++i) {
        std::memcpy(f32.data() + 4 * i, &large, 4);
        const uint16_t half = 0xFBFF;  // -65504; as a bfloat16 it is finite too
        std::memcpy(f16.data() + 2 * i, &half, 2);
      }
      const auto wide = tensor(f32.data(), DType::kF32, {n});
      const auto half = tensor(f16.data(), DType::kF16, {n});
      const auto brain = tensor(f16.data(), DType::kBF16, {n});
      assert_int_equal(npuseg::compute::find_non_finite(wide), n);
      assert_int_equal(npuseg::compute::find_non_finite(half), n);
      assert_int_equal(npuseg::compute::find_non_finite(brain), n);
      for (size_t at = 0; at<n; at += n> 200 ? 61 : 1) {
        for (const float value : bad) {
          std::memcpy(f32.data() + 4 * at, &value, 4);
          assert_int_equal(npuseg::compute::find_non_finite(wide), at);
          if (at > 0) assert_int_equal(npuseg::compute::find_non_finite(wide, 0, at), at);
        }
        std::memcpy(f32.data() + 4 * at, &large, 4);
        const uint16_t fine = 0xFBFF;
        for (const uint16_t infinite : {uint16_t{0x7C00}, uint16_t{0xFE01}}) {
          std::memcpy(f16.data() + 2 * at, &infinite, 2);
          assert_int_equal(npuseg::compute::find_non_finite(half), at);
        }
        for (const uint16_t infinite : {uint16_t{0x7F80}, uint16_t{0xFF81}}) {
          std::memcpy(f16.data() + 2 * at, &infinite, 2);
          assert_int_equal(npuseg::compute::find_non_finite(brain), at);
        }
        std::memcpy(f16.data() + 2 * at, &fine, 2);
      }
    }
  }
  const double values[] = {1.0, -1e38, 1e39, 0.0};  // the third does not fit float32
  assert_int_equal(npuseg::compute::find_non_finite(tensor(values, DType::kF64, {4})), 2);
}

// With NPUSEG_MAX_ISA in the environment no better instruction set may be in use.
void test_isa_limit(void**) {
  const std::string limit = npuseg::core::env_max_isa();
  const std::string target = npuseg::compute::simd_target();
  print_message("limit \"%s\", target %s, product %s\n", limit.c_str(), target.c_str(),
                npuseg::compute::gemm_backend());
  if (limit.empty()) return;
  assert_true(target.find("AVX3") == std::string::npos);
  if (limit == "sse4" || limit == "scalar") assert_true(target != "AVX2");
  if (limit == "scalar") assert_true(target != "SSE4" && target != "SSSE3");
}

}  // namespace

int main() {
  npuseg::compute::apply_isa_limit();
  const CMUnitTest limit[] = {cmocka_unit_test(test_isa_limit)};
  const int failed = cmocka_run_group_tests_name("compute/isa", limit, nullptr, nullptr);
  const CMUnitTest tests[] = {
      cmocka_unit_test(test_activations), cmocka_unit_test(test_sigmoid_sizes),
      cmocka_unit_test(test_exp),         cmocka_unit_test(test_epilogue_sizes),
      cmocka_unit_test(test_add),         cmocka_unit_test(test_rope),
      cmocka_unit_test(test_layer_norm),  cmocka_unit_test(test_group_norm),
      cmocka_unit_test(test_widen),       cmocka_unit_test(test_find_non_finite),
  };
  return failed + on_every_target([&] {
           return cmocka_run_group_tests_name("compute/kernels", tests, nullptr, nullptr);
         });
}

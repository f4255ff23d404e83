// SPDX-License-Identifier: Apache-2.0
// Products and linear layers against double sums: odd shapes, strides, stored types, every part of
// the epilogue, the same bytes for any thread count, a prompt stop.
#include <memory>

#include "compute/elementwise.h"
#include "compute/gemm.h"
#include "reference.h"
// Behind all others.
#include "cmocka_cpp.h"

namespace {

using namespace npuseg::test;
using npuseg::compute::Activation;
using npuseg::compute::Epilogue;
using npuseg::compute::linear;
using npuseg::compute::sgemm;
using npuseg::core::DType;

void test_sgemm(void**) {
  Random random(1);
  const size_t shapes[][3] = {{1, 1, 1},   {1, 17, 3},   {5, 1, 9},     {7, 13, 1},  {6, 16, 32},
                              {13, 33, 5}, {64, 20, 77}, {65, 47, 129}, {3, 300, 64}};
  for (const auto& [m, n, k] : shapes) {
    for (const bool transposed : {true, false}) {
      for (const float beta : {0.0f, 1.0f, -0.5f}) {
        const size_t a_stride = k + 3;
        const size_t b_stride = (transposed ? k : n) + 1;
        const size_t c_stride = n + 2;
        Guarded<float> a((m - 1) * a_stride + k);
        Guarded<float> b(((transposed ? n : k) - 1) * b_stride + (transposed ? k : n));
        Guarded<float> c((m - 1) * c_stride + n);
        fill(a, random);
        fill(b, random);
        fill(c, random);
        std::vector<float> before(c.data(), c.data() + c.size());
        // beta 0 must not read the output.
        if (beta == 0.0f) std::fill_n(c.data(), c.size(), NAN);
        sgemm(m, n, k, 0.75f, a.data(), a_stride, b.data(), b_stride, transposed, beta, c.data(),
              c_stride);
        Worst worst;
        for (size_t i = 0; i < m; ++i) {
          for (size_t j = 0; j < n; ++j) {
            double sum = 0.0;
            double size = 0.0;
            for (size_t l = 0; l < k; ++l) {
              const double product = static_cast<double>(a[i * a_stride + l]) *
                                     b[transposed ? j * b_stride + l : l * b_stride + j];
              sum += product;
              size += std::fabs(product);
            }
            const double old = static_cast<double>(beta) * before[i * c_stride + j];
            // Two roundings for alpha, two for beta.
            const double bound =
                0.75 * size * (sum_error(k) + 2 * kU) + std::fabs(old) * 2 * kU + 1e-30;
            worst.add(c[i * c_stride + j], 0.75 * sum + old, bound + std::fabs(0.75 * sum) * kU);
          }
        }
        assert_true(worst.within("sgemm"));
      }
    }
  }
}

uint16_t to_bf16(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return static_cast<uint16_t>(bits >> 16);
}
float from_bf16(uint16_t bits) {
  const uint32_t wide = static_cast<uint32_t>(bits) << 16;
  float value;
  std::memcpy(&value, &wide, sizeof value);
  return value;
}
// A half of exponent -8 ... 0 from random bits, and its value.
uint16_t random_half(Random& random, float* value) {
  const uint64_t r = random.bits();
  const auto mantissa = static_cast<uint16_t>(r & 0x3FF);
  const int exponent = static_cast<int>(7 + (r >> 10) % 8);
  const bool negative = ((r >> 20) & 1) != 0;
  *value = std::ldexp(1.0f + static_cast<float>(mantissa) / 1024.0f, exponent - 15);
  if (negative) *value = -*value;
  return static_cast<uint16_t>((negative ? 0x8000 : 0) | (exponent << 10) | mantissa);
}

double activate(Activation activation, double x) {
  switch (activation) {
    case Activation::kNone:
      return x;
    case Activation::kRelu:
      return std::max(x, 0.0);
    case Activation::kGelu:
      return 0.5 * x * std::erfc(-x * M_SQRT1_2);
    case Activation::kQuickGelu:
      return x / (1.0 + std::exp(-1.702 * x));
    case Activation::kGeluTanh:
      return 0.5 * x * (1.0 + std::tanh(std::sqrt(2.0 / M_PI) * (x + 0.044715 * x * x * x)));
    case Activation::kSilu:
      return x / (1.0 + std::exp(-x));
  }
  return x;
}

struct Case {
  size_t m, n, k;
  DType type = DType::kF32;
  Activation activation = Activation::kNone;
  bool bias = false;
  bool residual = false;   // in place: residual is out
  bool rows = false;       // permuted output rows, every fifth dropped
  bool unaligned = false;  // the weight starts at an odd address
};

class LinearCase {
 public:
  explicit LinearCase(const Case& c) : c_(c), x_((c.m - 1) * (c.k + 5) + c.k) {
    Random random(c.m * 131 + c.n * 17 + c.k);
    fill(x_, random);
    weight_.resize(c.n * c.k);
    bias_.resize(c.n);
    fill(bias_, random);
    const size_t bytes = npuseg::core::dtype_bytes(c.type);
    stored_ = std::make_unique<Guarded<unsigned char>>(weight_.size() * bytes + 1);
    unsigned char* at = stored_->data() + (c.unaligned ? 0 : 1);
    if (!c.unaligned && reinterpret_cast<uintptr_t>(at) % bytes != 0) fail();
    for (size_t i = 0; i < weight_.size(); ++i) {
      float value = random.uniform(-1.0f, 1.0f);
      uint16_t half = 0;
      if (c.type == DType::kBF16) {
        half = to_bf16(value);
        value = from_bf16(half);
      } else if (c.type == DType::kF16) {
        half = random_half(random, &value);
      }
      const double wide = value;
      const void* from = &half;
      if (c.type == DType::kF32) from = &value;
      if (c.type == DType::kF64) from = &wide;
      std::memcpy(at + i * bytes, from, bytes);
      weight_[i] = value;
    }
    weight_view_ = tensor(at, c.type, {c.n, c.k});
    if (c.rows) {
      rows_.resize(c.m);
      for (size_t i = 0; i < c.m; ++i) {
        rows_[i] = i % 5 == 2 ? -1 : static_cast<int32_t>(c.m - 1 - i);
      }
    }
    start_.resize(c.m * out_stride());
    fill(start_, random);
  }

  size_t out_stride() const { return c_.n + 7; }

  std::vector<float> run(int threads) {
    std::vector<float> out = start_;
    OnThreads on(threads);
    Epilogue epilogue;
    if (c_.bias) epilogue.bias = tensor(bias_, {c_.n});
    epilogue.activation = c_.activation;
    const auto out_view = view(out.data(), c_.m, c_.n, out_stride());
    if (c_.residual) epilogue.residual = out_view;
    if (c_.rows) epilogue.out_rows = rows_.data();
    const auto x = view(static_cast<const float*>(x_.data()), c_.m, c_.k, c_.k + 5);
    assert_true(linear(on.exec, x, weight_view_, out_view, epilogue).ok());
    return out;
  }

  void check(const std::vector<float>& out) const {
    Worst worst;
    std::vector<bool> written(out.size(), false);
    // Every activation here has a slope below 1.13.
    constexpr double kSlope = 1.13;
    for (size_t i = 0; i < c_.m; ++i) {
      const int64_t to = c_.rows ? rows_[i] : static_cast<int64_t>(i);
      if (to < 0) continue;
      for (size_t j = 0; j < c_.n; ++j) {
        double sum = c_.bias ? bias_[j] : 0.0;
        double size = std::fabs(sum);
        for (size_t l = 0; l < c_.k; ++l) {
          const double product =
              static_cast<double>(x_[i * (c_.k + 5) + l]) * weight_[j * c_.k + l];
          sum += product;
          size += std::fabs(product);
        }
        const size_t at = static_cast<size_t>(to) * out_stride() + j;
        written[at] = true;
        const double active = activate(c_.activation, sum);
        const double want = active + (c_.residual ? start_[at] : 0.0);
        // Sum and bias, then the activation's own error (kernels_test) and the last addition.
        const double bound = kSlope * size * (sum_error(c_.k) + kU) + std::fabs(active) * 16 * kU +
                             std::fabs(want) * kU + 1e-30;
        worst.add(out[at], want, bound);
      }
    }
    assert_true(worst.within("linear"));
    for (size_t i = 0; i < out.size(); ++i) {
      if (!written[i]) assert_memory_equal(&out[i], &start_[i], sizeof(float));
    }
  }

 private:
  Case c_;
  Guarded<float> x_;
  std::vector<float> weight_;
  std::vector<float> bias_;
  std::unique_ptr<Guarded<unsigned char>> stored_;
  npuseg::core::TensorView weight_view_;
  std::vector<int32_t> rows_;
  std::vector<float> start_;
};

void run_case(const Case& c) {
  LinearCase one(c);
  const std::vector<float> first = one.run(1);
  one.check(first);
  for (const int threads : kThreadCounts) {
    const std::vector<float> again = one.run(threads);
    assert_memory_equal(again.data(), first.data(), first.size() * sizeof(float));
  }
}

void test_shapes(void**) {
  for (const auto& [m, n, k] : {std::array<size_t, 3>{1, 1, 1},
                                {1, 1024, 256},
                                {4, 513, 64},
                                {32, 1000, 127},
                                {201, 256, 256},
                                {649, 130, 588},
                                {700, 64, 3},
                                {3, 5, 4736}}) {
    run_case({.m = m, .n = n, .k = k});
    run_case({.m = m, .n = n, .k = k, .bias = true});
  }
}

void test_epilogues(void**) {
  for (const Activation activation :
       {Activation::kNone, Activation::kRelu, Activation::kGelu, Activation::kQuickGelu,
        Activation::kGeluTanh, Activation::kSilu}) {
    for (const int parts : {0, 1, 2, 3, 4, 5, 6, 7}) {
      Case c{.m = 67, .n = 37, .k = 29};
      c.activation = activation;
      c.bias = (parts & 1) != 0;
      c.residual = (parts & 2) != 0;
      c.rows = (parts & 4) != 0;
      run_case(c);
    }
  }
}

void test_stored_types(void**) {
  for (const DType type : {DType::kF32, DType::kBF16, DType::kF16, DType::kF64}) {
    for (const bool unaligned : {false, true}) {
      Case c{.m = 130, .n = 77, .k = 61};
      c.type = type;
      c.bias = true;
      c.unaligned = unaligned;
      run_case(c);
    }
  }
}

// Large enough for many tiles: the model's layer sizes cut down in one dimension.
void test_many_tiles(void**) {
  for (const auto& [m, n, k] : {std::array<size_t, 3>{1300, 1024, 96}, {1300, 96, 2100}}) {
    const Case c{.m = m, .n = n, .k = k, .activation = Activation::kGelu, .bias = true};
    LinearCase one(c);
    const std::vector<float> first = one.run(1);
    for (const int threads : kThreadCounts) {
      const std::vector<float> again = one.run(threads);
      assert_memory_equal(again.data(), first.data(), first.size() * sizeof(float));
    }
  }
}

void test_stop(void**) {
  const size_t m = 5184;
  const size_t n = 2048;
  const size_t k = 2048;
  std::vector<float> x(m * k, 0.5f);
  std::vector<float> w(n * k, 0.25f);
  std::vector<float> out(m * n, NAN);
  Stopper stopper;
  npuseg::core::Call call(stopper.options());
  npuseg::compute::Exec exec;
  exec.call = &call;
  const auto status = linear(exec, view(static_cast<const float*>(x.data()), m, k),
                             tensor(w, {n, k}), view(out.data(), m, n));
  const double took = Stopper::now() - stopper.begin;
  assert_true(status.code() == npuseg::core::Code::kCancelled);
  // Two threads finish a tile each after the request: of 43 GFLOP, tiles of at most 0.72.
  print_message("stopped %.1f ms after the request\n", took - stopper.after_ms);
  assert_true(written_share(out) < 0.25);
}

// The rows of a matrix, of which depths of nothing but zeros are not handed out.
class Reader final : public npuseg::compute::WeightReader {
 public:
  Reader(const std::vector<float>& weight, size_t k) : weight_(weight), k_(k) {}
  bool read(size_t first_row, size_t rows, size_t first, size_t depth, float* out,
            size_t stride) const override {
    bool any = false;
    for (size_t r = 0; r < rows; ++r) {
      const float* from = weight_.data() + (first_row + r) * k_ + first;
      any = any || std::any_of(from, from + depth, [](float v) { return v != 0.0f; });
    }
    if (!any) return false;
    for (size_t r = 0; r < rows; ++r) {
      std::copy_n(weight_.data() + (first_row + r) * k_ + first, depth, out + r * stride);
    }
    return true;
  }

 private:
  const std::vector<float>& weight_;
  size_t k_;
};

void test_reader(void**) {
  Random random(9);
  // Depths begin at multiples of 384: the first, a middle and the last one are zeros in turn.
  for (const auto& [m, n, k] :
       {std::array<size_t, 3>{50, 130, 1000}, {48, 130, 1000}, {5, 300, 1000}, {1, 7, 24}}) {
    for (const size_t zeros : {size_t{0}, size_t{384}, size_t{768}, k}) {
      std::vector<float> weight(n * k);
      fill(weight, random);
      for (size_t i = 0; i < weight.size(); ++i) {
        if (zeros < k && i % k / 384 == zeros / 384) weight[i] = 0.0f;
      }
      std::vector<float> x(m * k);
      fill(x, random);
      std::vector<float> wanted(m * n);
      std::vector<float> found(m * n);
      OnThreads one(2);
      assert_true(linear(one.exec, view(x.data(), m, k), view(weight.data(), n, k),
                         view(wanted.data(), m, n))
                      .ok());
      assert_true(
          linear(one.exec, view(x.data(), m, k), Reader(weight, k), n, view(found.data(), m, n))
              .ok());
      assert_true(found == wanted);
    }
  }
}

}  // namespace

int main() {
  npuseg::compute::apply_isa_limit();
  const CMUnitTest tests[] = {
      cmocka_unit_test(test_sgemm),      cmocka_unit_test(test_shapes),
      cmocka_unit_test(test_epilogues),  cmocka_unit_test(test_stored_types),
      cmocka_unit_test(test_many_tiles), cmocka_unit_test(test_stop),
      cmocka_unit_test(test_reader),
  };
  return on_every_target(
      [&] { return cmocka_run_group_tests_name("compute/linear", tests, nullptr, nullptr); });
}

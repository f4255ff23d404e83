// SPDX-License-Identifier: Apache-2.0
// Convolutions, upsampling and pooling against their definitions in double.
#include "compute/conv.h"

#include "compute/elementwise.h"
#include "reference.h"
// Behind all others.
#include "cmocka_cpp.h"

namespace {

using namespace npuseg::test;
using npuseg::compute::Activation;
using npuseg::compute::Epilogue;

struct Map {
  Map(size_t h, size_t w, size_t c, Random& random) : height(h), width(w), channels(c) {
    values.resize(h * w * c);
    fill(values, random);
  }
  float at(size_t y, size_t x, size_t c) const { return values[(y * width + x) * channels + c]; }
  npuseg::core::ConstMatrixView matrix() const {
    return view(values.data(), height * width, channels);
  }
  size_t height, width, channels;
  std::vector<float> values;
};

struct Sum {
  double value = 0.0;
  double size = 0.0;
  void add(float a, float b) {
    const double product = static_cast<double>(a) * b;
    value += product;
    size += std::fabs(product);
  }
};

using Run = npuseg::core::Status (*)(const npuseg::compute::Exec&, npuseg::core::ConstMatrixView,
                                     size_t, size_t, const npuseg::core::TensorView&,
                                     npuseg::core::MatrixView, const Epilogue&);

// Runs on every thread count into rows `outs + 3` apart, compares the bytes, returns the output.
std::vector<float> run(Run function, const Map& in, const npuseg::core::TensorView& weight,
                       size_t outs, size_t pixels, const std::vector<float>& bias,
                       const std::vector<float>& residual) {
  std::vector<float> first;
  for (const int threads : kThreadCounts) {
    OnThreads on(threads);
    std::vector<float> out(pixels * (outs + 3), -5.0f);
    Epilogue epilogue;
    epilogue.bias = tensor(bias, {outs});
    epilogue.activation = Activation::kRelu;
    epilogue.residual = view(residual.data(), pixels, outs);
    assert_true(function(on.exec, in.matrix(), in.height, in.width, weight,
                         view(out.data(), pixels, outs, outs + 3), epilogue)
                    .ok());
    if (first.empty()) first = out;
    assert_memory_equal(out.data(), first.data(), first.size() * sizeof(float));
  }
  return first;
}

double expected(const Sum& sum, float bias, float residual) {
  return std::max(sum.value + bias, 0.0) + residual;
}
double bound(const Sum& sum, size_t terms, float bias, double want) {
  const double size = sum.size + std::fabs(static_cast<double>(bias));
  return size * (sum_error(terms) + kU) + std::fabs(want) * kU + 1e-30;
}

void conv3x3_case(size_t height, size_t width, size_t ins, size_t outs) {
  Random random(height * 7 + width + ins);
  const Map in(height, width, ins, random);
  std::vector<float> weight(outs * ins * 9);
  std::vector<float> bias(outs);
  std::vector<float> residual(height * width * outs);
  fill(weight, random);
  fill(bias, random);
  fill(residual, random);
  const std::vector<float> out =
      run(npuseg::compute::conv3x3, in, tensor(weight, {outs, ins, 3, 3}), outs, height * width,
          bias, residual);
  Worst worst;
  for (size_t y = 0; y < height; ++y) {
    for (size_t x = 0; x < width; ++x) {
      for (size_t o = 0; o < outs; ++o) {
        Sum sum;
        for (size_t ky = 0; ky < 3; ++ky) {
          for (size_t kx = 0; kx < 3; ++kx) {
            if (y + ky < 1 || y + ky > height || x + kx < 1 || x + kx > width) continue;
            for (size_t c = 0; c < ins; ++c) {
              sum.add(in.at(y + ky - 1, x + kx - 1, c), weight[(o * ins + c) * 9 + ky * 3 + kx]);
            }
          }
        }
        const size_t pixel = y * width + x;
        const double want = expected(sum, bias[o], residual[pixel * outs + o]);
        worst.add(out[pixel * (outs + 3) + o], want, bound(sum, 9 * ins, bias[o], want));
      }
      for (size_t o = outs; o < outs + 3; ++o) {
        assert_true(out[(y * width + x) * (outs + 3) + o] == -5.0f);
      }
    }
  }
  assert_true(worst.within("conv3x3"));
}

void test_conv3x3(void**) {
  conv3x3_case(1, 1, 1, 1);
  conv3x3_case(1, 7, 3, 5);
  conv3x3_case(9, 1, 2, 4);
  conv3x3_case(13, 11, 5, 7);
  conv3x3_case(37, 72, 16, 24);
  // A row wider than a band of pixels.
  conv3x3_case(3, 701, 4, 3);
}

void conv_transpose_case(size_t height, size_t width, size_t ins, size_t outs) {
  Random random(height * 5 + width + ins);
  const Map in(height, width, ins, random);
  std::vector<float> weight(ins * outs * 4);
  std::vector<float> bias(outs);
  const size_t pixels = 4 * height * width;
  std::vector<float> residual(pixels * outs);
  fill(weight, random);
  fill(bias, random);
  fill(residual, random);
  const std::vector<float> out =
      run(npuseg::compute::conv_transpose2x2, in, tensor(weight, {ins, outs, 2, 2}), outs, pixels,
          bias, residual);
  Worst worst;
  for (size_t y = 0; y < 2 * height; ++y) {
    for (size_t x = 0; x < 2 * width; ++x) {
      for (size_t o = 0; o < outs; ++o) {
        Sum sum;
        for (size_t c = 0; c < ins; ++c) {
          sum.add(in.at(y / 2, x / 2, c), weight[((c * outs + o) * 2 + y % 2) * 2 + x % 2]);
        }
        const size_t pixel = y * 2 * width + x;
        const double want = expected(sum, bias[o], residual[pixel * outs + o]);
        worst.add(out[pixel * (outs + 3) + o], want, bound(sum, ins, bias[o], want));
      }
    }
  }
  assert_true(worst.within("conv_transpose2x2"));
}

void test_conv_transpose(void**) {
  conv_transpose_case(1, 1, 1, 1);
  conv_transpose_case(3, 5, 7, 9);
  conv_transpose_case(24, 31, 33, 16);
}

void test_upsample_add(void**) {
  Random random(3);
  const Map low(5, 3, 7, random);
  // Twice, and by odd ratios.
  for (const auto& [height, width] :
       {std::array<size_t, 2>{10, 6}, std::array<size_t, 2>{7, 11}, std::array<size_t, 2>{5, 3}}) {
    const Map high(height, width, 7, random);
    for (const int threads : kThreadCounts) {
      OnThreads on(threads);
      std::vector<float> out(height * width * 7);
      assert_true(npuseg::compute::upsample_add(on.exec, low.matrix(), 5, 3, high.matrix(), height,
                                                width, view(out.data(), height * width, 7))
                      .ok());
      for (size_t i = 0; i < out.size(); ++i) {
        const size_t y = i / 7 / width;
        const size_t x = i / 7 % width;
        const float want = low.at(y * 5 / height, x * 3 / width, i % 7) + high.values[i];
        assert_true(out[i] == want);
      }
    }
  }
}

void test_max_pool(void**) {
  Random random(4);
  for (const auto& [height, width] :
       {std::array<size_t, 2>{2, 2}, std::array<size_t, 2>{9, 7}, std::array<size_t, 2>{72, 72}}) {
    const Map in(height, width, 19, random);
    for (const int threads : kThreadCounts) {
      OnThreads on(threads);
      const size_t half = width / 2;
      std::vector<float> out(height / 2 * half * 19);
      assert_true(npuseg::compute::max_pool2x2(on.exec, in.matrix(), height, width,
                                               view(out.data(), height / 2 * half, 19))
                      .ok());
      for (size_t i = 0; i < out.size(); ++i) {
        const size_t y = i / 19 / half * 2;
        const size_t x = i / 19 % half * 2;
        const size_t c = i % 19;
        assert_true(out[i] == std::max(std::max(in.at(y, x, c), in.at(y, x + 1, c)),
                                       std::max(in.at(y + 1, x, c), in.at(y + 1, x + 1, c))));
      }
    }
  }
}

void test_stop(void**) {
  const size_t side = 288;
  const size_t channels = 256;
  std::vector<float> in(side * side * channels, 0.5f);
  std::vector<float> out(in.size(), NAN);
  std::vector<float> weight(channels * channels * 9, 0.01f);
  Stopper stopper;
  npuseg::core::Call call(stopper.options());
  npuseg::compute::Exec exec;
  exec.call = &call;
  const auto status = npuseg::compute::conv3x3(
      exec, view(static_cast<const float*>(in.data()), side * side, channels), side, side,
      tensor(weight, {channels, channels, 3, 3}), view(out.data(), side * side, channels));
  const double took = Stopper::now() - stopper.begin;
  assert_true(status.code() == npuseg::core::Code::kCancelled);
  // Two threads finish a band each after the request, of 144 bands.
  print_message("stopped %.1f ms after the request\n", took - stopper.after_ms);
  assert_true(written_share(out) < 0.25);
}

}  // namespace

int main() {
  npuseg::compute::apply_isa_limit();
  const CMUnitTest tests[] = {
      cmocka_unit_test(test_conv3x3),      cmocka_unit_test(test_conv_transpose),
      cmocka_unit_test(test_upsample_add), cmocka_unit_test(test_max_pool),
      cmocka_unit_test(test_stop),
  };
  return on_every_target(
      [&] { return cmocka_run_group_tests_name("compute/conv", tests, nullptr, nullptr); });
}

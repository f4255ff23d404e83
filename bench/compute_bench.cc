// SPDX-License-Identifier: Apache-2.0
// GFLOP/s of linear layers, attention and convolutions at the SAM 3 shapes, beside the raw product
// peak measured in the same run.
//
//   compute_bench [--threads N] [--reps N] [NAME_PART]
//
// Two percents of the peak, which is measured again before every row: by the clock, which a busy
// machine disturbs, and by processor time, which it hardly does but which hides idle threads.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <functional>
#include <string>
#include <vector>

#include "compute/attention.h"
#include "compute/conv.h"
#include "compute/elementwise.h"
#include "compute/gemm.h"
#include "compute/norm.h"

namespace {

using npuseg::compute::Activation;
using npuseg::core::ConstMatrixView;
using npuseg::core::DType;
using npuseg::core::MatrixView;
using npuseg::core::Status;
using npuseg::core::TensorView;

struct Bench {
  npuseg::core::Call* call = nullptr;
  npuseg::compute::Exec exec;
  int reps = 3;
  std::string only;

  struct Time {
    double wall_ms = 1e30;
    double cpu_ms = 1e30;  // of all threads
  };
  Time best(const std::function<Status()>& run) const {
    Time time;
    for (int i = 0; i <= reps; ++i) {  // the first warms caches and scratch
      const auto begin = std::chrono::steady_clock::now();
      const std::clock_t cpu = std::clock();
      if (!run().ok()) {
        std::fprintf(stderr, "compute_bench: a call failed\n");
        std::exit(1);
      }
      const double cpu_ms = 1e3 * static_cast<double>(std::clock() - cpu) / CLOCKS_PER_SEC;
      const std::chrono::duration<double, std::milli> took =
          std::chrono::steady_clock::now() - begin;
      if (i == 0) continue;
      time.wall_ms = std::min(time.wall_ms, took.count());
      time.cpu_ms = std::min(time.cpu_ms, cpu_ms);
    }
    return time;
  }

  // Independent single-threaded products on all threads of the call: time of a GFLOP.
  Time peak() const {
    constexpr size_t kM = 648;
    constexpr size_t kN = 512;
    constexpr size_t kK = 1024;
    const auto threads = static_cast<size_t>(call->threads());
    static std::vector<float> a(threads * kM * kK, 0.5f);
    static std::vector<float> b(threads * kN * kK, 0.25f);
    static std::vector<float> c(threads * kM * kN);
    Time time = best([&] {
      return npuseg::core::parallel_for(*call, threads, [&](size_t i, int) {
        for (int rep = 0; rep < 4; ++rep) {
          npuseg::compute::sgemm(kM, kN, kK, 1.0f, a.data() + i * kM * kK, kK,
                                 b.data() + i * kN * kK, kK, true, 0.0f, c.data() + i * kM * kN,
                                 kN);
        }
      });
    });
    const double gflop = 2.0 * 4.0 * static_cast<double>(threads * kM * kN * kK) / 1e9;
    time.wall_ms /= gflop;
    time.cpu_ms /= gflop;
    return time;
  }

  bool wanted(const std::string& name) const {
    return only.empty() || name.find(only) != std::string::npos;
  }

  void flops(const std::string& name, double flop, const std::function<Status()>& run) const {
    if (!wanted(name)) return;
    const Time top = peak();
    const Time time = best(run);
    const double gflop = flop / 1e9;
    std::printf("%-38s %9.2f ms %7.1f GFLOP/s %5.1f %% of %.1f by clock, %5.1f %% by cpu\n",
                name.c_str(), time.wall_ms, 1e3 * gflop / time.wall_ms,
                100.0 * gflop * top.wall_ms / time.wall_ms, 1e3 / top.wall_ms,
                100.0 * gflop * top.cpu_ms / time.cpu_ms);
    std::fflush(stdout);
  }
  void bytes(const std::string& name, double count, const std::function<Status()>& run) const {
    if (!wanted(name)) return;
    const double ms = best(run).wall_ms;
    std::printf("%-38s %9.2f ms %8.2f GB/s\n", name.c_str(), ms, count / ms / 1e6);
    std::fflush(stdout);
  }
};

// Values without denormals and without a pattern that a cache could like.
std::vector<float> values(size_t count) {
  std::vector<float> out(count);
  uint32_t state = 12345;
  for (float& v : out) {
    state = state * 1664525u + 1013904223u;
    v = static_cast<float>(state >> 8) / static_cast<float>(1 << 24) - 0.5f;
  }
  return out;
}

ConstMatrixView matrix(const std::vector<float>& data, size_t rows, size_t cols) {
  return {data.data(), rows, cols, cols};
}
MatrixView matrix(std::vector<float>& data, size_t rows, size_t cols) {
  return {data.data(), rows, cols, cols};
}

void linear(const Bench& bench, const char* name, size_t m, size_t k, size_t n,
            Activation activation = Activation::kNone, DType type = DType::kF32) {
  if (!bench.wanted(name)) return;
  const std::vector<float> x = values(m * k);
  const std::vector<float> w = values(n * k);
  const std::vector<uint16_t> half(type == DType::kF32 ? 0 : n * k, uint16_t{0x3C12});
  const std::vector<float> bias = values(n);
  std::vector<float> out(m * n);
  TensorView weight{w.data(), type, {n, k}};
  if (type != DType::kF32) weight.data = half.data();
  npuseg::compute::Epilogue epilogue;
  epilogue.bias = {bias.data(), DType::kF32, {n}};
  epilogue.activation = activation;
  bench.flops(name, 2.0 * static_cast<double>(m) * static_cast<double>(k * n), [&] {
    return npuseg::compute::linear(bench.exec, matrix(x, m, k), weight, matrix(out, m, n),
                                   epilogue);
  });
}

void attention(const Bench& bench, const char* name, size_t batch, size_t queries, size_t keys,
               size_t heads, size_t dim, size_t grid = 0) {
  if (!bench.wanted(name)) return;
  const size_t width = heads * dim;
  const std::vector<float> q = values(batch * queries * width);
  const std::vector<float> k = values(batch * keys * width);
  const std::vector<float> bias = values(heads * queries * grid);
  std::vector<float> out(q.size());
  npuseg::compute::Attention args;
  args.query = q.data();
  args.key = args.value = k.data();
  args.out = out.data();
  args.query_stride = args.key_stride = args.value_stride = args.out_stride = width;
  args.batch = batch;
  args.queries = queries;
  args.keys = keys;
  args.heads = heads;
  args.head_dim = dim;
  args.scale = 0.125f;
  if (grid != 0) {
    args.bias_y = args.bias_x = bias.data();
    args.grid_height = args.grid_width = grid;
  }
  bench.flops(name,
              4.0 * static_cast<double>(batch * heads * queries) * static_cast<double>(keys * dim),
              [&] { return npuseg::compute::attention(bench.exec, args); });
}

void conv3x3(const Bench& bench, const char* name, size_t side, size_t channels) {
  if (!bench.wanted(name)) return;
  const std::vector<float> in = values(side * side * channels);
  const std::vector<float> w = values(channels * channels * 9);
  std::vector<float> out(in.size());
  const TensorView weight{w.data(), DType::kF32, {channels, channels, 3, 3}};
  bench.flops(name,
              18.0 * static_cast<double>(side * side) * static_cast<double>(channels * channels),
              [&] {
                return npuseg::compute::conv3x3(bench.exec, matrix(in, side * side, channels), side,
                                                side, weight, matrix(out, side * side, channels));
              });
}

void conv_transpose(const Bench& bench, const char* name, size_t side, size_t ins, size_t outs) {
  if (!bench.wanted(name)) return;
  const std::vector<float> in = values(side * side * ins);
  const std::vector<float> w = values(ins * outs * 4);
  std::vector<float> out(4 * side * side * outs);
  const TensorView weight{w.data(), DType::kF32, {ins, outs, 2, 2}};
  bench.flops(name, 8.0 * static_cast<double>(side * side) * static_cast<double>(ins * outs), [&] {
    return npuseg::compute::conv_transpose2x2(bench.exec, matrix(in, side * side, ins), side, side,
                                              weight, matrix(out, 4 * side * side, outs));
  });
}

void rows(const Bench& bench) {
  constexpr size_t kRows = 5184;
  constexpr size_t kCols = 1024;
  const std::vector<float> x = values(kRows * kCols);
  const std::vector<float> weights = values(kCols);
  std::vector<float> out(x.size());
  const TensorView vector{weights.data(), DType::kF32, {kCols}};
  const double moved = 8.0 * static_cast<double>(x.size());
  bench.bytes("layer norm 5184x1024", moved, [&] {
    return npuseg::compute::layer_norm(bench.exec, matrix(x, kRows, kCols), {vector, vector, 1e-6f},
                                       matrix(out, kRows, kCols));
  });
  bench.bytes("group norm 5184x1024, 8 groups", 1.5 * moved, [&] {
    return npuseg::compute::group_norm(bench.exec, matrix(x, kRows, kCols), 8, vector, vector,
                                       1e-5f, true, matrix(out, kRows, kCols));
  });
  bench.bytes("find non-finite F32, one thread", 0.5 * moved, [&] {
    const TensorView all{x.data(), DType::kF32, {kRows, kCols}};
    return npuseg::compute::find_non_finite(all) == x.size()
               ? Status()
               : Status(npuseg::core::Code::kInternal, "found one");
  });
  bench.bytes("gelu 5 M values, one thread", moved, [&] {
    std::copy(x.begin(), x.end(), out.begin());
    npuseg::compute::apply_activation(Activation::kGelu, out.data(), out.size());
    return Status();
  });
}

}  // namespace

int main(int argc, char** argv) {
  npuseg::compute::apply_isa_limit();
  npuseg::core::Call::Options options;
  Bench bench;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--threads") == 0 && i + 1 < argc) {
      options.threads = std::atoi(argv[++i]);
    } else if (std::strcmp(argv[i], "--reps") == 0 && i + 1 < argc) {
      bench.reps = std::max(1, std::atoi(argv[++i]));
    } else if (argv[i][0] != '-') {
      bench.only = argv[i];
    } else {
      std::fprintf(stderr, "usage: compute_bench [--threads N] [--reps N] [NAME_PART]\n");
      return 2;
    }
  }
  npuseg::core::Call call(options);
  bench.call = bench.exec.call = &call;
  std::printf("%d threads, %s, Highway %s\n", call.threads(), npuseg::compute::gemm_backend(),
              npuseg::compute::simd_target());

  linear(bench, "linear ViT q 5184x1024x1024", 5184, 1024, 1024);
  linear(bench, "linear ViT fc1 5184x1024x4736 gelu", 5184, 1024, 4736, Activation::kGelu);
  linear(bench, "linear ViT fc2 5184x4736x1024", 5184, 4736, 1024);
  linear(bench, "linear ViT q, BF16 weights", 5184, 1024, 1024, Activation::kNone, DType::kBF16);
  linear(bench, "linear patches 5184x588x1024", 5184, 588, 1024);
  linear(bench, "linear DETR fc1 5184x256x2048 relu", 5184, 256, 2048, Activation::kRelu);
  linear(bench, "linear 1x1 82944x256x256", 82944, 256, 256);
  linear(bench, "linear vision 2520x768x3072 BF16", 2520, 768, 3072, Activation::kNone,
         DType::kBF16);
  linear(bench, "linear text 284x512x2048 BF16", 284, 512, 2048, Activation::kNone, DType::kBF16);
  linear(bench, "linear text 18x512x2048 BF16", 18, 512, 2048, Activation::kNone, DType::kBF16);
  linear(bench, "linear text 32x1024x4096 gelu", 32, 1024, 4096, Activation::kGelu);
  linear(bench, "linear text 4x4096x1024", 4, 4096, 1024);
  linear(bench, "linear queries 201x256x2048", 201, 256, 2048, Activation::kRelu);
  linear(bench, "linear one row 1x256x256", 1, 256, 256);
  // Few rows, more weights than the caches hold: a short text.
  linear(bench, "short text, 512 inputs", 18, 512, 65536);
  linear(bench, "short text, 2048 inputs", 18, 2048, 16384);
  linear(bench, "short text, 512 inputs, bf16", 18, 512, 65536, Activation::kNone, DType::kBF16);
  attention(bench, "attention window 9x16x576^2x64", 9, 576, 576, 16, 64);
  attention(bench, "attention global 16x5184^2x64", 1, 5184, 5184, 16, 64);
  attention(bench, "attention DETR 8x5184^2x32", 1, 5184, 5184, 8, 32);
  attention(bench, "attention text 8x5184x32x32", 1, 5184, 32, 8, 32);
  attention(bench, "attention queries 8x201x5184x32 bias", 1, 201, 5184, 8, 32, 72);
  conv3x3(bench, "conv 3x3 72^2, 256", 72, 256);
  conv3x3(bench, "conv 3x3 144^2, 256", 144, 256);
  conv3x3(bench, "conv 3x3 288^2, 256", 288, 256);
  conv_transpose(bench, "conv transposed 72^2, 1024 to 512", 72, 1024, 512);
  conv_transpose(bench, "conv transposed 144^2, 512 to 256", 144, 512, 256);
  rows(bench);
  return 0;
}

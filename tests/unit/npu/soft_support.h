// SPDX-License-Identifier: Apache-2.0
// Kernels on the software NPU from vectors, and what they should give: formulas in double over the
// stored operands, written down once more.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "bundle/bfp16.h"
#include "core/bf16.h"
#include "core/threads.h"
#include "npu/soft/soft_device.h"

namespace npuseg::test {

using Halves = std::vector<uint16_t>;
using Bytes = std::vector<unsigned char>;

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15u + 1) {}
  float uniform(float low, float high) {
    state_ ^= state_ >> 12;
    state_ ^= state_ << 25;
    state_ ^= state_ >> 27;
    const auto unit = static_cast<float>((state_ * 0x2545F4914F6CDD1Du) >> 40) / 16777216.0f;
    return low + (high - low) * unit;
  }
  Halves halves(size_t count, float low = -1.0f, float high = 1.0f) {
    Halves values(count);
    for (uint16_t& value : values) value = core::to_bf16(uniform(low, high));
    return values;
  }
  std::vector<float> floats(size_t count, float low = -1.0f, float high = 1.0f) {
    std::vector<float> values(count);
    for (float& value : values) value = uniform(low, high);
    return values;
  }

 private:
  uint64_t state_;
};

inline double wide(uint16_t half) { return static_cast<double>(core::from_bf16(half)); }
inline uint16_t stored(double value) { return core::to_bf16(static_cast<float>(value)); }

inline std::span<const unsigned char> bytes_of(const void* data, size_t bytes) {
  return {static_cast<const unsigned char*>(data), bytes};
}

// A device with one context.
struct Machine {
  explicit Machine(npu::soft::Mode mode, int threads = 1) : call(options(threads)) {
    npu::soft::Options soft;
    soft.mode = mode;
    soft.log = log;
    device = npu::soft::make_device(soft);
    context = device->context({"k.xclbin", "MLIR_AIE"}).value();
  }
  static core::Call::Options options(int threads) {
    core::Call::Options options;
    options.threads = threads;
    return options;
  }

  npu::BufferRange buffer(std::span<const unsigned char> content) {
    auto made = device->make_buffer(content.size(), "test").value();
    std::copy(content.begin(), content.end(), made->map().begin());
    return {made, 0, content.size()};
  }
  template <class T>
  npu::BufferRange buffer(const std::vector<T>& content) {
    return buffer(bytes_of(content.data(), content.size() * sizeof(T)));
  }
  core::Result<std::shared_ptr<npu::Kernel>> kernel(const npu::Operation& operation,
                                                    std::span<const unsigned char> stream = {}) {
    return context->make_kernel({"k", stream, operation});
  }
  core::Status run(npu::Kernel& kernel, const std::vector<npu::BufferRange>& arguments) {
    NPUSEG_ASSIGN_OR_RETURN(const auto run, kernel.make_run(arguments));
    NPUSEG_RETURN_IF_ERROR(run->submit(call));
    return run->wait(call);
  }
  core::Status run(const npu::Operation& operation,
                   const std::vector<npu::BufferRange>& arguments) {
    NPUSEG_ASSIGN_OR_RETURN(const auto made, kernel(operation));
    return run(*made, arguments);
  }

  core::Logger log;
  core::Call call;
  std::shared_ptr<npu::Device> device;
  std::shared_ptr<npu::Context> context;
};

inline Halves halves_of(const npu::BufferRange& range) {
  Halves values(range.bytes / 2);
  std::memcpy(values.data(), range.buffer->map().data() + range.offset, range.bytes);
  return values;
}

// Packed from random values; `value` is what is stored, summed over planes.
struct Weight {
  bundle::PackedLayout layout;
  Bytes packed;
  std::vector<double> value;  // [k, n]
  std::vector<double> bias;   // [n]

  Weight(const npu::Gemm& gemm, size_t planes, Random& random)
      : layout{gemm.k, gemm.n, gemm.tile_k, gemm.tile_n, gemm.ct_k, gemm.bias},
        value(gemm.k * gemm.n, 0.0),
        bias(gemm.n, 0.0) {
    std::vector<float> left = random.floats(gemm.k * gemm.n);
    const std::vector<float> biases = random.floats(gemm.n);
    for (size_t p = 0; p < planes; ++p) {
      Bytes plane(layout.bytes());
      const auto status = bundle::pack_matrix(layout, left.data(), gemm.n, 1, biases.data(), plane);
      if (!status.ok()) std::fprintf(stderr, "%s\n", status.message().c_str());
      for (size_t n = 0; n < gemm.n; ++n) {
        for (size_t group = 0; group < gemm.k / 8; ++group) {
          float block[8];
          bundle::unpack_block(plane.data() + layout.block_offset(group, n), block);
          for (size_t i = 0; i < 8; ++i) {
            const size_t at = (group * 8 + i) * gemm.n + n;
            value[at] += static_cast<double>(block[i]);
            left[at] -= block[i];
          }
        }
      }
      packed.insert(packed.end(), plane.begin(), plane.end());
    }
    if (gemm.bias) {
      for (size_t n = 0; n < gemm.n; ++n) bias[n] = wide(core::to_bf16(biases[n]));
    }
  }
};

inline double gelu_tanh(double x) {
  return 0.5 * x * (1.0 + std::tanh(std::sqrt(2.0 / M_PI) * (x + 0.044715 * x * x * x)));
}

// What a value should be, and by how much float32 arithmetic may be off: `mass` is the sum of the
// magnitudes that were added.
struct Expected {
  double value = 0.0;
  double mass = 0.0;
};

// [rows, out columns]
inline std::vector<Expected> expect_gemm(const npu::Gemm& gemm, const Halves& a, size_t first,
                                         const Weight& b) {
  std::vector<Expected> out(gemm.rows * gemm.out_columns());
  const auto sum = [&](size_t r, size_t n) {
    Expected e;
    for (size_t i = 0; i < gemm.k; ++i) {
      const double product = wide(a[first + r * gemm.lda + i]) * b.value[i * gemm.n + n];
      e.value += product;
      e.mass += std::fabs(product);
    }
    e.value += b.bias[n];
    e.mass += std::fabs(b.bias[n]);
    return e;
  };
  const size_t half = gemm.tile_n / 2;
  for (size_t r = 0; r < gemm.rows; ++r) {
    for (size_t j = 0; j < gemm.out_columns(); ++j) {
      Expected& e = out[r * gemm.out_columns() + j];
      if (gemm.pair) {
        const size_t gate = j / half * gemm.tile_n + j % half;
        const Expected g = sum(r, gate);
        const Expected u = sum(r, gate + half);
        e.value = gelu_tanh(g.value) * u.value;
        // The slope of GELU is at most 1.13.
        e.mass = 1.13 * g.mass * std::fabs(u.value) + std::fabs(gelu_tanh(g.value)) * u.mass;
        continue;
      }
      e = sum(r, j);
      if (gemm.activation == npu::GemmActivation::kRelu) e.value = std::max(e.value, 0.0);
      if (gemm.activation == npu::GemmActivation::kGeluTanh) {
        e.value = gelu_tanh(e.value);
        e.mass *= 1.13;
      }
    }
  }
  return out;
}

struct Difference {
  size_t values = 0;
  size_t wrong = 0;    // beyond the bound
  size_t unequal = 0;  // other bits than the exact value rounded once
};

// Fast mode: off by the sum's error (sum_error of compute's tests: 6 sqrt(n) u mass) and half a
// unit of bf16, 2^-8 of the value.
inline void compare(uint16_t found, const Expected& e, size_t terms, Difference* difference) {
  const double sum_error = 6.0 * std::sqrt(static_cast<double>(terms)) / 16777216.0 * e.mass;
  const double bound = sum_error * 1.01 + std::fabs(e.value) / 256.0 + 1e-30;
  ++difference->values;
  if (!(std::fabs(wide(found) - e.value) <= bound)) ++difference->wrong;
  if (found != stored(e.value)) ++difference->unequal;
}

}  // namespace npuseg::test

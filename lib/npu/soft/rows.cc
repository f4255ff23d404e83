// SPDX-License-Identifier: Apache-2.0
// Kernels that work row by row: rotation, sum and norm, and the conversion of rows.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "compute/elementwise.h"
#include "compute/row_bands.h"
#include "compute/simd_kernels.h"
#include "compute/weight_forms.h"
#include "core/bf16.h"
#include "npu/soft/kernels.h"

namespace npuseg::npu::soft {

using compute::Exec;
using compute::over_bands;
using compute::over_rows;
using core::Result;
using core::Status;

namespace {

// The normalised row in double, for values that are exact in it.
void norm_row_faithful(const float* x, size_t count, float eps, uint16_t* h) {
  double mean = 0.0;
  for (size_t i = 0; i < count; ++i) mean += static_cast<double>(x[i]);
  mean /= static_cast<double>(count);
  double variance = 0.0;
  for (size_t i = 0; i < count; ++i) {
    const double off = static_cast<double>(x[i]) - mean;
    variance += off * off;
  }
  variance /= static_cast<double>(count);
  const double deviation = std::sqrt(variance + static_cast<double>(eps));
  for (size_t i = 0; i < count; ++i) {
    h[i] = core::to_bf16(static_cast<float>((static_cast<double>(x[i]) - mean) / deviation));
  }
}

}  // namespace

Result<float*> Scratch::get(const core::MemoryBudgetPtr& budget, size_t slot, size_t count) {
  core::Buffer& held = slots_[slot];
  if (held.bytes() < count * sizeof(float) || held.empty()) {
    held = {};
    NPUSEG_ASSIGN_OR_RETURN(
        held, core::Buffer::make_floats(budget, count, 1, "work of the software NPU"));
  }
  return held.floats();
}

Status widen_rows(const Exec& exec, const uint16_t* from, size_t from_stride, size_t rows,
                  size_t columns, float* to) {
  return over_rows(exec, rows, columns, [&](size_t r) {
    compute::widen_bf16(from + r * from_stride, to + r * columns, columns);
  });
}

Status narrow_rows(const Exec& exec, const float* from, size_t rows, size_t columns, uint16_t* to,
                   size_t to_stride) {
  return over_rows(exec, rows, columns, [&](size_t r) {
    compute::narrow_bf16(from + r * columns, to + r * to_stride, columns);
  });
}

Status run_rope(const Exec& exec, const Rope& rope, const uint16_t* x, const uint16_t* table,
                uint16_t* y) {
  const size_t half = rope.head_dim / 2;
  return over_bands(exec, rope.rows, rope.heads * rope.head_dim, [&](size_t first, size_t end) {
    std::vector<float> angles(rope.head_dim);
    for (size_t r = first; r < end; ++r) {
      compute::widen_bf16(table + r * rope.head_dim, angles.data(), rope.head_dim);
      for (size_t head = 0; head < rope.heads; ++head) {
        const uint16_t* from = x + r * rope.in_stride + head * rope.head_dim;
        uint16_t* to = y + r * rope.out_stride + head * rope.head_dim;
        for (size_t d = 0; d < half; ++d) {
          const float a = core::from_bf16(from[d]);
          const float b = core::from_bf16(from[half + d]);
          const float cosine = angles[2 * d];
          const float sine = angles[2 * d + 1];
          to[d] = core::to_bf16(a * cosine - b * sine);
          to[half + d] = core::to_bf16(b * cosine + a * sine);
        }
      }
    }
  });
}

Status run_add_norm(const Exec& exec, Mode mode, const AddNorm& norm,
                    const AddNormOperands& operands) {
  const size_t count = norm.columns;
  const size_t value = norm.residual_f32 ? sizeof(float) : sizeof(uint16_t);
  const std::vector<float> ones(count, 1.0f);
  const std::vector<float> zeros(count, 0.0f);
  return over_bands(exec, norm.rows, count, [&](size_t first, size_t end) {
    std::vector<float> sum(count);
    std::vector<float> delta(count);
    for (size_t r = first; r < end; ++r) {
      const unsigned char* x = operands.x + r * count * value;
      unsigned char* x_out = operands.x_out + r * count * value;
      if (norm.residual_f32) {
        std::memcpy(sum.data(), x, count * value);
      } else {
        compute::widen_bf16(x, sum.data(), count);
      }
      compute::widen_bf16(operands.delta + r * count, delta.data(), count);
      compute::add_rows(sum.data(), delta.data(), sum.data(), count);
      if (norm.residual_f32) {
        std::memcpy(x_out, sum.data(), count * value);
      } else {
        auto* narrow = reinterpret_cast<uint16_t*>(x_out);
        compute::narrow_bf16(sum.data(), narrow, count);
        compute::widen_bf16(narrow, sum.data(), count);
      }
      uint16_t* h = operands.h + r * count;
      if (mode == Mode::kFaithful) {
        norm_row_faithful(sum.data(), count, norm.eps, h);
        continue;
      }
      compute::layer_norm_row(sum.data(), ones.data(), zeros.data(), norm.eps, sum.data(), nullptr,
                              nullptr, count);
      compute::narrow_bf16(sum.data(), h, count);
    }
  });
}

}  // namespace npuseg::npu::soft

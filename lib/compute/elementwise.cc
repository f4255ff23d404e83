// SPDX-License-Identifier: Apache-2.0
#include "compute/elementwise.h"

#include <hwy/targets.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <string>

#include "compute/gemm_backend.h"
#include "compute/row_bands.h"
#include "compute/simd_kernels.h"
#include "compute/weight_forms.h"
#include "core/env.h"

namespace npuseg::compute {

using core::ConstMatrixView;
using core::DType;
using core::MatrixView;
using core::Status;
using core::TensorView;

namespace {
const unsigned char* bytes_at(const TensorView& tensor, size_t element) {
  return static_cast<const unsigned char*>(tensor.data) + element * core::dtype_bytes(tensor.dtype);
}

// A run of kI8 values, row by row and group by group.
void widen_groups(const TensorView& tensor, size_t first, size_t count, float* out) {
  const size_t row_elements = tensor.row_elements();
  const size_t row_scales = tensor.scales_of_row();
  const auto* values = static_cast<const int8_t*>(tensor.data);
  while (count != 0) {
    const size_t row = first / row_elements;
    const size_t column = first % row_elements;
    const size_t run = std::min(count, row_elements - column);
    widen_i8(values + first, tensor.scales + row * row_scales + column / core::kScaleGroup,
             column % core::kScaleGroup, run, out);
    first += run;
    out += run;
    count -= run;
  }
}
}  // namespace

Status add(const Exec& exec, ConstMatrixView a, ConstMatrixView b, MatrixView out) {
  return over_rows(exec, a.rows, a.cols,
                   [&](size_t r) { add_rows(a.row(r), b.row(r), out.row(r), a.cols); });
}

Status rope_interleaved(const Exec& exec, MatrixView x, size_t heads, size_t head_dim,
                        const float* cosine, const float* sine, size_t table_rows) {
  const size_t pairs = head_dim / 2;
  return over_rows(exec, x.rows, heads * head_dim, [&](size_t r) {
    const size_t at = (r % table_rows) * pairs;
    for (size_t h = 0; h < heads; ++h) {
      rope_row(x.row(r) + h * head_dim, cosine + at, sine + at, pairs);
    }
  });
}

void apply_activation(Activation activation, float* values, size_t count) {
  epilogue_row(values, nullptr, activation, nullptr, values, count);
}

void sigmoid(const float* in, float* out, size_t count) { sigmoid_row(in, out, count); }

void widen(const TensorView& tensor, size_t first, size_t count, float* out) {
  const unsigned char* from = bytes_at(tensor, first);
  switch (tensor.dtype) {
    case DType::kF32:
      std::memcpy(out, from, count * sizeof(float));
      return;
    case DType::kBF16:
      widen_bf16(from, out, count);
      return;
    case DType::kF16:
      widen_f16(from, out, count);
      return;
    case DType::kF64:
      for (size_t i = 0; i < count; ++i) {
        double value;
        std::memcpy(&value, from + i * sizeof value, sizeof value);
        out[i] = static_cast<float>(value);
      }
      return;
    case DType::kI8:
      widen_groups(tensor, first, count, out);
      return;
    case DType::kI64:
    case DType::kI32:
    case DType::kU8:
    case DType::kOther:
      std::fill_n(out, count, 0.0f);
      return;
  }
}

size_t find_non_finite(const TensorView& tensor) {
  return find_non_finite(tensor, 0, tensor.shape.elements());
}

size_t find_non_finite(const TensorView& tensor, size_t first, size_t count) {
  const unsigned char* from = bytes_at(tensor, first);
  switch (tensor.dtype) {
    case DType::kF32:
      return first + find_non_finite_f32(from, count);
    case DType::kBF16:
      return first + find_non_finite_16(from, 0x7F80, count);
    case DType::kF16:
      return first + find_non_finite_16(from, 0x7C00, count);
    case DType::kF64:
      for (size_t i = 0; i < count; ++i) {
        double value;
        std::memcpy(&value, from + i * sizeof value, sizeof value);
        // Also what float32 cannot hold.
        if (!std::isfinite(static_cast<float>(value))) return first + i;
      }
      return first + count;
    case DType::kI64:
    case DType::kI32:
    case DType::kU8:
    case DType::kI8:
    case DType::kOther:
      return first + count;
  }
  return first + count;
}

const char* simd_target() { return simd_kernel_target(); }

void apply_isa_limit() {
  static std::once_flag once;
  std::call_once(once, [] {
    const std::string limit = core::env_max_isa();
    if (limit.empty()) return;
    // Highway's targets are bits, better ones lower: disable all x86 bits above the limit, those
    // that newer releases add too. The baseline of the build always stays.
    const auto all_up_to = [](int64_t target) { return 2 * target - 1; };
    if (limit == "scalar") {
      hwy::DisableTargets(all_up_to(HWY_SSSE3));
    } else if (limit == "sse4") {
      hwy::DisableTargets(all_up_to(HWY_AVX2));
    } else if (limit == "avx2") {
      hwy::DisableTargets(all_up_to(HWY_AVX3));
    }
    limit_gemm_isa(limit);
  });
}

}  // namespace npuseg::compute

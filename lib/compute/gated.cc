// SPDX-License-Identifier: Apache-2.0
#include "compute/gated.h"

#include "compute/row_bands.h"
#include "compute/simd_kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "compute/gated.cc"
#include <hwy/foreach_target.h>
// Behind foreach_target.
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace npuseg::compute {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

void MultiplyRow(const float* other, float* row, size_t count) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    hn::StoreU(hn::Mul(hn::LoadU(d, row + i), hn::LoadU(d, other + i)), d, row + i);
  }
  for (; i < count; ++i) row[i] *= other[i];
}

}  // namespace HWY_NAMESPACE
}  // namespace npuseg::compute
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace npuseg::compute {

HWY_EXPORT(MultiplyRow);

core::Status multiply_gated(const Exec& exec, Activation activation, core::MatrixView gate,
                            core::ConstMatrixView other) {
  constexpr size_t kValues = size_t{1} << 14;
  if (gate.rows == 0 || gate.cols == 0) return exec.call->check();
  return over_rows(
      exec, gate.rows, gate.cols,
      [&](size_t r) {
        epilogue_row(gate.row(r), nullptr, activation, nullptr, gate.row(r), gate.cols);
        HWY_DYNAMIC_DISPATCH(MultiplyRow)(other.row(r), gate.row(r), gate.cols);
      },
      kValues, 3.0);
}

}  // namespace npuseg::compute
#endif

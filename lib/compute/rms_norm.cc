// SPDX-License-Identifier: Apache-2.0
#include "compute/rms_norm.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "compute/elementwise.h"
#include "compute/row_bands.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "compute/rms_norm.cc"
#include <hwy/foreach_target.h>
// Behind foreach_target.
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace npuseg::compute {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// gamma and residual may be null. In double, rounded once: the norm of queries and keys feeds a
// softmax, which multiplies every rounding before it.
void RmsRow(const float* in, const float* gamma, const float* residual, float eps,
            float input_scale, float output_scale, float* out, size_t count) {
  const hn::ScalableTag<double> d;
  const hn::Rebind<float, decltype(d)> narrow;
  const size_t lanes = hn::Lanes(d);
  const auto scale = hn::Set(narrow, input_scale);
  auto squares = hn::Zero(d);
  size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto v = hn::PromoteTo(d, hn::Mul(hn::LoadU(narrow, in + i), scale));
    squares = hn::MulAdd(v, v, squares);
  }
  double sum = hn::GetLane(hn::SumOfLanes(d, squares));
  for (; i < count; ++i) {
    const auto v = static_cast<double>(in[i] * input_scale);
    sum += v * v;
  }
  const double mean = sum / static_cast<double>(count);
  const double factor = 1.0 / std::sqrt(mean + static_cast<double>(eps));
  const auto factors = hn::Set(d, factor);
  const auto last = hn::Set(d, static_cast<double>(output_scale));
  for (i = 0; i + lanes <= count; i += lanes) {
    auto v = hn::Mul(hn::PromoteTo(d, hn::Mul(hn::LoadU(narrow, in + i), scale)), factors);
    if (gamma != nullptr) v = hn::Mul(v, hn::PromoteTo(d, hn::LoadU(narrow, gamma + i)));
    if (residual != nullptr) v = hn::Add(hn::PromoteTo(d, hn::LoadU(narrow, residual + i)), v);
    hn::StoreU(hn::DemoteTo(narrow, hn::Mul(v, last)), narrow, out + i);
  }
  for (; i < count; ++i) {
    double v = static_cast<double>(in[i] * input_scale) * factor;
    if (gamma != nullptr) v *= static_cast<double>(gamma[i]);
    if (residual != nullptr) v += static_cast<double>(residual[i]);
    out[i] = static_cast<float>(v * static_cast<double>(output_scale));
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace npuseg::compute
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace npuseg::compute {

HWY_EXPORT(RmsRow);

core::Status rms_norm(const Exec& exec, core::ConstMatrixView x, const RmsNorm& norm,
                      core::MatrixView out, const RmsNormOptions& options) {
  constexpr size_t kValues = size_t{1} << 15;
  if (x.rows == 0 || x.cols == 0) return exec.call->check();
  const size_t count = x.cols / options.runs;
  std::vector<float> gamma;
  if (!norm.gamma.empty()) {
    gamma.resize(count);
    widen(norm.gamma, 0, count, gamma.data());
  }
  return over_rows(
      exec, x.rows, x.cols,
      [&](size_t r) {
        for (size_t run = 0; run < options.runs; ++run) {
          const size_t first = run * count;
          const float* residual =
              options.residual.data == nullptr ? nullptr : options.residual.row(r) + first;
          HWY_DYNAMIC_DISPATCH(RmsRow)
          (x.row(r) + first, gamma.empty() ? nullptr : gamma.data(), residual, norm.eps,
           options.input_scale, options.output_scale, out.row(r) + first, count);
        }
      },
      kValues);
}

}  // namespace npuseg::compute
#endif

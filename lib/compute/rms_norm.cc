// SPDX-License-Identifier: Apache-2.0
#include "compute/rms_norm.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "compute/elementwise.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "compute/rms_norm.cc"
#include <hwy/foreach_target.h>
// Behind foreach_target.
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace npuseg::compute {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// gamma and residual may be null.
void RmsRow(const float* in, const float* gamma, const float* residual, float eps,
            float input_scale, float output_scale, float* out, size_t count) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  const auto scale = hn::Set(d, input_scale);
  auto squares = hn::Zero(d);
  size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto v = hn::Mul(hn::LoadU(d, in + i), scale);
    squares = hn::MulAdd(v, v, squares);
  }
  float sum = hn::GetLane(hn::SumOfLanes(d, squares));
  for (; i < count; ++i) {
    const float v = in[i] * input_scale;
    sum += v * v;
  }
  const double mean = static_cast<double>(sum) / static_cast<double>(count);
  const auto factor = static_cast<float>(1.0 / std::sqrt(mean + static_cast<double>(eps)));
  const auto factors = hn::Set(d, factor);
  const auto last = hn::Set(d, output_scale);
  for (i = 0; i + lanes <= count; i += lanes) {
    auto v = hn::Mul(hn::Mul(hn::LoadU(d, in + i), scale), factors);
    if (gamma != nullptr) v = hn::Mul(v, hn::LoadU(d, gamma + i));
    if (residual != nullptr) v = hn::Add(hn::LoadU(d, residual + i), v);
    hn::StoreU(hn::Mul(v, last), d, out + i);
  }
  for (; i < count; ++i) {
    float v = in[i] * input_scale * factor;
    if (gamma != nullptr) v *= gamma[i];
    if (residual != nullptr) v = residual[i] + v;
    out[i] = v * output_scale;
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
  constexpr size_t kBandValues = size_t{1} << 15;
  if (x.rows == 0 || x.cols == 0) return exec.call->check();
  const size_t count = x.cols / options.runs;
  std::vector<float> gamma;
  if (!norm.gamma.empty()) {
    gamma.resize(count);
    widen(norm.gamma, 0, count, gamma.data());
  }
  const size_t band = std::max<size_t>(1, kBandValues / x.cols);
  return core::parallel_for(
      *exec.call, (x.rows + band - 1) / band,
      [&](size_t index, int) {
        for (size_t r = index * band; r < std::min(x.rows, (index + 1) * band); ++r) {
          for (size_t run = 0; run < options.runs; ++run) {
            const size_t first = run * count;
            const float* residual =
                options.residual.data == nullptr ? nullptr : options.residual.row(r) + first;
            HWY_DYNAMIC_DISPATCH(RmsRow)
            (x.row(r) + first, gamma.empty() ? nullptr : gamma.data(), residual, norm.eps,
             options.input_scale, options.output_scale, out.row(r) + first, count);
          }
        }
      },
      static_cast<double>(x.rows * x.cols));
}

}  // namespace npuseg::compute
#endif

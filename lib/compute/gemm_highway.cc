// SPDX-License-Identifier: Apache-2.0
// The product without oneDNN: register-blocked Highway loops over packed panels of B.
#include <algorithm>
#include <cstring>
#include <vector>

#include "compute/gemm_backend.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "compute/gemm_highway.cc"
#include <hwy/foreach_target.h>
// Behind foreach_target.
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace npuseg::compute {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

constexpr size_t kRows = 6;

size_t PanelWidth() { return 2 * hn::Lanes(hn::ScalableTag<float>()); }

// sums[r] += a[r, 0..k) * panel; panel holds k rows of two vectors.
template <size_t kCount>
void Block(const float* a, size_t a_stride, const float* panel, size_t k, float* sums) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  using V = hn::Vec<decltype(d)>;
  V low[kCount];
  V high[kCount];
  for (size_t r = 0; r < kCount; ++r) low[r] = high[r] = hn::Zero(d);
  for (size_t i = 0; i < k; ++i) {
    const V b0 = hn::LoadU(d, panel + i * 2 * lanes);
    const V b1 = hn::LoadU(d, panel + i * 2 * lanes + lanes);
    for (size_t r = 0; r < kCount; ++r) {
      const V value = hn::Set(d, a[r * a_stride + i]);
      low[r] = hn::MulAdd(value, b0, low[r]);
      high[r] = hn::MulAdd(value, b1, high[r]);
    }
  }
  for (size_t r = 0; r < kCount; ++r) {
    hn::StoreU(low[r], d, sums + r * 2 * lanes);
    hn::StoreU(high[r], d, sums + r * 2 * lanes + lanes);
  }
}

void RunBlock(size_t rows, const float* a, size_t a_stride, const float* panel, size_t k,
              float* sums) {
  switch (rows) {
    case 1:
      return Block<1>(a, a_stride, panel, k, sums);
    case 2:
      return Block<2>(a, a_stride, panel, k, sums);
    case 3:
      return Block<3>(a, a_stride, panel, k, sums);
    case 4:
      return Block<4>(a, a_stride, panel, k, sums);
    case 5:
      return Block<5>(a, a_stride, panel, k, sums);
    default:
      return Block<kRows>(a, a_stride, panel, k, sums);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace npuseg::compute
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace npuseg::compute {

HWY_EXPORT(PanelWidth);
HWY_EXPORT(RunBlock);

void backend_sgemm(size_t m, size_t n, size_t k, float alpha, const float* a, size_t a_stride,
                   const float* b, size_t b_stride, bool b_is_transposed, float beta, float* c,
                   size_t c_stride) {
  constexpr size_t kRows = 6;
  const size_t width = HWY_DYNAMIC_DISPATCH(PanelWidth)();
  std::vector<float> panel(std::max<size_t>(k, 1) * width);
  std::vector<float> sums(kRows * width);
  for (size_t j = 0; j < n; j += width) {
    const size_t columns = std::min(width, n - j);
    std::fill(panel.begin(), panel.end(), 0.0f);
    for (size_t i = 0; i < k; ++i) {
      for (size_t x = 0; x < columns; ++x) {
        panel[i * width + x] =
            b_is_transposed ? b[(j + x) * b_stride + i] : b[i * b_stride + j + x];
      }
    }
    for (size_t r = 0; r < m; r += kRows) {
      const size_t rows = std::min(kRows, m - r);
      HWY_DYNAMIC_DISPATCH(RunBlock)
      (rows, a + r * a_stride, a_stride, panel.data(), k, sums.data());
      for (size_t y = 0; y < rows; ++y) {
        float* out = c + (r + y) * c_stride + j;
        const float* sum = sums.data() + y * width;
        for (size_t x = 0; x < columns; ++x) {
          // beta 0 must not read what is there: it may be uninitialised.
          out[x] = alpha * sum[x] + (beta == 0.0f ? 0.0f : beta * out[x]);
        }
      }
    }
  }
}

const char* backend_name() { return "Highway"; }
void limit_gemm_isa(const std::string&) {}

}  // namespace npuseg::compute
#endif

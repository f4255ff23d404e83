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
#include "compute/strip_product-inl.h"

HWY_BEFORE_NAMESPACE();
namespace npuseg::compute {
namespace HWY_NAMESPACE {

size_t PanelWidth() { return panel_width(); }

// sums[r, :] = a[r, 0..k) * panel for all `rows`.
void Strips(size_t rows, const float* a, size_t a_stride, const float* panel, size_t k,
            float* sums) {
  for (size_t r = 0; r < rows; r += kStripRows) {
    strip_times_panels<kStripRows>(rows - r < kStripRows ? rows - r : kStripRows, a + r * a_stride,
                                   a_stride, panel, 1, k, false, sums + r * panel_width(),
                                   panel_width());
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace npuseg::compute
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace npuseg::compute {

HWY_EXPORT(PanelWidth);
HWY_EXPORT(Strips);

void backend_sgemm(size_t m, size_t n, size_t k, float alpha, const float* a, size_t a_stride,
                   const float* b, size_t b_stride, bool b_is_transposed, float beta, float* c,
                   size_t c_stride) {
  const size_t width = HWY_DYNAMIC_DISPATCH(PanelWidth)();
  std::vector<float> panel(std::max<size_t>(k, 1) * width);
  std::vector<float> sums(m * width);
  for (size_t j = 0; j < n; j += width) {
    const size_t columns = std::min(width, n - j);
    std::fill(panel.begin(), panel.end(), 0.0f);
    for (size_t i = 0; i < k; ++i) {
      for (size_t x = 0; x < columns; ++x) {
        panel[i * width + x] =
            b_is_transposed ? b[(j + x) * b_stride + i] : b[i * b_stride + j + x];
      }
    }
    HWY_DYNAMIC_DISPATCH(Strips)(m, a, a_stride, panel.data(), k, sums.data());
    for (size_t r = 0; r < m; ++r) {
      float* out = c + r * c_stride + j;
      const float* sum = sums.data() + r * width;
      for (size_t x = 0; x < columns; ++x) {
        // beta 0 must not read what is there: it may be uninitialised.
        out[x] = alpha * sum[x] + (beta == 0.0f ? 0.0f : beta * out[x]);
      }
    }
  }
}

const char* backend_name() { return "Highway"; }
void limit_gemm_isa(const std::string&) {}

}  // namespace npuseg::compute
#endif

// SPDX-License-Identifier: Apache-2.0
#include "compute/attention_kernels.h"

#include <algorithm>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "compute/attention_kernels.cc"
#include <hwy/foreach_target.h>
// Behind foreach_target.
#include "compute/strip_product-inl.h"

HWY_BEFORE_NAMESPACE();
namespace npuseg::compute {
namespace HWY_NAMESPACE {

size_t StripRows() { return kStripRows; }
size_t PanelWidth() { return panel_width(); }

// columns keys, dim values each, into one panel.
void PackKeyPanel(const float* keys, size_t stride, size_t columns, size_t dim, float* panel) {
  const size_t width = panel_width();
  if (columns < width) {
    for (size_t i = 0; i < dim * width; ++i) panel[i] = 0.0f;
  }
  size_t j = 0;
#if HWY_TARGET != HWY_SCALAR
  // Squares of four keys and four values, turned in registers.
  const hn::FixedTag<float, 4> d;
  const hn::FixedTag<double, 2> pairs;
  for (; j + 4 <= columns; j += 4) {
    const float* key = keys + j * stride;
    size_t c = 0;
    for (; c + 4 <= dim; c += 4) {
      const auto k0 = hn::LoadU(d, key + c);
      const auto k1 = hn::LoadU(d, key + stride + c);
      const auto k2 = hn::LoadU(d, key + 2 * stride + c);
      const auto k3 = hn::LoadU(d, key + 3 * stride + c);
      const auto low01 = hn::BitCast(pairs, hn::InterleaveLower(d, k0, k1));
      const auto high01 = hn::BitCast(pairs, hn::InterleaveUpper(d, k0, k1));
      const auto low23 = hn::BitCast(pairs, hn::InterleaveLower(d, k2, k3));
      const auto high23 = hn::BitCast(pairs, hn::InterleaveUpper(d, k2, k3));
      float* to = panel + c * width + j;
      hn::StoreU(hn::BitCast(d, hn::InterleaveLower(pairs, low01, low23)), d, to);
      hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(pairs, low01, low23)), d, to + width);
      hn::StoreU(hn::BitCast(d, hn::InterleaveLower(pairs, high01, high23)), d, to + 2 * width);
      hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(pairs, high01, high23)), d, to + 3 * width);
    }
    for (; c < dim; ++c) {
      for (size_t r = 0; r < 4; ++r) panel[c * width + j + r] = key[r * stride + c];
    }
  }
#endif
  for (; j < columns; ++j) {
    for (size_t c = 0; c < dim; ++c) panel[c * width + j] = keys[j * stride + c];
  }
}

void ScoreStrip(size_t rows, const float* query, size_t query_stride, const float* packed_keys,
                size_t panels, size_t dim, float* scores, size_t scores_stride) {
  strip_times_panels<kStripRows>(rows, query, query_stride, packed_keys, panels, dim, false, scores,
                                 scores_stride);
}

void AddValuesStrip(size_t rows, const float* scores, size_t scores_stride,
                    const float* packed_values, size_t panels, size_t count, float* sums,
                    size_t sums_stride) {
  strip_times_panels<kStripRows>(rows, scores, scores_stride, packed_values, panels, count, true,
                                 sums, sums_stride);
}

}  // namespace HWY_NAMESPACE
}  // namespace npuseg::compute
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace npuseg::compute {

HWY_EXPORT(StripRows);
HWY_EXPORT(PanelWidth);
HWY_EXPORT(PackKeyPanel);
HWY_EXPORT(ScoreStrip);
HWY_EXPORT(AddValuesStrip);

size_t attention_strip() { return HWY_DYNAMIC_DISPATCH(StripRows)(); }
size_t attention_panel() { return HWY_DYNAMIC_DISPATCH(PanelWidth)(); }

void pack_keys(const float* keys, size_t stride, size_t count, size_t dim, float* packed) {
  const size_t width = attention_panel();
  for (size_t first = 0; first < count; first += width) {
    HWY_DYNAMIC_DISPATCH(PackKeyPanel)
    (keys + first * stride, stride, std::min(width, count - first), dim, packed + first * dim);
  }
}

void pack_values(const float* values, size_t stride, size_t count, size_t dim, float* packed) {
  const size_t width = attention_panel();
  for (size_t first = 0; first < dim; first += width) {
    float* panel = packed + first * count;
    const size_t columns = std::min(width, dim - first);
    if (columns < width) std::fill_n(panel, count * width, 0.0f);
    for (size_t j = 0; j < count; ++j) {
      std::memcpy(panel + j * width, values + j * stride + first, columns * sizeof(float));
    }
  }
}

void score_strip(size_t rows, const float* query, size_t query_stride, const float* packed_keys,
                 size_t panels, size_t dim, float* scores, size_t scores_stride) {
  HWY_DYNAMIC_DISPATCH(ScoreStrip)
  (rows, query, query_stride, packed_keys, panels, dim, scores, scores_stride);
}
void add_values_strip(size_t rows, const float* scores, size_t scores_stride,
                      const float* packed_values, size_t panels, size_t count, float* sums,
                      size_t sums_stride) {
  HWY_DYNAMIC_DISPATCH(AddValuesStrip)
  (rows, scores, scores_stride, packed_values, panels, count, sums, sums_stride);
}

}  // namespace npuseg::compute
#endif

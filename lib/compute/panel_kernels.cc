// SPDX-License-Identifier: Apache-2.0
#include "compute/panel_kernels.h"

#include <algorithm>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "compute/panel_kernels.cc"
#include <hwy/foreach_target.h>
// Behind foreach_target.
#include "compute/strip_product-inl.h"

HWY_BEFORE_NAMESPACE();
namespace npuseg::compute {
namespace HWY_NAMESPACE {

size_t StripHeight() { return kStripRows; }
size_t PanelColumns() { return panel_width(); }

// `columns` rows of `depth` values become the columns of one panel.
void TransposePanel(const float* from, size_t stride, size_t columns, size_t depth, float* panel) {
  const size_t width = panel_width();
  if (columns < width) {
    for (size_t i = 0; i < depth * width; ++i) panel[i] = 0.0f;
  }
  size_t j = 0;
#if HWY_TARGET != HWY_SCALAR
  // Squares of four by four, turned in registers.
  const hn::FixedTag<float, 4> d;
  const hn::FixedTag<double, 2> pairs;
  for (; j + 4 <= columns; j += 4) {
    const float* row = from + j * stride;
    size_t c = 0;
    for (; c + 4 <= depth; c += 4) {
      const auto r0 = hn::LoadU(d, row + c);
      const auto r1 = hn::LoadU(d, row + stride + c);
      const auto r2 = hn::LoadU(d, row + 2 * stride + c);
      const auto r3 = hn::LoadU(d, row + 3 * stride + c);
      const auto low01 = hn::BitCast(pairs, hn::InterleaveLower(d, r0, r1));
      const auto high01 = hn::BitCast(pairs, hn::InterleaveUpper(d, r0, r1));
      const auto low23 = hn::BitCast(pairs, hn::InterleaveLower(d, r2, r3));
      const auto high23 = hn::BitCast(pairs, hn::InterleaveUpper(d, r2, r3));
      float* to = panel + c * width + j;
      hn::StoreU(hn::BitCast(d, hn::InterleaveLower(pairs, low01, low23)), d, to);
      hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(pairs, low01, low23)), d, to + width);
      hn::StoreU(hn::BitCast(d, hn::InterleaveLower(pairs, high01, high23)), d, to + 2 * width);
      hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(pairs, high01, high23)), d, to + 3 * width);
    }
    for (; c < depth; ++c) {
      for (size_t r = 0; r < 4; ++r) panel[c * width + j + r] = row[r * stride + c];
    }
  }
#endif
  for (; j < columns; ++j) {
    for (size_t c = 0; c < depth; ++c) panel[c * width + j] = from[j * stride + c];
  }
}

void MultiplyStrip(size_t rows, const float* a, size_t a_stride, const float* packed, size_t panels,
                   size_t depth, bool accumulate, float* sums, size_t sums_stride) {
  for (size_t p = 0; p < panels; ++p) {
    strip_times_panel<kStripRows>(rows, a, a_stride, packed + p * depth * panel_width(), depth,
                                  accumulate, sums + p * panel_width(), sums_stride, nullptr, 0);
  }
}

void MultiplyPanel(size_t rows, const float* a, size_t a_stride, const float* panel, size_t depth,
                   bool accumulate, float* sums, size_t sums_stride, const float* const* ahead,
                   size_t ahead_count) {
  const size_t strips = (rows + kStripRows - 1) / kStripRows;
  size_t asked = 0;
  for (size_t s = 0; s < strips; ++s) {
    const size_t first = s * kStripRows;
    const size_t share = std::min(depth, (ahead_count - asked) / (strips - s));
    strip_times_panel<kStripRows>(std::min(kStripRows, rows - first), a + first * a_stride,
                                  a_stride, panel, depth, accumulate, sums + first * sums_stride,
                                  sums_stride, ahead + asked, share);
    asked += share;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace npuseg::compute
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace npuseg::compute {

HWY_EXPORT(StripHeight);
HWY_EXPORT(PanelColumns);
HWY_EXPORT(TransposePanel);
HWY_EXPORT(MultiplyStrip);
HWY_EXPORT(MultiplyPanel);

size_t strip_height() { return HWY_DYNAMIC_DISPATCH(StripHeight)(); }
size_t panel_columns() { return HWY_DYNAMIC_DISPATCH(PanelColumns)(); }

void pack_transposed(const float* from, size_t stride, size_t rows, size_t depth, float* packed) {
  const size_t width = panel_columns();
  for (size_t first = 0; first < rows; first += width) {
    HWY_DYNAMIC_DISPATCH(TransposePanel)
    (from + first * stride, stride, std::min(width, rows - first), depth, packed + first * depth);
  }
}

void pack_straight(const float* from, size_t stride, size_t depth, size_t columns, float* packed) {
  const size_t width = panel_columns();
  for (size_t first = 0; first < columns; first += width) {
    float* panel = packed + first * depth;
    const size_t count = std::min(width, columns - first);
    if (count < width) std::fill_n(panel, depth * width, 0.0f);
    for (size_t i = 0; i < depth; ++i) {
      std::memcpy(panel + i * width, from + i * stride + first, count * sizeof(float));
    }
  }
}

void multiply_strip(size_t rows, const float* a, size_t a_stride, const float* packed,
                    size_t panels, size_t depth, bool accumulate, float* sums, size_t sums_stride) {
  HWY_DYNAMIC_DISPATCH(MultiplyStrip)
  (rows, a, a_stride, packed, panels, depth, accumulate, sums, sums_stride);
}

void multiply_panel(size_t rows, const float* a, size_t a_stride, const float* panel, size_t depth,
                    bool accumulate, float* sums, size_t sums_stride, const float* const* ahead,
                    size_t ahead_count) {
  HWY_DYNAMIC_DISPATCH(MultiplyPanel)
  (rows, a, a_stride, panel, depth, accumulate, sums, sums_stride, ahead, ahead_count);
}

}  // namespace npuseg::compute
#endif

// SPDX-License-Identifier: Apache-2.0
// The register-blocked product that attention and the fallback GEMM share: a strip of a few rows of
// A times a panel of two vectors of columns. Included once a Highway target.
#if defined(NPUSEG_COMPUTE_STRIP_PRODUCT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef NPUSEG_COMPUTE_STRIP_PRODUCT_INL_H_
#undef NPUSEG_COMPUTE_STRIP_PRODUCT_INL_H_
#else
#define NPUSEG_COMPUTE_STRIP_PRODUCT_INL_H_
#endif

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <cstddef>

HWY_BEFORE_NAMESPACE();
namespace npuseg::compute {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Two accumulators a row, the panel's two vectors and one broadcast fill the registers: 16, or 32
// with AVX-512.
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL
constexpr size_t kStripRows = 12;
#else
constexpr size_t kStripRows = 6;
#endif

HWY_INLINE size_t panel_width() { return 2 * hn::Lanes(hn::ScalableTag<float>()); }

// The sums of kCount rows as plain members, one row and the others: compilers keep an array of
// vectors in memory unless they unroll every loop over it.
template <size_t kCount>
struct StripSums {
  using D = hn::ScalableTag<float>;
  using V = hn::Vec<D>;

  HWY_INLINE void zero() {
    low = high = hn::Zero(D());
    others.zero();
  }
  HWY_INLINE void add(const float* a, size_t a_stride, V b0, V b1) {
    const V value = hn::Set(D(), *a);
    low = hn::MulAdd(value, b0, low);
    high = hn::MulAdd(value, b1, high);
    others.add(a + a_stride, a_stride, b0, b1);
  }
  HWY_INLINE void store(float* to, size_t stride) const {
    hn::StoreU(low, D(), to);
    hn::StoreU(high, D(), to + hn::Lanes(D()));
    others.store(to + stride, stride);
  }
  HWY_INLINE void add_to(float* to, size_t stride) const {
    const size_t lanes = hn::Lanes(D());
    hn::StoreU(hn::Add(hn::LoadU(D(), to), low), D(), to);
    hn::StoreU(hn::Add(hn::LoadU(D(), to + lanes), high), D(), to + lanes);
    others.add_to(to + stride, stride);
  }

  V low;
  V high;
  StripSums<kCount - 1> others;
};

template <>
struct StripSums<0> {
  template <class V>
  HWY_INLINE void add(const float*, size_t, V, V) {}
  HWY_INLINE void zero() {}
  HWY_INLINE void store(float*, size_t) const {}
  HWY_INLINE void add_to(float*, size_t) const {}
};

// sums[r, :] = (accumulate ? sums[r, :] : 0) + (a[r, 0..depth) * panel [depth, panel_width()]). The
// product is summed by itself: the error of a long sum grows with its longest chain of additions.
// The cache lines `ahead`, at most `depth`, are asked for on the way.
template <size_t kCount>
HWY_INLINE void strip_product(const float* HWY_RESTRICT a, size_t a_stride,
                              const float* HWY_RESTRICT panel, size_t depth, bool accumulate,
                              float* HWY_RESTRICT sums, size_t sums_stride,
                              const float* const* ahead, size_t ahead_count) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  StripSums<kCount> strip;
  strip.zero();
  const size_t steps = ahead_count == 0 ? depth : depth / ahead_count;
  for (size_t i = 0, line = 0; i < depth; ++line) {
    if (line < ahead_count) hwy::Prefetch(ahead[line]);
    const size_t end = line + 1 < ahead_count ? i + steps : depth;
    for (; i < end; ++i) {
      const auto b0 = hn::LoadU(d, panel + i * 2 * lanes);
      const auto b1 = hn::LoadU(d, panel + i * 2 * lanes + lanes);
      strip.add(a + i, a_stride, b0, b1);
    }
  }
  if (accumulate) {
    strip.add_to(sums, sums_stride);
  } else {
    strip.store(sums, sums_stride);
  }
}

// strip_product of 1 <= rows <= kCount.
template <size_t kCount>
HWY_INLINE void strip_times_panel(size_t rows, const float* a, size_t a_stride, const float* panel,
                                  size_t depth, bool accumulate, float* sums, size_t sums_stride,
                                  const float* const* ahead, size_t ahead_count) {
  if constexpr (kCount > 1) {
    if (rows < kCount) {
      strip_times_panel<kCount - 1>(rows, a, a_stride, panel, depth, accumulate, sums, sums_stride,
                                    ahead, ahead_count);
      return;
    }
  }
  strip_product<kCount>(a, a_stride, panel, depth, accumulate, sums, sums_stride, ahead,
                        ahead_count);
}

}  // namespace HWY_NAMESPACE
}  // namespace npuseg::compute
HWY_AFTER_NAMESPACE();

#endif

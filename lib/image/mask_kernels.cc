// SPDX-License-Identifier: Apache-2.0
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "image/mask_kernels.cc"
#include "image/mask_kernels.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace npuseg::image::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Before AVX2 Highway's MulAdd rounds twice; the C library's fma does not.
#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_SSSE3 || HWY_TARGET == HWY_SSE4
#define NPUSEG_VECTOR_FMA 0
#else
#define NPUSEG_VECTOR_FMA 1
#endif

void StretchRow(const float* row, const uint32_t* low, const uint32_t* high, const float* w_low,
                const float* w_high, float* out, size_t count) {
  size_t i = 0;
#if NPUSEG_VECTOR_FMA
  const hn::ScalableTag<float> d;
  const hn::Rebind<int32_t, decltype(d)> di;
  const hn::Rebind<uint32_t, decltype(d)> du;
  const size_t n = hn::Lanes(d);
  for (; i + n <= count; i += n) {
    const auto a = hn::GatherIndex(d, row, hn::BitCast(di, hn::LoadU(du, low + i)));
    const auto b = hn::GatherIndex(d, row, hn::BitCast(di, hn::LoadU(du, high + i)));
    const auto second = hn::Mul(b, hn::LoadU(d, w_high + i));
    hn::StoreU(hn::MulAdd(a, hn::LoadU(d, w_low + i), second), d, out + i);
  }
#endif
  for (; i < count; ++i) out[i] = blend_one(row[low[i]], row[high[i]], w_low[i], w_high[i]);
}

void Blend(const float* a, const float* b, float w_low, float w_high, float* out, size_t count) {
  size_t i = 0;
#if NPUSEG_VECTOR_FMA
  const hn::ScalableTag<float> d;
  const size_t n = hn::Lanes(d);
  const auto low = hn::Set(d, w_low);
  const auto high = hn::Set(d, w_high);
  for (; i + n <= count; i += n) {
    const auto second = hn::Mul(hn::LoadU(d, b + i), high);
    hn::StoreU(hn::MulAdd(hn::LoadU(d, a + i), low, second), d, out + i);
  }
#endif
  for (; i < count; ++i) out[i] = blend_one(a[i], b[i], w_low, w_high);
}

uint64_t BlendAbove(const float* a, const float* b, float w_low, float w_high, float threshold,
                    uint8_t set, uint8_t* out, size_t count) {
  size_t i = 0;
  uint64_t above = 0;
#if NPUSEG_VECTOR_FMA
  const hn::ScalableTag<float> d;
  const hn::Rebind<int32_t, decltype(d)> di;
  const hn::Rebind<uint8_t, decltype(d)> db;
  const size_t n = hn::Lanes(d);
  const auto low = hn::Set(d, w_low);
  const auto high = hn::Set(d, w_high);
  const auto limit = hn::Set(d, threshold);
  const auto value = hn::Set(di, int32_t{set});
  for (; i + n <= count; i += n) {
    const auto second = hn::Mul(hn::LoadU(d, b + i), high);
    const auto mask = hn::Gt(hn::MulAdd(hn::LoadU(d, a + i), low, second), limit);
    above += hn::CountTrue(d, mask);
    const auto wide = hn::IfThenElseZero(hn::RebindMask(di, mask), value);
    hn::StoreU(hn::DemoteTo(db, wide), db, out + i);
  }
#endif
  for (; i < count; ++i) {
    const bool is_above = blend_one(a[i], b[i], w_low, w_high) > threshold;
    above += is_above ? 1 : 0;
    out[i] = is_above ? set : uint8_t{0};
  }
  return above;
}

void BlendStrided(const float* a, const float* b, size_t stride, float w_low, float w_high,
                  bool copy, float* out, size_t count) {
  if (copy) {
    for (size_t i = 0; i < count; ++i) out[i] = a[i * stride];
    return;
  }
  for (size_t i = 0; i < count; ++i) {
    out[i] = blend_one(a[i * stride], b[i * stride], w_low, w_high);
  }
}

#undef NPUSEG_VECTOR_FMA

}  // namespace npuseg::image::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace npuseg::image {

HWY_EXPORT(StretchRow);
HWY_EXPORT(Blend);
HWY_EXPORT(BlendAbove);
HWY_EXPORT(BlendStrided);

void stretch_row(const float* row, const uint32_t* low, const uint32_t* high, const float* w_low,
                 const float* w_high, float* out, size_t count) {
  HWY_DYNAMIC_DISPATCH(StretchRow)(row, low, high, w_low, w_high, out, count);
}

void blend(const float* a, const float* b, float w_low, float w_high, float* out, size_t count) {
  HWY_DYNAMIC_DISPATCH(Blend)(a, b, w_low, w_high, out, count);
}

uint64_t blend_above(const float* a, const float* b, float w_low, float w_high, float threshold,
                     uint8_t set, uint8_t* out, size_t count) {
  return HWY_DYNAMIC_DISPATCH(BlendAbove)(a, b, w_low, w_high, threshold, set, out, count);
}

void blend_strided(const float* a, const float* b, size_t stride, float w_low, float w_high,
                   bool copy, float* out, size_t count) {
  HWY_DYNAMIC_DISPATCH(BlendStrided)(a, b, stride, w_low, w_high, copy, out, count);
}

}  // namespace npuseg::image
#endif

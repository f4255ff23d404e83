// SPDX-License-Identifier: Apache-2.0
#include "compute/weight_forms.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "compute/weight_forms.cc"
#include <hwy/foreach_target.h>
// Behind foreach_target.
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace npuseg::compute {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

uint16_t NarrowOne(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return static_cast<uint16_t>(bits >> 16 | 0x40u);
  return static_cast<uint16_t>((bits + 0x7FFFu + (bits >> 16 & 1u)) >> 16);
}

void NarrowBf16(const float* in, uint16_t* out, size_t count) {
  const hn::ScalableTag<uint32_t> d;
  const hn::Rebind<uint16_t, decltype(d)> d16;
  const hn::RebindToSigned<decltype(d)> di;
  const size_t lanes = hn::Lanes(d);
  const auto quiet = hn::Set(d, 0x40u);
  size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto bits = hn::BitCast(d, hn::LoadU(hn::RebindToFloat<decltype(d)>(), in + i));
    const auto high = hn::ShiftRight<16>(bits);
    const auto odd = hn::And(high, hn::Set(d, 1u));
    const auto rounded = hn::ShiftRight<16>(hn::Add(bits, hn::Add(odd, hn::Set(d, 0x7FFFu))));
    const auto magnitude = hn::BitCast(di, hn::And(bits, hn::Set(d, 0x7FFFFFFFu)));
    const auto is_nan = hn::RebindMask(d, hn::Gt(magnitude, hn::Set(di, 0x7F800000)));
    hn::StoreU(
        hn::DemoteTo(d16, hn::BitCast(di, hn::IfThenElse(is_nan, hn::Or(high, quiet), rounded))),
        d16, out + i);
  }
  for (; i < count; ++i) out[i] = NarrowOne(in[i]);
}

// Bits of the largest magnitude; those of a NaN are above all others.
int32_t LargestBits(const float* in, size_t count) {
  const hn::ScalableTag<int32_t> d;
  const size_t lanes = hn::Lanes(d);
  const auto mask = hn::Set(d, 0x7FFFFFFF);
  auto largest = hn::Zero(d);
  size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto bits = hn::BitCast(d, hn::LoadU(hn::RebindToFloat<decltype(d)>(), in + i));
    largest = hn::Max(largest, hn::And(bits, mask));
  }
  int32_t result = hn::GetLane(hn::MaxOfLanes(d, largest));
  for (; i < count; ++i) {
    int32_t bits;
    std::memcpy(&bits, in + i, sizeof bits);
    result = HWY_MAX(result, bits & 0x7FFFFFFF);
  }
  return result;
}

float NarrowGroup(const float* in, int8_t* out, size_t count) {
  const int32_t bits = LargestBits(in, count);
  float largest;
  std::memcpy(&largest, &bits, sizeof largest);
  if (bits >= 0x7F800000 || largest < 0x1p-100f) {
    std::memset(out, 0, count);
    return bits >= 0x7F800000 ? std::numeric_limits<float>::quiet_NaN() : 0.0f;
  }
  const float inverse = 127.0f / largest;
  const hn::ScalableTag<float> d;
  const hn::Rebind<int8_t, decltype(d)> d8;
  const size_t lanes = hn::Lanes(d);
  size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto scaled = hn::Mul(hn::LoadU(d, in + i), hn::Set(d, inverse));
    hn::StoreU(hn::DemoteTo(d8, hn::NearestInt(scaled)), d8, out + i);
  }
  for (; i < count; ++i) out[i] = static_cast<int8_t>(std::lrint(in[i] * inverse));
  return largest / 127.0f;
}

void NarrowI8(const float* in, int8_t* out, float* scales, size_t count) {
  for (size_t i = 0; i < count; i += core::kScaleGroup) {
    scales[i / core::kScaleGroup] =
        NarrowGroup(in + i, out + i, HWY_MIN(core::kScaleGroup, count - i));
  }
}

void WidenRun(const int8_t* in, float scale, size_t count, float* out) {
  const hn::ScalableTag<float> d;
  const hn::RebindToSigned<decltype(d)> d32;
  const hn::Rebind<int8_t, decltype(d)> d8;
  const size_t lanes = hn::Lanes(d);
  const auto factor = hn::Set(d, scale);
  size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto wide = hn::PromoteTo(d32, hn::LoadU(d8, in + i));
    hn::StoreU(hn::Mul(hn::ConvertTo(d, wide), factor), d, out + i);
  }
  for (; i < count; ++i) out[i] = static_cast<float>(in[i]) * scale;
}

void WidenI8(const int8_t* in, const float* scales, size_t skipped, size_t count, float* out) {
  size_t run = HWY_MIN(count, core::kScaleGroup - skipped);
  for (size_t i = 0; i < count; i += run, run = HWY_MIN(count - i, core::kScaleGroup)) {
    WidenRun(in + i, *scales++, run, out + i);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace npuseg::compute
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace npuseg::compute {

HWY_EXPORT(NarrowBf16);
HWY_EXPORT(NarrowI8);
HWY_EXPORT(WidenI8);

void narrow_bf16(const float* in, uint16_t* out, size_t count) {
  HWY_DYNAMIC_DISPATCH(NarrowBf16)(in, out, count);
}
void narrow_i8(const float* in, int8_t* out, float* scales, size_t count) {
  HWY_DYNAMIC_DISPATCH(NarrowI8)(in, out, scales, count);
}
void widen_i8(const int8_t* in, const float* scales, size_t skipped, size_t count, float* out) {
  HWY_DYNAMIC_DISPATCH(WidenI8)(in, scales, skipped, count, out);
}

}  // namespace npuseg::compute
#endif

// SPDX-License-Identifier: Apache-2.0
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "image/resize_kernels.cc"
#include "image/resize_kernels.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <cstring>

HWY_BEFORE_NAMESPACE();
namespace npuseg::image::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

inline uint8_t RoundToByte(int32_t sum, uint32_t precision) {
  const int32_t value = sum >> precision;
  return static_cast<uint8_t>(value < 0 ? 0 : (value > 255 ? 255 : value));
}

#if HWY_TARGET == HWY_SCALAR

void ResizeRow(const uint8_t* in, const PackedTaps& taps, uint32_t out_width, uint8_t* out) {
  for (uint32_t x = 0; x < out_width; ++x, out += 3) {
    const uint8_t* from = in + size_t{taps.first[x]} * 3;
    const int32_t* pair = taps.pairs + size_t{x} * taps.groups * 2;
    int32_t sum[3];
    for (int32_t& s : sum) s = 1 << (taps.precision - 1);
    for (uint32_t j = 0; j < taps.group_count[x] * 2; ++j, from += 6) {
      const int32_t first = static_cast<int16_t>(pair[j] & 0xFFFF);
      const int32_t second = pair[j] >> 16;
      for (int c = 0; c < 3; ++c) sum[c] += first * from[c] + second * from[c + 3];
    }
    for (int c = 0; c < 3; ++c) out[c] = RoundToByte(sum[c], taps.precision);
  }
}

#else

// A pixel pair becomes 16-bit lanes r0 r1 g0 g1 b0 b1 0 0; multiplied by w0 w1 w0 w1 ... and added
// in twos this gives the lanes r g b 0.
void ResizeRow(const uint8_t* in, const PackedTaps& taps, uint32_t out_width, uint8_t* out) {
  const hn::FixedTag<uint8_t, 16> d8;
  const hn::FixedTag<int16_t, 8> d16;
  const hn::FixedTag<int32_t, 4> d32;
  constexpr uint8_t kNo = 0x80;
  alignas(16) static constexpr uint8_t kFirstPair[16] = {0, kNo, 3, kNo, 1,   kNo, 4,   kNo,
                                                         2, kNo, 5, kNo, kNo, kNo, kNo, kNo};
  alignas(16) static constexpr uint8_t kSecondPair[16] = {6, kNo, 9,  kNo, 7,   kNo, 10,  kNo,
                                                          8, kNo, 11, kNo, kNo, kNo, kNo, kNo};
  const auto first_pair = hn::Load(d8, kFirstPair);
  const auto second_pair = hn::Load(d8, kSecondPair);
  const auto half = hn::Set(d32, 1 << (taps.precision - 1));
  const int shift = static_cast<int>(taps.precision);
  for (uint32_t x = 0; x < out_width; ++x, out += 3) {
    const uint8_t* from = in + size_t{taps.first[x]} * 3;
    const int32_t* pair = taps.pairs + size_t{x} * taps.groups * 2;
    auto sum0 = hn::Zero(d32);
    auto sum1 = hn::Zero(d32);
    for (uint32_t g = 0; g < taps.group_count[x]; ++g, from += 12, pair += 2) {
      const auto bytes = hn::LoadU(d8, from);
      const auto a = hn::BitCast(d16, hn::TableLookupBytesOr0(bytes, first_pair));
      const auto b = hn::BitCast(d16, hn::TableLookupBytesOr0(bytes, second_pair));
      const auto wa = hn::BitCast(d16, hn::Set(d32, pair[0]));
      const auto wb = hn::BitCast(d16, hn::Set(d32, pair[1]));
      sum0 = hn::ReorderWidenMulAccumulate(d32, a, wa, sum0, sum1);
      sum0 = hn::ReorderWidenMulAccumulate(d32, b, wb, sum0, sum1);
    }
    const auto sum = hn::Add(hn::RearrangeToOddPlusEven(sum0, sum1), half);
    const auto shifted = hn::ShiftRightSame(sum, shift);
    const auto rgb = hn::DemoteTo(hn::FixedTag<uint8_t, 4>(), shifted);
    hn::StoreU(rgb, hn::FixedTag<uint8_t, 4>(), out);
  }
}

#endif

void ResizeColumn(const uint8_t* in, size_t stride, const int16_t* weights, uint32_t count,
                  uint32_t precision, size_t bytes, uint8_t* out) {
  size_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::FixedTag<uint8_t, 16> d8;
  const hn::FixedTag<int16_t, 8> d16;
  const hn::FixedTag<int32_t, 4> d32;
  const hn::FixedTag<uint8_t, 4> quarter;
  const auto zero = hn::Zero(d8);
  const auto half = hn::Set(d32, 1 << (precision - 1));
  const int shift = static_cast<int>(precision);
  for (; i + 16 <= bytes; i += 16) {
    auto s0 = hn::Zero(d32), s1 = s0, s2 = s0, s3 = s0;
    auto t0 = s0, t1 = s0, t2 = s0, t3 = s0;
    for (uint32_t j = 0; j < count; j += 2) {
      const bool single = j + 1 == count;
      const uint8_t* row = in + j * stride + i;
      const auto a = hn::LoadU(d8, row);
      const auto b = single ? zero : hn::LoadU(d8, row + stride);
      const uint32_t first = static_cast<uint16_t>(weights[j]);
      const uint32_t second = single ? 0 : static_cast<uint16_t>(weights[j + 1]);
      const auto w = hn::BitCast(d16, hn::Set(d32, static_cast<int32_t>(second << 16 | first)));
      const auto low = hn::InterleaveLower(d8, a, b);
      const auto high = hn::InterleaveUpper(d8, a, b);
      const auto p0 = hn::BitCast(d16, hn::InterleaveLower(d8, low, zero));
      const auto p1 = hn::BitCast(d16, hn::InterleaveUpper(d8, low, zero));
      const auto p2 = hn::BitCast(d16, hn::InterleaveLower(d8, high, zero));
      const auto p3 = hn::BitCast(d16, hn::InterleaveUpper(d8, high, zero));
      s0 = hn::ReorderWidenMulAccumulate(d32, p0, w, s0, t0);
      s1 = hn::ReorderWidenMulAccumulate(d32, p1, w, s1, t1);
      s2 = hn::ReorderWidenMulAccumulate(d32, p2, w, s2, t2);
      s3 = hn::ReorderWidenMulAccumulate(d32, p3, w, s3, t3);
    }
    const auto put = [&](auto s, auto t, size_t at) HWY_ATTR {
      const auto sum = hn::Add(hn::RearrangeToOddPlusEven(s, t), half);
      hn::StoreU(hn::DemoteTo(quarter, hn::ShiftRightSame(sum, shift)), quarter, out + i + at);
    };
    put(s0, t0, 0);
    put(s1, t1, 4);
    put(s2, t2, 8);
    put(s3, t3, 12);
  }
#endif
  for (; i < bytes; ++i) {
    int32_t sum = 1 << (precision - 1);
    for (uint32_t j = 0; j < count; ++j) sum += weights[j] * in[j * stride + i];
    out[i] = RoundToByte(sum, precision);
  }
}

}  // namespace npuseg::image::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace npuseg::image {

HWY_EXPORT(ResizeRow);
HWY_EXPORT(ResizeColumn);

void resize_row_rgb(const uint8_t* in, const PackedTaps& taps, uint32_t out_width, uint8_t* out) {
  HWY_DYNAMIC_DISPATCH(ResizeRow)(in, taps, out_width, out);
}

void resize_column_bytes(const uint8_t* in, size_t stride, const int16_t* weights, uint32_t count,
                         uint32_t precision, size_t bytes, uint8_t* out) {
  HWY_DYNAMIC_DISPATCH(ResizeColumn)(in, stride, weights, count, precision, bytes, out);
}

}  // namespace npuseg::image
#endif

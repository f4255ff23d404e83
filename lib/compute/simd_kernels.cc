// SPDX-License-Identifier: Apache-2.0
#include "compute/simd_kernels.h"

#include <cmath>
#include <cstring>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "compute/simd_kernels.cc"
#include <hwy/foreach_target.h>
// Behind foreach_target.
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace npuseg::compute {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

// Loads `n` < lanes values, zeros behind them, and stores as many.
HWY_INLINE V load_part(D d, const float* from, size_t n) {
  HWY_ALIGN float part[HWY_MAX_BYTES / sizeof(float)] = {};
  std::memcpy(part, from, n * sizeof(float));
  return hn::Load(d, part);
}
HWY_INLINE void store_part(D d, V v, float* to, size_t n) {
  HWY_ALIGN float part[HWY_MAX_BYTES / sizeof(float)];
  hn::Store(v, d, part);
  std::memcpy(to, part, n * sizeof(float));
}

// Calls fn(index, load, store) over whole vectors and once over the rest.
template <class Fn>
HWY_INLINE void for_lanes(D d, size_t count, Fn&& fn) {
  const size_t lanes = hn::Lanes(d);
  size_t i = 0;
  for (; i + lanes <= count; i += lanes) fn(i, lanes);
  if (i < count) fn(i, count - i);
}
HWY_INLINE V load_n(D d, const float* from, size_t n) {
  return n == hn::Lanes(d) ? hn::LoadU(d, from) : load_part(d, from, n);
}
HWY_INLINE void store_n(D d, V v, float* to, size_t n) {
  if (n == hn::Lanes(d)) {
    hn::StoreU(v, d, to);
  } else {
    store_part(d, v, to, n);
  }
}

// e^x for x <= 0, zero below -87.3 (the smallest normal float). x = n ln 2 + r, |r| <= ln 2 / 2;
// e^r = 1 + r + r^2 q(r), q a minimax fit of our own (relative error 4.4e-9); 2^n goes straight
// into the exponent.
HWY_INLINE V exp_of(D d, V x) {
  const hn::RebindToUnsigned<D> bits;
  const V low = hn::Set(d, -87.3f);
  const V shifter = hn::Set(d, 12582912.0f);  // 1.5 * 2^23: rounds and leaves n in the low bits
  const V v = hn::Max(x, low);
  const V shifted = hn::MulAdd(v, hn::Set(d, 1.44269504088896341f), shifter);
  const V n = hn::Sub(shifted, shifter);
  V r = hn::NegMulAdd(n, hn::Set(d, 0.693359375f), v);
  r = hn::NegMulAdd(n, hn::Set(d, -2.12194440e-4f), r);
  V q = hn::Set(d, 1.381446724e-3f);
  q = hn::MulAdd(q, r, hn::Set(d, 8.368780836e-3f));
  q = hn::MulAdd(q, r, hn::Set(d, 4.166839272e-2f));
  q = hn::MulAdd(q, r, hn::Set(d, 1.666651964e-1f));
  q = hn::MulAdd(q, r, hn::Set(d, 4.999999404e-1f));
  const V e = hn::Add(hn::MulAdd(hn::Mul(r, r), q, r), hn::Set(d, 1.0f));
  const auto power = hn::ShiftLeft<23>(hn::BitCast(bits, shifted));
  const V result = hn::BitCast(d, hn::Add(hn::BitCast(bits, e), power));
  return hn::IfThenElseZero(hn::Ge(x, low), result);
}

HWY_INLINE V sigmoid_of(D d, V x) {
  const V one = hn::Set(d, 1.0f);
  // exp(-|x|) never overflows; both signs share it.
  const V e = exp_of(d, hn::Neg(hn::Abs(x)));
  const V positive = hn::Div(one, hn::Add(one, e));
  const V negative = hn::Div(e, hn::Add(one, e));
  return hn::IfThenElse(hn::Ge(x, hn::Zero(d)), positive, negative);
}

// 1 + erf(x / sqrt 2) without cancellation for negative x. Two minimax fits of our own: a
// polynomial in z^2 of erf(z)/z for z < 0.95 (error 3e-11) and erfc(z) = t exp(-z^2 + P(t)),
// t = 1/(1 + z/2), beyond (error 5e-9); what is left is float32 rounding.
HWY_INLINE V one_plus_erf(D d, V x) {
  const V one = hn::Set(d, 1.0f);
  const V z = hn::Mul(hn::Abs(x), hn::Set(d, 0.70710678118654752f));
  const V zz = hn::Mul(z, z);
  V q = hn::Set(d, -9.667044571e-06f);
  q = hn::MulAdd(q, zz, hn::Set(d, 1.126595903e-04f));
  q = hn::MulAdd(q, zz, hn::Set(d, -8.484080406e-04f));
  q = hn::MulAdd(q, zz, hn::Set(d, 5.221031808e-03f));
  q = hn::MulAdd(q, zz, hn::Set(d, -2.686543073e-02f));
  q = hn::MulAdd(q, zz, hn::Set(d, 1.128378250e-01f));
  q = hn::MulAdd(q, zz, hn::Set(d, -3.761263847e-01f));
  q = hn::MulAdd(q, zz, hn::Set(d, 1.128379167e+00f));
  const V near = hn::Mul(z, q);
  const V t = hn::Div(one, hn::MulAdd(hn::Min(z, hn::Set(d, 9.0f)), hn::Set(d, 0.5f), one));
  V p = hn::Set(d, -2.083771254e-01f);
  p = hn::MulAdd(p, t, hn::Set(d, 5.371153093e-01f));
  p = hn::MulAdd(p, t, hn::Set(d, -2.963882086e-01f));
  p = hn::MulAdd(p, t, hn::Set(d, -1.888637548e-01f));
  p = hn::MulAdd(p, t, hn::Set(d, -1.287017928e-02f));
  p = hn::MulAdd(p, t, hn::Set(d, 5.340457762e-02f));
  p = hn::MulAdd(p, t, hn::Set(d, 3.812007363e-01f));
  p = hn::MulAdd(p, t, hn::Set(d, 9.993367735e-01f));
  p = hn::MulAdd(p, t, hn::Set(d, -1.265483026e+00f));
  const V far = hn::Mul(t, exp_of(d, hn::NegMulAdd(z, z, p)));
  const auto is_near = hn::Lt(z, hn::Set(d, 0.95f));
  const V erfc = hn::IfThenElse(is_near, hn::Sub(one, near), far);
  const V two_minus = hn::IfThenElse(is_near, hn::Add(one, near), hn::Sub(hn::Set(d, 2.0f), far));
  return hn::IfThenElse(hn::Ge(x, hn::Zero(d)), two_minus, erfc);
}

HWY_INLINE V activate(D d, V x, Activation activation) {
  switch (activation) {
    case Activation::kNone:
      return x;
    case Activation::kRelu:
      return hn::Max(x, hn::Zero(d));
    case Activation::kGelu:
      return hn::Mul(hn::Mul(x, hn::Set(d, 0.5f)), one_plus_erf(d, x));
    case Activation::kQuickGelu:
      return hn::Mul(x, sigmoid_of(d, hn::Mul(x, hn::Set(d, 1.702f))));
    case Activation::kGeluTanh: {
      // x/2 (1 + tanh u) = x sigmoid(2u)
      const V cube = hn::Mul(hn::Mul(x, x), x);
      const V u =
          hn::Mul(hn::Set(d, 0.79788456080286536f), hn::MulAdd(cube, hn::Set(d, 0.044715f), x));
      return hn::Mul(x, sigmoid_of(d, hn::Add(u, u)));
    }
    case Activation::kSilu:
      return hn::Mul(x, sigmoid_of(d, x));
  }
  return x;
}

template <Activation kActivation>
HWY_INLINE void epilogue_loop(const float* in, const float* bias, const float* residual, float* out,
                              size_t count) {
  const D d;
  for_lanes(d, count, [&](size_t i, size_t n) HWY_ATTR {
    V v = load_n(d, in + i, n);
    if (bias != nullptr) v = hn::Add(v, load_n(d, bias + i, n));
    v = activate(d, v, kActivation);
    if (residual != nullptr) v = hn::Add(v, load_n(d, residual + i, n));
    store_n(d, v, out + i, n);
  });
}

void EpilogueRow(const float* in, const float* bias, Activation activation, const float* residual,
                 float* out, size_t count) {
  switch (activation) {
    case Activation::kNone:
      return epilogue_loop<Activation::kNone>(in, bias, residual, out, count);
    case Activation::kRelu:
      return epilogue_loop<Activation::kRelu>(in, bias, residual, out, count);
    case Activation::kGelu:
      return epilogue_loop<Activation::kGelu>(in, bias, residual, out, count);
    case Activation::kQuickGelu:
      return epilogue_loop<Activation::kQuickGelu>(in, bias, residual, out, count);
    case Activation::kGeluTanh:
      return epilogue_loop<Activation::kGeluTanh>(in, bias, residual, out, count);
    case Activation::kSilu:
      return epilogue_loop<Activation::kSilu>(in, bias, residual, out, count);
  }
}

HWY_INLINE float sum_of(D d, V v) { return hn::GetLane(hn::SumOfLanes(d, v)); }

void LayerNormRow(const float* in, const float* gamma, const float* beta, float eps, float* out,
                  const float* add, float* out_plus_add, size_t count) {
  const D d;
  V sum = hn::Zero(d);
  for_lanes(d, count,
            [&](size_t i, size_t n) HWY_ATTR { sum = hn::Add(sum, load_n(d, in + i, n)); });
  const float mean = sum_of(d, sum) / static_cast<float>(count);
  const V means = hn::Set(d, mean);
  V squares = hn::Zero(d);
  for_lanes(d, count, [&](size_t i, size_t n) HWY_ATTR {
    V delta = hn::Sub(load_n(d, in + i, n), means);
    if (n != hn::Lanes(d)) delta = hn::IfThenElseZero(hn::FirstN(d, n), delta);
    squares = hn::MulAdd(delta, delta, squares);
  });
  const float variance = sum_of(d, squares) / static_cast<float>(count);
  const V factor = hn::Set(d, 1.0f / std::sqrt(variance + eps));
  for_lanes(d, count, [&](size_t i, size_t n) HWY_ATTR {
    const V normed = hn::Mul(hn::Sub(load_n(d, in + i, n), means), factor);
    const V v = hn::MulAdd(normed, load_n(d, gamma + i, n), load_n(d, beta + i, n));
    store_n(d, v, out + i, n);
    if (add != nullptr) store_n(d, hn::Add(v, load_n(d, add + i, n)), out_plus_add + i, n);
  });
}

template <bool kBias>
HWY_INLINE float softmax_loop(float* scores, size_t count, float scale, const float* bias,
                              float* running_max, float* running_sum) {
  const D d;
  const V scales = hn::Set(d, scale);
  const V lowest = hn::Set(d, -std::numeric_limits<float>::infinity());
  V largest = lowest;
  for_lanes(d, count, [&](size_t i, size_t n) HWY_ATTR {
    V v = load_n(d, scores + i, n);
    if constexpr (kBias) v = hn::MulAdd(v, scales, load_n(d, bias + i, n));
    if (n != hn::Lanes(d)) v = hn::IfThenElse(hn::FirstN(d, n), v, lowest);
    largest = hn::Max(largest, v);
  });
  float block_max = hn::GetLane(hn::MaxOfLanes(d, largest));
  if constexpr (!kBias) block_max *= scale;
  const float old_max = *running_max;
  const float new_max = block_max > old_max ? block_max : old_max;
  const V maxima = hn::Set(d, new_max);
  V sum = hn::Zero(d);
  for_lanes(d, count, [&](size_t i, size_t n) HWY_ATTR {
    V v = load_n(d, scores + i, n);
    if constexpr (kBias) {
      v = hn::Sub(hn::MulAdd(v, scales, load_n(d, bias + i, n)), maxima);
    } else {
      v = hn::MulSub(v, scales, maxima);
    }
    v = exp_of(d, v);
    if (n != hn::Lanes(d)) v = hn::IfThenElseZero(hn::FirstN(d, n), v);
    store_n(d, v, scores + i, n);
    sum = hn::Add(sum, v);
  });
  const float factor =
      old_max == -std::numeric_limits<float>::infinity() ? 0.0f : std::exp(old_max - new_max);
  *running_max = new_max;
  *running_sum = *running_sum * factor + sum_of(d, sum);
  return factor;
}

float SoftmaxRow(float* scores, size_t count, float scale, const float* bias, float* running_max,
                 float* running_sum) {
  return bias == nullptr ? softmax_loop<false>(scores, count, scale, bias, running_max, running_sum)
                         : softmax_loop<true>(scores, count, scale, bias, running_max, running_sum);
}

void AddConstantRow(const float* a, float b, float* row, size_t count) {
  const D d;
  const V v = hn::Set(d, b);
  for_lanes(d, count, [&](size_t i, size_t n) HWY_ATTR {
    store_n(d, hn::Add(load_n(d, a + i, n), v), row + i, n);
  });
}

void AddRows(const float* a, const float* b, float* out, size_t count) {
  const D d;
  for_lanes(d, count, [&](size_t i, size_t n) HWY_ATTR {
    store_n(d, hn::Add(load_n(d, a + i, n), load_n(d, b + i, n)), out + i, n);
  });
}

void ScaleRow(float* row, float factor, size_t count) {
  const D d;
  const V v = hn::Set(d, factor);
  for_lanes(d, count, [&](size_t i, size_t n) HWY_ATTR {
    store_n(d, hn::Mul(load_n(d, row + i, n), v), row + i, n);
  });
}

void AffineRow(const float* in, const float* scale, const float* shift, bool relu, float* out,
               size_t count) {
  const D d;
  for_lanes(d, count, [&](size_t i, size_t n) HWY_ATTR {
    V v = hn::MulAdd(load_n(d, in + i, n), load_n(d, scale + i, n), load_n(d, shift + i, n));
    if (relu) v = hn::Max(v, hn::Zero(d));
    store_n(d, v, out + i, n);
  });
}

void Max4Row(const float* a, const float* b, const float* c, const float* e, float* out,
             size_t count) {
  const D d;
  for_lanes(d, count, [&](size_t i, size_t n) HWY_ATTR {
    store_n(d,
            hn::Max(hn::Max(load_n(d, a + i, n), load_n(d, b + i, n)),
                    hn::Max(load_n(d, c + i, n), load_n(d, e + i, n))),
            out + i, n);
  });
}

void RopeRow(float* values, const float* cosine, const float* sine, size_t pairs) {
  const D d;
  const size_t lanes = hn::Lanes(d);
  size_t m = 0;
#if HWY_TARGET != HWY_SCALAR
  for (; m + lanes <= pairs; m += lanes) {
    V even;
    V odd;
    hn::LoadInterleaved2(d, values + 2 * m, even, odd);
    const V c = hn::LoadU(d, cosine + m);
    const V s = hn::LoadU(d, sine + m);
    hn::StoreInterleaved2(hn::Sub(hn::Mul(even, c), hn::Mul(odd, s)),
                          hn::Add(hn::Mul(odd, c), hn::Mul(even, s)), d, values + 2 * m);
  }
#endif
  (void)lanes;
  for (; m < pairs; ++m) {
    const float even = values[2 * m];
    const float odd = values[2 * m + 1];
    values[2 * m] = even * cosine[m] - odd * sine[m];
    values[2 * m + 1] = odd * cosine[m] + even * sine[m];
  }
}

void SigmoidRow(const float* in, float* out, size_t count) {
  const D d;
  for_lanes(d, count, [&](size_t i, size_t n) HWY_ATTR {
    store_n(d, sigmoid_of(d, load_n(d, in + i, n)), out + i, n);
  });
}

void WidenBf16(const void* in, float* out, size_t count) {
  const D d;
  const hn::Rebind<uint16_t, D> d16;
  const hn::RebindToUnsigned<D> d32;
  const size_t lanes = hn::Lanes(d);
  const auto* from = static_cast<const uint16_t*>(in);
  size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto wide = hn::PromoteTo(d32, hn::LoadU(d16, from + i));
    hn::StoreU(hn::BitCast(d, hn::ShiftLeft<16>(wide)), d, out + i);
  }
  for (; i < count; ++i) {
    uint16_t bits;
    std::memcpy(&bits, from + i, sizeof bits);
    const uint32_t wide = static_cast<uint32_t>(bits) << 16;
    std::memcpy(out + i, &wide, sizeof wide);
  }
}

size_t FindNonFiniteF32(const void* in, size_t count) {
  const hn::ScalableTag<uint32_t> d;
  const size_t lanes = hn::Lanes(d);
  const auto mask = hn::Set(d, 0x7F800000u);
  const auto* from = static_cast<const uint32_t*>(in);
  size_t i = 0;
  for (; i + 4 * lanes <= count; i += 4 * lanes) {
    auto bad = hn::Eq(hn::And(hn::LoadU(d, from + i), mask), mask);
    for (size_t k = 1; k < 4; ++k) {
      bad = hn::Or(bad, hn::Eq(hn::And(hn::LoadU(d, from + i + k * lanes), mask), mask));
    }
    if (HWY_UNLIKELY(!hn::AllFalse(d, bad))) break;
  }
  for (; i < count; ++i) {
    uint32_t bits;
    std::memcpy(&bits, static_cast<const unsigned char*>(in) + 4 * i, sizeof bits);
    if ((bits & 0x7F800000u) == 0x7F800000u) return i;
  }
  return count;
}

size_t FindNonFinite16(const void* in, uint16_t exponent_mask, size_t count) {
  const hn::ScalableTag<uint16_t> d;
  const size_t lanes = hn::Lanes(d);
  const auto mask = hn::Set(d, exponent_mask);
  const auto* from = static_cast<const uint16_t*>(in);
  size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto bad = hn::Eq(hn::And(hn::LoadU(d, from + i), mask), mask);
    if (HWY_UNLIKELY(!hn::AllFalse(d, bad))) break;
  }
  for (; i < count; ++i) {
    uint16_t bits;
    std::memcpy(&bits, static_cast<const unsigned char*>(in) + 2 * i, sizeof bits);
    if ((bits & exponent_mask) == exponent_mask) return i;
  }
  return count;
}

const char* TargetName() { return hwy::TargetName(HWY_TARGET); }

}  // namespace HWY_NAMESPACE
}  // namespace npuseg::compute
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace npuseg::compute {

HWY_EXPORT(EpilogueRow);
HWY_EXPORT(LayerNormRow);
HWY_EXPORT(SoftmaxRow);
HWY_EXPORT(AddConstantRow);
HWY_EXPORT(AddRows);
HWY_EXPORT(ScaleRow);
HWY_EXPORT(AffineRow);
HWY_EXPORT(Max4Row);
HWY_EXPORT(RopeRow);
HWY_EXPORT(SigmoidRow);
HWY_EXPORT(WidenBf16);
HWY_EXPORT(FindNonFiniteF32);
HWY_EXPORT(FindNonFinite16);
HWY_EXPORT(TargetName);

void epilogue_row(const float* in, const float* bias, Activation activation, const float* residual,
                  float* out, size_t count) {
  HWY_DYNAMIC_DISPATCH(EpilogueRow)(in, bias, activation, residual, out, count);
}
void layer_norm_row(const float* in, const float* gamma, const float* beta, float eps, float* out,
                    const float* add, float* out_plus_add, size_t count) {
  HWY_DYNAMIC_DISPATCH(LayerNormRow)(in, gamma, beta, eps, out, add, out_plus_add, count);
}
float softmax_row(float* scores, size_t count, float scale, const float* bias, float* running_max,
                  float* running_sum) {
  return HWY_DYNAMIC_DISPATCH(SoftmaxRow)(scores, count, scale, bias, running_max, running_sum);
}
void add_constant_row(const float* a, float b, float* row, size_t count) {
  HWY_DYNAMIC_DISPATCH(AddConstantRow)(a, b, row, count);
}
void add_rows(const float* a, const float* b, float* out, size_t count) {
  HWY_DYNAMIC_DISPATCH(AddRows)(a, b, out, count);
}
void scale_row(float* row, float factor, size_t count) {
  HWY_DYNAMIC_DISPATCH(ScaleRow)(row, factor, count);
}
void affine_row(const float* in, const float* scale, const float* shift, bool relu, float* out,
                size_t count) {
  HWY_DYNAMIC_DISPATCH(AffineRow)(in, scale, shift, relu, out, count);
}
void max4_row(const float* a, const float* b, const float* c, const float* d, float* out,
              size_t count) {
  HWY_DYNAMIC_DISPATCH(Max4Row)(a, b, c, d, out, count);
}
void rope_row(float* values, const float* cosine, const float* sine, size_t pairs) {
  HWY_DYNAMIC_DISPATCH(RopeRow)(values, cosine, sine, pairs);
}
void sigmoid_row(const float* in, float* out, size_t count) {
  HWY_DYNAMIC_DISPATCH(SigmoidRow)(in, out, count);
}
void widen_bf16(const void* in, float* out, size_t count) {
  HWY_DYNAMIC_DISPATCH(WidenBf16)(in, out, count);
}
void widen_f16(const void* in, float* out, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    uint16_t bits;
    std::memcpy(&bits, static_cast<const unsigned char*>(in) + 2 * i, sizeof bits);
    const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
    const uint32_t magnitude = bits & 0x7FFFu;
    // Moves exponent and mantissa into place and corrects the bias by an exact product; subnormal
    // halves become normal floats on the way. All ones in the exponent stay infinity or NaN.
    uint32_t wide = magnitude << 13;
    float value;
    if (magnitude >= 0x7C00u) {
      wide |= 0x7F800000u;
      std::memcpy(&value, &wide, sizeof value);
    } else {
      std::memcpy(&value, &wide, sizeof value);
      value *= 0x1p112f;
    }
    std::memcpy(&wide, &value, sizeof wide);
    wide |= sign;
    std::memcpy(out + i, &wide, sizeof wide);
  }
}
size_t find_non_finite_f32(const void* in, size_t count) {
  return HWY_DYNAMIC_DISPATCH(FindNonFiniteF32)(in, count);
}
size_t find_non_finite_16(const void* in, uint16_t exponent_mask, size_t count) {
  return HWY_DYNAMIC_DISPATCH(FindNonFinite16)(in, exponent_mask, count);
}
const char* simd_kernel_target() { return HWY_DYNAMIC_DISPATCH(TargetName)(); }

}  // namespace npuseg::compute
#endif

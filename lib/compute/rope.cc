// SPDX-License-Identifier: Apache-2.0
#include "compute/rope.h"

#include <cmath>
#include <utility>

#include "compute/row_bands.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "compute/rope.cc"
#include <hwy/foreach_target.h>
// Behind foreach_target.
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace npuseg::compute {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// In double, rounded once, as the norm before it.
void RopeHalves(float* values, const float* cosine, const float* sine, size_t half) {
  const hn::ScalableTag<double> d;
  const hn::Rebind<float, decltype(d)> narrow;
  const size_t lanes = hn::Lanes(d);
  float* upper = values + half;
  const auto load = [&](const float* from)
                        HWY_ATTR { return hn::PromoteTo(d, hn::LoadU(narrow, from)); };
  size_t i = 0;
  for (; i + lanes <= half; i += lanes) {
    const auto a = load(values + i);
    const auto b = load(upper + i);
    const auto c = load(cosine + i);
    const auto s = load(sine + i);
    const auto low = hn::Sub(hn::Mul(a, c), hn::Mul(b, s));
    const auto high = hn::Add(hn::Mul(b, c), hn::Mul(a, s));
    hn::StoreU(hn::DemoteTo(narrow, low), narrow, values + i);
    hn::StoreU(hn::DemoteTo(narrow, high), narrow, upper + i);
  }
  for (; i < half; ++i) {
    const auto a = static_cast<double>(values[i]);
    const auto b = static_cast<double>(upper[i]);
    const auto c = static_cast<double>(cosine[i]);
    const auto s = static_cast<double>(sine[i]);
    values[i] = static_cast<float>(a * c - b * s);
    upper[i] = static_cast<float>(b * c + a * s);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace npuseg::compute
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace npuseg::compute {

HWY_EXPORT(RopeHalves);

core::Result<RopeTable> make_rope_table(core::Call& call, size_t positions, size_t channels,
                                        double theta) {
  RopeTable table;
  table.positions = positions;
  table.half = channels / 2;
  table.cosine.resize(positions * table.half);
  table.sine.resize(positions * table.half);
  std::vector<float> frequency(table.half);
  const double base = static_cast<double>(static_cast<float>(theta));
  for (size_t j = 0; j < table.half; ++j) {
    const float exponent = static_cast<float>(2 * j) / static_cast<float>(channels);
    frequency[j] = 1.0f / static_cast<float>(std::pow(base, static_cast<double>(exponent)));
  }
  NPUSEG_RETURN_IF_ERROR(core::parallel_for(
      call, positions,
      [&](size_t p, int) {
        for (size_t j = 0; j < table.half; ++j) {
          const float angle = static_cast<float>(p) * frequency[j];
          const auto exact = static_cast<double>(angle);
          table.cosine[p * table.half + j] = static_cast<float>(std::cos(exact));
          table.sine[p * table.half + j] = static_cast<float>(std::sin(exact));
        }
      },
      static_cast<double>(positions * table.half) * 40.0));
  return table;
}

core::Status rope_halves(const Exec& exec, core::MatrixView x, size_t heads, size_t axes,
                         const RopeTable& table, const int32_t* positions) {
  constexpr size_t kValues = size_t{1} << 15;
  const size_t half = table.half;
  const size_t width = heads * axes * 2 * half;
  if (x.rows == 0 || width == 0) return exec.call->check();
  return over_rows(
      exec, x.rows, width,
      [&](size_t r) {
        for (size_t part = 0; part < heads * axes; ++part) {
          const auto position = static_cast<size_t>(positions[r * axes + part % axes]);
          HWY_DYNAMIC_DISPATCH(RopeHalves)
          (x.row(r) + part * 2 * half, table.cosine.data() + position * half,
           table.sine.data() + position * half, half);
        }
      },
      kValues);
}

}  // namespace npuseg::compute
#endif

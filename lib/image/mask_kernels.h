// SPDX-License-Identifier: Apache-2.0
// Inner loops of the mask resize, dispatched to the processor at run time; all targets give the
// same bits (fused multiply-add everywhere, in software where there is no instruction).
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

namespace npuseg::image {

// a*w_low + b*w_high as the reference rounds it.
inline float blend_one(float a, float b, float w_low, float w_high) {
  return std::fma(a, w_low, b * w_high);
}

// out[i] = row[low[i]]*w_low[i] + row[high[i]]*w_high[i].
void stretch_row(const float* row, const uint32_t* low, const uint32_t* high, const float* w_low,
                 const float* w_high, float* out, size_t count);

void blend(const float* a, const float* b, float w_low, float w_high, float* out, size_t count);

// `set` where the blend is above the threshold, else 0; returns how many were above.
uint64_t blend_above(const float* a, const float* b, float w_low, float w_high, float threshold,
                     uint8_t set, uint8_t* out, size_t count);

// Blends two columns of a matrix with `stride` floats a row; `copy` takes the first as it is.
void blend_strided(const float* a, const float* b, size_t stride, float w_low, float w_high,
                   bool copy, float* out, size_t count);

}  // namespace npuseg::image

// SPDX-License-Identifier: Apache-2.0
// Float32 weights to the smaller forms that they can be held in, and 8-bit ones back. All results
// are the same bits on every instruction set.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/tensor_view.h"

namespace npuseg::compute {

// Nearest bfloat16, ties to even; too large becomes infinity, a NaN stays one.
void narrow_bf16(const float* in, uint16_t* out, size_t count);

// Whole or cut groups of one row, from a group's begin: scale = largest magnitude / 127, integer =
// value / scale to nearest, ties to even. The scale of a group with a NaN or infinity is NaN; that
// of a group without a value of 2^-100 or more is 0.
void narrow_i8(const float* in, int8_t* out, float* scales, size_t count);

// out = integer * scale. `skipped` values of the first scale's group come before `in`.
void widen_i8(const int8_t* in, const float* scales, size_t skipped, size_t count, float* out);

}  // namespace npuseg::compute

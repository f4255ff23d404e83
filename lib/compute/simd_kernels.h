// SPDX-License-Identifier: Apache-2.0
// Row kernels of this room, dispatched by Highway to the best instruction set of the machine.
//
// All are pure functions of their arguments: vector width changes the order of sums within a row,
// never anything that depends on threads. Pointers need no alignment.
#pragma once

#include <cstddef>
#include <cstdint>

#include "compute/gemm.h"

namespace npuseg::compute {

// out[i] = act(in[i] + bias[i]) + residual[i]; bias and residual may be null; out may be in.
void epilogue_row(const float* in, const float* bias, Activation activation, const float* residual,
                  float* out, size_t count);

// Normalises one row; when add is given also out_plus_add[i] = out[i] + add[i].
void layer_norm_row(const float* in, const float* gamma, const float* beta, float eps, float* out,
                    const float* add, float* out_plus_add, size_t count);

// One online-softmax step over one row of raw scores: value = score * scale + bias, scale > 0.
// Updates the running maximum and sum, turns scores into exp(value - new maximum) in place and
// returns the factor exp(old maximum - new maximum) for what was summed before.
float softmax_row(float* scores, size_t count, float scale, const float* bias, float* running_max,
                  float* running_sum);

// row[i] = a[i] + b
void add_constant_row(const float* a, float b, float* row, size_t count);
void add_rows(const float* a, const float* b, float* out, size_t count);
void scale_row(float* row, float factor, size_t count);
// out[i] = relu?(in[i] * scale[i] + shift[i])
void affine_row(const float* in, const float* scale, const float* shift, bool relu, float* out,
                size_t count);
void max4_row(const float* a, const float* b, const float* c, const float* d, float* out,
              size_t count);
// Interleaved pairs of one head: `pairs` cosines and sines, 2 * pairs values.
void rope_row(float* values, const float* cosine, const float* sine, size_t pairs);
void sigmoid_row(const float* in, float* out, size_t count);
void widen_bf16(const void* in, float* out, size_t count);
void widen_f16(const void* in, float* out, size_t count);
// First index whose exponent bits are all ones, else count.
size_t find_non_finite_f32(const void* in, size_t count);
size_t find_non_finite_16(const void* in, uint16_t exponent_mask, size_t count);

const char* simd_kernel_target();

}  // namespace npuseg::compute

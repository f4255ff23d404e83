// SPDX-License-Identifier: Apache-2.0
// Loops without products: sums, rotary embedding, activations, widening of stored tensors.
#pragma once

#include <cstddef>

#include "compute/gemm.h"

namespace npuseg::compute {

// out = a + b, same shapes; out may alias either.
core::Status add(const Exec& exec, core::ConstMatrixView a, core::ConstMatrixView b,
                 core::MatrixView out);

// Interleaved rotary embedding in place, on `heads` runs of head_dim columns of x [rows, >=]:
// channels 2m, 2m+1 of every head of row r rotate by the angle of cosine/sine [table_rows,
// head_dim/2] at row (r mod table_rows).
core::Status rope_interleaved(const Exec& exec, core::MatrixView x, size_t heads, size_t head_dim,
                              const float* cosine, const float* sine, size_t table_rows);

// In place over `count` values, on the calling thread. Errors: exp 2 ulp, erf 2 ulp.
void apply_activation(Activation activation, float* values, size_t count);
void sigmoid(const float* in, float* out, size_t count);

// Stored or held values to float32 (F32 copied, F16/BF16 widened exactly, F64 rounded, I8 times its
// scale).
void widen(const core::TensorView& tensor, size_t first, size_t count, float* out);

// Index of the first NaN or infinity of a stored float tensor (never found in I8); element count
// when there is none.
size_t find_non_finite(const core::TensorView& tensor);
// The same for one range, for cutting a large tensor over threads.
size_t find_non_finite(const core::TensorView& tensor, size_t first, size_t count);

// "AVX2", "SSE4", ...: what Highway dispatches to.
const char* simd_target();
// Applies NPUSEG_MAX_ISA to Highway and oneDNN once, before their first use. Idempotent, any
// thread.
void apply_isa_limit();

}  // namespace npuseg::compute

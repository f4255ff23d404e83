// SPDX-License-Identifier: Apache-2.0
// What a GEMM library gives this room: one single-threaded float32 product. oneDNN, or Highway
// loops of our own in builds without it.
#pragma once

#include <cstddef>
#include <string>

namespace npuseg::compute {

void backend_sgemm(size_t m, size_t n, size_t k, float alpha, const float* a, size_t a_stride,
                   const float* b, size_t b_stride, bool b_is_transposed, float beta, float* c,
                   size_t c_stride);
const char* backend_name();
// scalar, sse4, avx2, avx512; before the first product.
void limit_gemm_isa(const std::string& limit);

}  // namespace npuseg::compute

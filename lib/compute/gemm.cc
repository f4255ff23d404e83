// SPDX-License-Identifier: Apache-2.0
#include "compute/gemm.h"

#include <algorithm>

#include "compute/gemm_backend.h"

namespace npuseg::compute {

void sgemm(size_t m, size_t n, size_t k, float alpha, const float* a, size_t a_stride,
           const float* b, size_t b_stride, bool b_is_transposed, float beta, float* c,
           size_t c_stride) {
  // BLAS wants leading dimensions of at least the row length, also where there is one row.
  const size_t b_cols = b_is_transposed ? k : n;
  backend_sgemm(m, n, k, alpha, a, std::max(a_stride, m == 1 ? k : a_stride), b,
                std::max(b_stride, b_cols), b_is_transposed, beta, c,
                std::max(c_stride, m == 1 ? n : c_stride));
}

const char* gemm_backend() { return backend_name(); }

}  // namespace npuseg::compute

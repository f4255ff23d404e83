// SPDX-License-Identifier: Apache-2.0
// The product without oneDNN: strips of A times packed panels of B.
#include <algorithm>

#include "compute/gemm_backend.h"
#include "compute/line_floats.h"
#include "compute/panel_kernels.h"

namespace npuseg::compute {

void backend_sgemm(size_t m, size_t n, size_t k, float alpha, const float* a, size_t a_stride,
                   const float* b, size_t b_stride, bool b_is_transposed, float beta, float* c,
                   size_t c_stride) {
  const size_t width = panel_columns();
  const size_t strip = strip_height();
  LineFloats packed_floats;
  LineFloats sums_floats;
  float* packed = packed_floats.get(std::max<size_t>(k, 1) * width);
  float* sums = sums_floats.get(strip * width);
  for (size_t j = 0; j < n; j += width) {
    const size_t columns = std::min(width, n - j);
    if (b_is_transposed) {
      pack_transposed(b + j * b_stride, b_stride, columns, k, packed);
    } else {
      pack_straight(b + j, b_stride, k, columns, packed);
    }
    for (size_t r = 0; r < m; r += strip) {
      const size_t rows = std::min(strip, m - r);
      multiply_strip(rows, a + r * a_stride, a_stride, packed, 1, k, false, sums, width);
      for (size_t y = 0; y < rows; ++y) {
        float* out = c + (r + y) * c_stride + j;
        const float* sum = sums + y * width;
        for (size_t x = 0; x < columns; ++x) {
          // beta 0 must not read what is there: it may be uninitialised.
          out[x] = alpha * sum[x] + (beta == 0.0f ? 0.0f : beta * out[x]);
        }
      }
    }
  }
}

const char* backend_name() { return "Highway"; }
void limit_gemm_isa(const std::string&) {}

}  // namespace npuseg::compute

// SPDX-License-Identifier: Apache-2.0
// Row-wise work cut into bands of rows for the call's threads.
#pragma once

#include <algorithm>
#include <cstddef>

#include "compute/gemm.h"

namespace npuseg::compute {

// Small enough to be stopped soon, large enough to pay.
constexpr size_t kBandValues = size_t{1} << 16;

// body(first row, end) over bands of rows of about `values` values; a value takes `nanoseconds`.
template <class Body>
core::Status over_bands(const Exec& exec, size_t rows, size_t columns, const Body& body,
                        size_t values = kBandValues, double nanoseconds = 1.0) {
  const size_t band = std::max<size_t>(1, values / std::max<size_t>(1, columns));
  return core::parallel_for(
      *exec.call, (rows + band - 1) / band,
      [&](size_t index, int) { body(index * band, std::min(rows, (index + 1) * band)); },
      static_cast<double>(rows) * static_cast<double>(columns) * nanoseconds);
}

// body(row) over all rows, in such bands.
template <class Body>
core::Status over_rows(const Exec& exec, size_t rows, size_t columns, const Body& body,
                       size_t values = kBandValues, double nanoseconds = 1.0) {
  return over_bands(
      exec, rows, columns,
      [&](size_t first, size_t end) {
        for (size_t r = first; r < end; ++r) body(r);
      },
      values, nanoseconds);
}

}  // namespace npuseg::compute

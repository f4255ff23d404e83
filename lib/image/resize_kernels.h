// SPDX-License-Identifier: Apache-2.0
// Inner loops of the byte resize, dispatched to the processor at run time. Integer sums: every
// target gives the same bytes.
#pragma once

#include <cstddef>
#include <cstdint>

namespace npuseg::image {

// Taps in groups of four, zero padded: group g of output i is pairs[(i*groups + g)*2 ..+1], each
// pair two int16 in one int32 (the first tap in the low half).
struct PackedTaps {
  const uint32_t* first = nullptr;
  const uint32_t* group_count = nullptr;
  const int32_t* pairs = nullptr;
  size_t groups = 0;
  uint32_t precision = 0;
};

constexpr size_t kResizePadding = 32;  // bytes that may be read and written behind a row

// One row of RGB bytes. `in` and `out` have kResizePadding spare bytes behind the row.
void resize_row_rgb(const uint8_t* in, const PackedTaps& taps, uint32_t out_width, uint8_t* out);

// One output row from `count` rows that are `stride` bytes apart.
void resize_column_bytes(const uint8_t* in, size_t stride, const int16_t* weights, uint32_t count,
                         uint32_t precision, size_t bytes, uint8_t* out);

}  // namespace npuseg::image

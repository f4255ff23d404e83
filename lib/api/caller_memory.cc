// SPDX-License-Identifier: Apache-2.0
#include "api/caller_memory.h"

#include "api/structs.h"

namespace npuseg::api {

core::Status rows_bytes(size_t row_bytes, size_t rows, size_t* stride, size_t* bytes) {
  if (*stride == 0) *stride = row_bytes;
  size_t before_last = 0;
  if (*stride < row_bytes || __builtin_mul_overflow(*stride, rows - 1, &before_last) ||
      __builtin_add_overflow(before_last, row_bytes, bytes)) {
    return invalid(core::format("cannot use rows: stride is %zu, at least %zu are needed", *stride,
                                row_bytes));
  }
  return {};
}

core::Status check_room(const void* dst, size_t dst_bytes, size_t needed, size_t* out_required,
                        bool* write) {
  if (out_required != nullptr) *out_required = needed;
  *write = false;
  if (dst == nullptr && dst_bytes == 0 && out_required != nullptr) return {};
  if (dst == nullptr || dst_bytes < needed) {
    return {core::Code::kBufferTooSmall,
            core::format("buffer too small: %zu bytes given, %zu needed; nothing was written",
                         dst == nullptr ? 0 : dst_bytes, needed)};
  }
  *write = true;
  return {};
}

}  // namespace npuseg::api

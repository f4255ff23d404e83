// SPDX-License-Identifier: Apache-2.0
// The caller's buffers: how many bytes rows take, and whether an answer may be written.
#pragma once

#include <cstddef>

#include "core/status.h"

namespace npuseg::api {

// Bytes of `rows` >= 1 rows of `row_bytes` that begin every `stride` bytes; stride 0 becomes tight.
core::Status rows_bytes(size_t row_bytes, size_t rows, size_t* stride, size_t* bytes);

// Tells the size needed, and whether to write: not for a mere question (dst NULL, no bytes), and
// BUFFER_TOO_SMALL when there is no room. out_required may be null.
core::Status check_room(const void* dst, size_t dst_bytes, size_t needed, size_t* out_required,
                        bool* write);

}  // namespace npuseg::api

// SPDX-License-Identifier: Apache-2.0
#include "core/buffer.h"

#include <cstdlib>
#include <utility>

namespace npuseg::core {

bool MemoryBudget::take(size_t bytes) {
  size_t now = used_.load(std::memory_order_relaxed);
  do {
    if (bytes > limit_ || now > limit_ - bytes) return false;
  } while (!used_.compare_exchange_weak(now, now + bytes, std::memory_order_relaxed));
  size_t seen = peak_.load(std::memory_order_relaxed);
  while (seen < now + bytes &&
         !peak_.compare_exchange_weak(seen, now + bytes, std::memory_order_relaxed)) {
  }
  return true;
}

Buffer::~Buffer() {
  std::free(data_);
  if (budget_) budget_->give_back(bytes_);
}

void Buffer::swap(Buffer& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  std::swap(budget_, other.budget_);
}

Result<Buffer> Buffer::make(const MemoryBudgetPtr& budget, size_t bytes, const char* what) {
  constexpr size_t kAlign = 64;
  if (bytes > SIZE_MAX - kAlign) {
    return Status(Code::kOutOfMemory, format("cannot allocate %s: size overflows", what));
  }
  const size_t rounded = (bytes + kAlign - 1) / kAlign * kAlign;
  if (budget && !budget->take(rounded)) {
    return Status(Code::kLimitExceeded,
                  format("cannot allocate %s: %zu bytes on top of %zu in use pass the memory limit "
                         "of %zu; raise memory_limit or release pictures and results",
                         what, rounded, budget->used(), budget->limit()));
  }
  void* data = std::aligned_alloc(kAlign, rounded == 0 ? kAlign : rounded);
  if (data == nullptr) {
    if (budget) budget->give_back(rounded);
    return Status(Code::kOutOfMemory, format("cannot allocate %s: out of memory for %zu bytes; "
                                             "free memory or use a smaller picture",
                                             what, rounded));
  }
  Buffer buffer;
  buffer.data_ = data;
  buffer.bytes_ = rounded;
  buffer.budget_ = budget;
  return buffer;
}

Result<Buffer> Buffer::make_floats(const MemoryBudgetPtr& budget, size_t rows, size_t cols,
                                   const char* what) {
  size_t count = 0;
  size_t bytes = 0;
  if (__builtin_mul_overflow(rows, cols, &count) ||
      __builtin_mul_overflow(count, sizeof(float), &bytes)) {
    return Status(Code::kOutOfMemory,
                  format("cannot allocate %s: %zu x %zu floats overflow", what, rows, cols));
  }
  return make(budget, bytes, what);
}

Result<Matrix> Matrix::make(const MemoryBudgetPtr& budget, size_t rows, size_t cols,
                            const char* what) {
  NPUSEG_ASSIGN_OR_RETURN(Buffer buffer, Buffer::make_floats(budget, rows, cols, what));
  Matrix matrix;
  matrix.buffer_ = std::move(buffer);
  matrix.rows_ = rows;
  matrix.cols_ = cols;
  return matrix;
}

}  // namespace npuseg::core

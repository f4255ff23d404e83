// SPDX-License-Identifier: Apache-2.0
// Cache-line-aligned memory whose size depends on input, counted against a budget.
//
// Every large allocation of a model goes through here, so that the memory_limit option can refuse
// with a message instead of meeting the OOM killer.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>

#include "core/status.h"
#include "core/tensor_view.h"

namespace npuseg::core {

// Shared by all buffers of one model. Thread-safe.
class MemoryBudget {
 public:
  explicit MemoryBudget(size_t limit_bytes) : limit_(limit_bytes) {}

  // False when the limit would be passed; then nothing is counted.
  bool take(size_t bytes);
  void give_back(size_t bytes) { used_.fetch_sub(bytes, std::memory_order_relaxed); }
  [[nodiscard]] size_t used() const { return used_.load(std::memory_order_relaxed); }
  [[nodiscard]] size_t peak() const { return peak_.load(std::memory_order_relaxed); }
  [[nodiscard]] size_t limit() const { return limit_; }

 private:
  const size_t limit_;  // SIZE_MAX: none
  std::atomic<size_t> used_{0};
  std::atomic<size_t> peak_{0};
};

using MemoryBudgetPtr = std::shared_ptr<MemoryBudget>;

// Owns `bytes` of memory aligned to 64 bytes, uninitialised. Movable, not copyable.
class Buffer {
 public:
  Buffer() = default;
  Buffer(Buffer&& other) noexcept { swap(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    Buffer gone(std::move(other));
    swap(gone);
    return *this;
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer();

  // `what` names the buffer in the message. budget may be null (not counted).
  static Result<Buffer> make(const MemoryBudgetPtr& budget, size_t bytes, const char* what);
  // rows*cols float32, overflow-checked.
  static Result<Buffer> make_floats(const MemoryBudgetPtr& budget, size_t rows, size_t cols,
                                    const char* what);

  [[nodiscard]] size_t bytes() const { return bytes_; }
  [[nodiscard]] bool empty() const { return data_ == nullptr; }
  [[nodiscard]] float* floats() { return static_cast<float*>(data_); }
  [[nodiscard]] const float* floats() const { return static_cast<const float*>(data_); }
  [[nodiscard]] unsigned char* data() { return static_cast<unsigned char*>(data_); }
  [[nodiscard]] const unsigned char* data() const {
    return static_cast<const unsigned char*>(data_);
  }

 private:
  void swap(Buffer& other) noexcept;
  void* data_ = nullptr;
  size_t bytes_ = 0;
  MemoryBudgetPtr budget_;
};

// A float32 matrix that owns its memory (dense rows).
class Matrix {
 public:
  Matrix() = default;
  static Result<Matrix> make(const MemoryBudgetPtr& budget, size_t rows, size_t cols,
                             const char* what);
  [[nodiscard]] size_t rows() const { return rows_; }
  [[nodiscard]] size_t cols() const { return cols_; }
  [[nodiscard]] size_t bytes() const { return buffer_.bytes(); }
  [[nodiscard]] bool empty() const { return buffer_.empty(); }
  [[nodiscard]] float* data() { return buffer_.floats(); }
  [[nodiscard]] const float* data() const { return buffer_.floats(); }
  [[nodiscard]] MatrixView view() { return {data(), rows_, cols_, cols_}; }
  [[nodiscard]] ConstMatrixView view() const { return {data(), rows_, cols_, cols_}; }

 private:
  Buffer buffer_;
  size_t rows_ = 0;
  size_t cols_ = 0;
};

}  // namespace npuseg::core

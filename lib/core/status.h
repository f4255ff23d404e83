// SPDX-License-Identifier: Apache-2.0
// Status and Result<T>: how every room reports failure (house rule E6).
//
// A message reads "WHAT: WHERE: WHY; WHAT TO DO": the detector writes it, callers above may only
// put context in front of it. Codes have the numeric values of the public npuseg_status.
#pragma once

#include <cstdint>
#include <new>
#include <optional>
#include <string>
#include <utility>

namespace npuseg::core {

enum class Code : int32_t {
  kOk = 0,
  kInvalidArgument = 1,
  kOutOfMemory = 2,
  kNotFound = 3,
  kIo = 4,
  kCorruptData = 5,
  kUnsupported = 6,
  kLimitExceeded = 7,
  kBufferTooSmall = 8,
  kDeviceUnavailable = 9,
  kDeviceBusy = 10,
  kDeviceLost = 11,
  kTimeout = 12,
  kCancelled = 13,
  kInternal = 14,
  kWrongState = 15,
};

// printf into a std::string; never throws anything but bad_alloc.
#if defined(__GNUC__)
__attribute__((format(printf, 1, 2)))
#endif
std::string
format(const char* fmt, ...);

class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Code code, std::string message, int os_error = 0)
      : code_(code), os_error_(os_error), message_(std::move(message)) {}

  [[nodiscard]] bool ok() const { return code_ == Code::kOk; }
  [[nodiscard]] Code code() const { return code_; }
  // errno at the failing system call, or 0. For user callbacks that stopped a call: their value.
  [[nodiscard]] int os_error() const { return os_error_; }
  [[nodiscard]] const std::string& message() const { return message_; }

  // The same failure with `context + ": "` in front of the message.
  [[nodiscard]] Status with_context(const std::string& context) && {
    message_.insert(0, context + ": ");
    return std::move(*this);
  }

 private:
  Code code_ = Code::kOk;
  int os_error_ = 0;
  std::string message_;
};

inline Status ok_status() { return {}; }

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}         // NOLINT(google-explicit-constructor)
  Result(Status status) : status_(std::move(status)) {  // NOLINT(google-explicit-constructor)
    if (status_.ok()) status_ = Status(Code::kInternal, "a result without a value");
  }

  [[nodiscard]] bool ok() const { return value_.has_value(); }
  [[nodiscard]] const Status& status() const& { return status_; }
  [[nodiscard]] Status&& status() && { return std::move(status_); }
  [[nodiscard]] T& value() & { return *value_; }
  [[nodiscard]] const T& value() const& { return *value_; }
  [[nodiscard]] T&& value() && { return std::move(*value_); }

 private:
  std::optional<T> value_;
  Status status_;
};

}  // namespace npuseg::core

#define NPUSEG_CONCAT_INNER(a, b) a##b
#define NPUSEG_CONCAT(a, b) NPUSEG_CONCAT_INNER(a, b)

#define NPUSEG_RETURN_IF_ERROR(expr)                                          \
  do {                                                                        \
    if (::npuseg::core::Status npuseg_status_ = (expr); !npuseg_status_.ok()) \
      return npuseg_status_;                                                  \
  } while (false)

// NPUSEG_ASSIGN_OR_RETURN(auto x, make_x());
#define NPUSEG_ASSIGN_OR_RETURN(lhs, expr) \
  NPUSEG_ASSIGN_OR_RETURN_INNER(NPUSEG_CONCAT(npuseg_result_, __LINE__), lhs, expr)
#define NPUSEG_ASSIGN_OR_RETURN_INNER(result, lhs, expr) \
  auto result = (expr);                                  \
  if (!result.ok()) return std::move(result).status();   \
  lhs = std::move(result).value()

// SPDX-License-Identifier: Apache-2.0
// Where messages go that nobody asked for: the caller's log callback, else nowhere.
#pragma once

#include <string>

namespace npuseg::core {

// Numeric values are those of the public NPUSEG_LOG_* constants.
enum class LogLevel : int { kError = 1, kWarn = 2, kInfo = 3, kDebug = 4 };

// Thread-safe as far as the caller's function is. `write` may be null.
struct Logger {
  void (*write)(void* user, LogLevel level, const char* component, const char* message) = nullptr;
  void* user = nullptr;
  LogLevel level = LogLevel::kWarn;

  [[nodiscard]] bool wants(LogLevel at) const {
    return write != nullptr && static_cast<int>(at) <= static_cast<int>(level);
  }
  void operator()(LogLevel at, const char* component, const std::string& message) const {
    if (wants(at)) write(user, at, component, message.c_str());
  }
};

}  // namespace npuseg::core

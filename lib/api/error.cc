// SPDX-License-Identifier: Apache-2.0
#include "api/error.h"

#include <algorithm>
#include <cstring>
#include <string_view>

#include "api/guard.h"
#include "api/structs.h"
#include "text/utf8.h"

namespace npuseg::api {

namespace {

// Plain data: no destructor runs at thread exit. Longer messages are cut at a code point.
struct LastError {
  int32_t status;
  int os_error;
  char message[2048];
};
thread_local LastError last_error;

}  // namespace

npuseg_status remember(core::Code code, int os_error, const char* message) noexcept {
  last_error.status = static_cast<int32_t>(code);
  last_error.os_error = os_error;
  // Names of files may hold any bytes; the message is UTF-8.
  constexpr std::string_view kReplacement = "\xEF\xBF\xBD";
  std::string_view rest = message;
  size_t length = 0;
  const auto put = [&length](std::string_view part) {
    const size_t room = sizeof last_error.message - 1 - length;
    size_t take = std::min(part.size(), room);
    while (take < part.size() && take > 0 &&
           (static_cast<unsigned char>(part[take]) & 0xC0) == 0x80) {
      --take;
    }
    std::memcpy(last_error.message + length, part.data(), take);
    length += take;
    return take == part.size();
  };
  while (!rest.empty()) {
    const size_t valid = text::find_invalid_utf8(rest);
    if (!put(rest.substr(0, valid))) break;
    rest.remove_prefix(valid);
    if (rest.empty()) break;
    if (!put(kReplacement)) break;
    rest.remove_prefix(1);
  }
  last_error.message[length] = '\0';
  return last_error.status;
}

npuseg_status remember(const core::Status& status) noexcept {
  return remember(status.code(), status.os_error(), status.message().c_str());
}

}  // namespace npuseg::api

using npuseg::api::guard;
using npuseg::api::last_error;

extern "C" {

const char* npuseg_last_error(void) { return last_error.message; }

npuseg_status npuseg_last_error_info(npuseg_error_info* out_info) {
  return guard([&] {
    npuseg_error_info info{};
    info.status = last_error.status;
    info.os_error = last_error.os_error;
    info.message = last_error.message;
    return npuseg::api::export_struct(info, out_info, "npuseg_error_info");
  });
}

const char* npuseg_status_name(npuseg_status status) {
  switch (status) {
    case NPUSEG_OK:
      return "OK";
    case NPUSEG_INVALID_ARGUMENT:
      return "INVALID_ARGUMENT";
    case NPUSEG_OUT_OF_MEMORY:
      return "OUT_OF_MEMORY";
    case NPUSEG_NOT_FOUND:
      return "NOT_FOUND";
    case NPUSEG_IO:
      return "IO";
    case NPUSEG_CORRUPT_DATA:
      return "CORRUPT_DATA";
    case NPUSEG_UNSUPPORTED:
      return "UNSUPPORTED";
    case NPUSEG_LIMIT_EXCEEDED:
      return "LIMIT_EXCEEDED";
    case NPUSEG_BUFFER_TOO_SMALL:
      return "BUFFER_TOO_SMALL";
    case NPUSEG_DEVICE_UNAVAILABLE:
      return "DEVICE_UNAVAILABLE";
    case NPUSEG_DEVICE_BUSY:
      return "DEVICE_BUSY";
    case NPUSEG_DEVICE_LOST:
      return "DEVICE_LOST";
    case NPUSEG_TIMEOUT:
      return "TIMEOUT";
    case NPUSEG_CANCELLED:
      return "CANCELLED";
    case NPUSEG_INTERNAL:
      return "INTERNAL";
    case NPUSEG_WRONG_STATE:
      return "WRONG_STATE";
    default:
      return "UNKNOWN";
  }
}

}  // extern "C"

// SPDX-License-Identifier: Apache-2.0
// Structs that may grow: import and export by struct_size (house rules H5, H6).
#pragma once

#include <algorithm>
#include <cstring>
#include <string>

#include "api/first_sizes.h"
#include "core/status.h"
#include "npuseg.h"

namespace npuseg::api {

inline core::Status invalid(const std::string& message) {
  return {core::Code::kInvalidArgument, message};
}

// No struct of any version is larger, so a size that was never set is not taken for one.
constexpr size_t kMostStructBytes = 4096;

// Copies what the caller knows over zeros (defaults). A larger struct of a newer program is fine as
// long as what this version does not know is zero.
template <class T>
core::Status import_struct(const T* in, T* out, const char* name) {
  *out = T{};
  if (in == nullptr) return {};
  const size_t size = in->struct_size;
  static_assert(kFirstSize<T> != 0);
  if (size < kFirstSize<T> || size > kMostStructBytes) {
    return invalid(
        core::format("cannot read options: %s: struct_size is %zu, at least %zu and at most %zu "
                     "are possible; set it to sizeof(%s)",
                     name, size, kFirstSize<T>, kMostStructBytes, name));
  }
  const auto* bytes = reinterpret_cast<const unsigned char*>(in);
  for (size_t i = sizeof(T); i < size; ++i) {
    if (bytes[i] != 0) {
      return {core::Code::kUnsupported,
              core::format("cannot read options: %s: sets a field of a newer version; update the "
                           "library",
                           name)};
    }
  }
  std::memcpy(out, in, std::min(size, sizeof(T)));
  return {};
}

// Writes at most what the caller has room for; zeros behind what this version knows.
template <class T>
core::Status export_struct(const T& value, T* out, const char* name) {
  if (out == nullptr) return invalid(core::format("cannot write %s: NULL; pass a struct", name));
  const uint32_t size = out->struct_size;
  static_assert(kFirstSize<T> != 0);
  if (size < kFirstSize<T> || size > kMostStructBytes) {
    return invalid(
        core::format("cannot write %s: struct_size is %u, at least %zu and at most %zu are "
                     "possible; set it to sizeof(%s)",
                     name, size, kFirstSize<T>, kMostStructBytes, name));
  }
  auto* bytes = reinterpret_cast<unsigned char*>(out);
  if (size > sizeof(T)) std::memset(bytes + sizeof(T), 0, size - sizeof(T));
  std::memcpy(bytes, &value, std::min<size_t>(size, sizeof(T)));
  out->struct_size = size;
  return {};
}

// Cuts at a code point; always terminated.
template <size_t kSize>
void copy_text(const std::string& text, char (&out)[kSize]) {
  size_t length = std::min(text.size(), kSize - 1);
  while (length < text.size() && length > 0 &&
         (static_cast<unsigned char>(text[length]) & 0xC0) == 0x80) {
    --length;
  }
  std::memcpy(out, text.data(), length);
  out[length] = '\0';
}

}  // namespace npuseg::api

// SPDX-License-Identifier: Apache-2.0
#include "text/unicode.h"

#include <utf8proc.h>

#include <cstdlib>
#include <memory>
#include <new>

#include "text/utf8.h"

namespace npuseg::text {

namespace {

bool is_space(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

// Capital letters of Unicode 16 that the reference lower-cases; 0 for all others. For utf8proc of
// Unicode 15 they are unassigned.
char32_t lower_of_unicode16(char32_t c) {
  switch (c) {
    case 0x1C89:
      return 0x1C8A;
    case 0xA7CB:
      return 0x0264;
    case 0xA7CC:
      return 0xA7CD;
    case 0xA7DA:
      return 0xA7DB;
    case 0xA7DC:
      return 0x019B;
    default:
      return c >= 0x10D50 && c <= 0x10D65 ? c + 0x20 : 0;
  }
}

}  // namespace

CharClass classify(char32_t c) {
  if (is_space(c)) return CharClass::kSpace;
  if (c < 0x80) {
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) return CharClass::kLetter;
    return c >= '0' && c <= '9' ? CharClass::kNumber : CharClass::kOther;
  }
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(c))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
      return CharClass::kLetter;
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO:
      return CharClass::kNumber;
    default:
      return CharClass::kOther;
  }
}

void append_lower(char32_t c, std::string* out) {
  if (c < 0x80) {
    out->push_back(static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c));
    return;
  }
  if (c == 0x130) {
    append_utf8(0x69, out);
    append_utf8(0x307, out);
    return;
  }
  if (const char32_t lower = lower_of_unicode16(c); lower != 0) {
    append_utf8(lower, out);
    return;
  }
  append_utf8(static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c))), out);
}

core::Result<std::string> to_nfc(std::string_view text) {
  // Code points below U+0300 are never changed by composition.
  bool simple = true;
  for (size_t at = 0; at < text.size() && simple;) simple = next_code_point(text, &at) < 0x300;
  if (simple) return std::string(text);
  utf8proc_uint8_t* mapped = nullptr;
  const utf8proc_ssize_t length =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                   static_cast<utf8proc_ssize_t>(text.size()), &mapped,
                   static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  const std::unique_ptr<utf8proc_uint8_t, void (*)(void*)> owner(mapped, std::free);
  if (length == UTF8PROC_ERROR_NOMEM) throw std::bad_alloc();
  if (length < 0) {
    return core::Status(core::Code::kInternal,
                        std::string("cannot compose text: ") + utf8proc_errmsg(length));
  }
  return std::string(reinterpret_cast<const char*>(mapped), static_cast<size_t>(length));
}

}  // namespace npuseg::text

// SPDX-License-Identifier: Apache-2.0
#include "text/json_scanner.h"

#include "text/utf8.h"

namespace npuseg::text {

bool JsonScanner::skip_value() {
  size_t depth = 0;
  do {
    const char c = peek();
    std::string_view raw;
    bool escaped = false;
    if (c == '"') {
      if (!take_string(&raw, &escaped)) return false;
    } else if (c == '{' || c == '[') {
      ++depth;
      ++at_;
    } else if (c == '}' || c == ']') {
      if (depth == 0) return false;
      --depth;
      ++at_;
    } else if (depth != 0 && (c == ',' || c == ':')) {
      ++at_;
    } else {
      const size_t begin = at_;
      while (at_ < text_.size() && std::strchr(" \t\r\n,:]}[{\"", text_[at_]) == nullptr) ++at_;
      if (at_ == begin) return false;
    }
  } while (depth != 0);
  return true;
}

namespace {

bool hex4(std::string_view raw, size_t at, char32_t* out) {
  if (raw.size() < 4 || at > raw.size() - 4) return false;
  char32_t value = 0;
  for (size_t i = at; i < at + 4; ++i) {
    const char c = raw[i];
    char32_t digit = 0;
    if (c >= '0' && c <= '9') {
      digit = static_cast<char32_t>(c - '0');
    } else if (c >= 'a' && c <= 'f') {
      digit = static_cast<char32_t>(c - 'a' + 10);
    } else if (c >= 'A' && c <= 'F') {
      digit = static_cast<char32_t>(c - 'A' + 10);
    } else {
      return false;
    }
    value = value << 4 | digit;
  }
  *out = value;
  return true;
}

}  // namespace

bool unescape_json(std::string_view raw, std::string* out) {
  constexpr std::string_view kShort = "\"\\/bfnrt";
  constexpr std::string_view kMeaning = "\"\\/\b\f\n\r\t";
  for (size_t at = 0; at < raw.size();) {
    if (raw[at] != '\\') {
      out->push_back(raw[at++]);
      continue;
    }
    if (++at == raw.size()) return false;
    const char c = raw[at++];
    if (c != 'u') {
      const size_t index = kShort.find(c);
      if (index == std::string_view::npos) return false;
      out->push_back(kMeaning[index]);
      continue;
    }
    char32_t value = 0;
    if (!hex4(raw, at, &value)) return false;
    at += 4;
    if (value >= 0xD800 && value < 0xE000) {
      char32_t low = 0;
      if (value >= 0xDC00 || !raw.substr(at).starts_with("\\u") || !hex4(raw, at + 2, &low) ||
          low < 0xDC00 || low >= 0xE000) {
        return false;
      }
      at += 6;
      value = 0x10000 + ((value - 0xD800) << 10) + (low - 0xDC00);
    }
    append_utf8(value, out);
  }
  return true;
}

}  // namespace npuseg::text

// SPDX-License-Identifier: Apache-2.0
#include "bundle/text_forms.h"

#include <algorithm>
#include <limits>

#include "bundle/manifest.h"
#include "core/json.h"

namespace npuseg::bundle {

namespace {

// Bytes of the white space character (Unicode's White_Space) that begins at `at`, 0 if none does.
size_t space_at(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) {
    return at + i < text.size() ? static_cast<unsigned char>(text[at + i]) : 0u;
  };
  const unsigned first = byte(0);
  if (first == ' ' || (first >= 9 && first <= 13)) return 1;
  if (first == 0xc2 && (byte(1) == 0x85 || byte(1) == 0xa0)) return 2;  // U+0085, U+00A0
  const unsigned tail = (byte(1) << 8) | byte(2);
  if (first == 0xe1 && tail == 0x9a80) return 3;  // U+1680
  if (first == 0xe2 && ((tail >= 0x8080 && tail <= 0x808a) || tail == 0x80a8 || tail == 0x80a9 ||
                        tail == 0x80af || tail == 0x819f)) {
    return 3;  // U+2000 to U+200A, U+2028, U+2029, U+202F, U+205F
  }
  if (first == 0xe3 && tail == 0x8080) return 3;  // U+3000
  return 0;
}

size_t skip_space(std::string_view text, size_t at) {
  while (at < text.size()) {
    const size_t bytes = space_at(text, at);
    if (bytes == 0) break;
    at += bytes;
  }
  return at;
}

size_t skip_word(std::string_view text, size_t at) {
  while (at < text.size() && space_at(text, at) == 0) ++at;
  return at;
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// Nothing for what is no character (a surrogate, above U+10FFFF).
void append_utf8(uint32_t code, std::string* out) {
  const auto put = [&](uint32_t byte) { out->push_back(static_cast<char>(byte)); };
  if (code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) return;
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xc0 | (code >> 6));
    put(0x80 | (code & 0x3f));
  } else if (code < 0x10000) {
    put(0xe0 | (code >> 12));
    put(0x80 | ((code >> 6) & 0x3f));
    put(0x80 | (code & 0x3f));
  } else {
    put(0xf0 | (code >> 18));
    put(0x80 | ((code >> 12) & 0x3f));
    put(0x80 | ((code >> 6) & 0x3f));
    put(0x80 | (code & 0x3f));
  }
}

}  // namespace

std::vector<std::string_view> split_lines(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    if (end < text.size() && line.ends_with('\r')) line.remove_suffix(1);
    lines.push_back(line);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

std::vector<std::string> split_words(std::string_view line) {
  std::vector<std::string> words;
  for (size_t at = skip_space(line, 0); at < line.size();) {
    const size_t end = skip_word(line, at);
    words.emplace_back(line.substr(at, end - at));
    at = skip_space(line, end);
  }
  if (words.empty()) words.emplace_back();
  return words;
}

std::string rest_of_line(std::string_view line, size_t fields) {
  size_t at = 0;
  for (size_t i = 0; i <= fields; ++i) at = skip_word(line, skip_space(line, at));
  if (at < line.size() && line[at] == ' ') ++at;
  return std::string(line.substr(at));
}

std::vector<std::string> split_at(std::string_view text, char separator) {
  std::vector<std::string> pieces;
  while (true) {
    const size_t end = text.find(separator);
    pieces.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) return pieces;
    text.remove_prefix(end + 1);
  }
}

bool parse_integer(std::string_view text, size_t* out) {
  if (text.starts_with('+')) text.remove_prefix(1);
  if (text.empty()) return false;
  size_t value = 0;
  for (const char c : text) {
    if (c < '0' || c > '9') return false;
    if (__builtin_mul_overflow(value, size_t{10}, &value) ||
        __builtin_add_overflow(value, static_cast<size_t>(c - '0'), &value)) {
      return false;
    }
  }
  *out = value;
  return true;
}

core::Result<std::string> decode_hex_text(std::string_view hex, const Record& record) {
  std::string text;
  if (hex == "-") return text;
  bool good = hex.size() % 2 == 0;
  for (size_t i = 0; good && i < hex.size(); i += 2) {
    const int high = hex_digit(hex[i]);
    const int low = hex_digit(hex[i + 1]);
    good = high >= 0 && low >= 0;
    text.push_back(static_cast<char>(high * 16 + low));
  }
  if (!good) return record.refuse("bad hex " + std::string(hex.substr(0, 100)));
  if (!core::is_utf8(text)) return record.refuse("the hex text is not UTF-8");
  return text;
}

std::string unescape(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    if (text[at] != '\\' || at + 1 == text.size()) {
      out.push_back(text[at++]);
      continue;
    }
    const char kind = text[at + 1];
    size_t digits = kind == 'x' ? 2 : kind == 'u' ? 4 : kind == 'U' ? 8 : 0;
    at += 2;
    if (digits == 0) {
      constexpr std::string_view kFrom = "tnr\\";
      constexpr std::string_view kTo = "\t\n\r\\";
      const size_t known = kFrom.find(kind);
      if (known == std::string_view::npos) {
        out.push_back('\\');
        out.push_back(kind);
      } else {
        out.push_back(kTo[known]);
      }
      continue;
    }
    // All the characters that the escape should have are taken, digits or not; fewer at the end of
    // the text are a number too.
    const size_t begin = at;
    for (; digits > 0 && at < text.size(); --digits) {
      ++at;
      while (at < text.size() && (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80) ++at;
    }
    const std::string_view number = text.substr(begin, at - begin);
    uint32_t code = 0;
    bool good = !number.empty();
    for (const char c : number) {
      const int digit = hex_digit(c);
      good = good && digit >= 0;
      code = code * 16 + static_cast<uint32_t>(std::max(digit, 0));
    }
    if (good) append_utf8(code, &out);
  }
  return out;
}

std::string bad_path(std::string_view path) {
  if (path.empty()) return "is an empty path";
  if (path.front() == '/') return "is an absolute path";
  if (path.find('\0') != std::string_view::npos) return "holds a zero byte";
  for (const std::string& part : split_at(path, '/')) {
    if (part == "..") return "leaves the bundle's folder";
  }
  return {};
}

}  // namespace npuseg::bundle

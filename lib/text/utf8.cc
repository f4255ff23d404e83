// SPDX-License-Identifier: Apache-2.0
#include "text/utf8.h"

namespace npuseg::text {

namespace {

unsigned char byte(std::string_view text, size_t at) {
  return static_cast<unsigned char>(text[at]);
}

// Length of the sequence that starts at `at`, or 0 when it is not valid.
size_t sequence_length(std::string_view text, size_t at) {
  const unsigned char lead = byte(text, at);
  if (lead < 0x80) return 1;
  size_t length = 0;
  unsigned char least = 0x80;
  unsigned char most = 0xBF;
  if (lead >= 0xC2 && lead <= 0xDF) {
    length = 2;
  } else if (lead >= 0xE0 && lead <= 0xEF) {
    length = 3;
    if (lead == 0xE0) least = 0xA0;  // no overlong forms
    if (lead == 0xED) most = 0x9F;   // no surrogates
  } else if (lead >= 0xF0 && lead <= 0xF4) {
    length = 4;
    if (lead == 0xF0) least = 0x90;
    if (lead == 0xF4) most = 0x8F;  // nothing above U+10FFFF
  } else {
    return 0;
  }
  if (length > text.size() - at) return 0;
  const unsigned char second = byte(text, at + 1);
  if (second < least || second > most) return 0;
  for (size_t i = 2; i < length; ++i) {
    if ((byte(text, at + i) & 0xC0) != 0x80) return 0;
  }
  return length;
}

}  // namespace

size_t find_invalid_utf8(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    const size_t length = sequence_length(text, at);
    if (length == 0) return at;
    at += length;
  }
  return at;
}

char32_t next_code_point(std::string_view text, size_t* at) {
  const unsigned char lead = byte(text, *at);
  const size_t length = lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  char32_t value = length == 1 ? lead : lead & (0xFFu >> (length + 1));
  for (size_t i = 1; i < length; ++i) value = (value << 6) | (byte(text, *at + i) & 0x3Fu);
  *at += length;
  return value;
}

void append_utf8(char32_t c, std::string* out) {
  const auto put = [&](char32_t value) { out->push_back(static_cast<char>(value)); };
  if (c < 0x80) {
    put(c);
  } else if (c < 0x800) {
    put(0xC0 | (c >> 6));
    put(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    put(0xE0 | (c >> 12));
    put(0x80 | ((c >> 6) & 0x3F));
    put(0x80 | (c & 0x3F));
  } else {
    put(0xF0 | (c >> 18));
    put(0x80 | ((c >> 12) & 0x3F));
    put(0x80 | ((c >> 6) & 0x3F));
    put(0x80 | (c & 0x3F));
  }
}

}  // namespace npuseg::text

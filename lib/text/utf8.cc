// SPDX-License-Identifier: Apache-2.0
#include "text/utf8.h"

namespace npuseg::text {

namespace {

unsigned char byte(std::string_view text, size_t at) {
  return static_cast<unsigned char>(text[at]);
}

struct Sequence {
  size_t length = 1;  // when it is not valid: of the part that could have become a code point
  bool valid = false;
};

Sequence sequence_at(std::string_view text, size_t at) {
  const unsigned char lead = byte(text, at);
  if (lead < 0x80) return {1, true};
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
    return {};
  }
  for (size_t i = 1; i < length; ++i) {
    if (i == text.size() - at) return {i, false};
    const unsigned char next = byte(text, at + i);
    if (next < least || next > most) return {i, false};
    least = 0x80;
    most = 0xBF;
  }
  return {length, true};
}

}  // namespace

size_t find_invalid_utf8(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    const Sequence sequence = sequence_at(text, at);
    if (!sequence.valid) return at;
    at += sequence.length;
  }
  return at;
}

std::string replace_invalid_utf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const Sequence sequence = sequence_at(text, at);
    if (sequence.valid) {
      out.append(text, at, sequence.length);
    } else {
      append_utf8(0xFFFD, &out);
    }
    at += sequence.length;
  }
  return out;
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

// SPDX-License-Identifier: Apache-2.0
// UTF-8 at the border: strict validation and code point access.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace npuseg::text {

// Byte offset of the first byte that is no valid UTF-8 (overlong forms, surrogates and values above
// U+10FFFF included), or text.size().
size_t find_invalid_utf8(std::string_view text);

// Valid UTF-8: every longest part that could begin a code point, else every byte, becomes U+FFFD
// (as the Unicode standard advises and web browsers and Python do).
std::string replace_invalid_utf8(std::string_view text);

// Decodes the code point at `at` of valid UTF-8 and moves `at` behind it.
char32_t next_code_point(std::string_view text, size_t* at);

void append_utf8(char32_t code_point, std::string* out);

}  // namespace npuseg::text

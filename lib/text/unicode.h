// SPDX-License-Identifier: Apache-2.0
// Unicode properties as the reference tokenizers see them (spec imaging-and-tokenizers.md 10, 13).
//
// Data come from utf8proc; the few code points where the reference knows a newer Unicode version
// are listed in unicode.cc.
#pragma once

#include <string>
#include <string_view>

#include "core/status.h"

namespace npuseg::text {

enum class CharClass : unsigned char { kSpace, kLetter, kNumber, kOther };

// White space is the Unicode property White_Space; letters are L*, numbers N*.
CharClass classify(char32_t code_point);

// Appends the full lower-case mapping without context (U+0130 gives two code points).
void append_lower(char32_t code_point, std::string* out);

// Canonical composition of valid UTF-8.
core::Result<std::string> to_nfc(std::string_view text);

}  // namespace npuseg::text

// SPDX-License-Identifier: Apache-2.0
#include "text/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
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

// The reference's parts know different versions of Unicode (tokenizers 0.23.3, measured over all
// code points): its classes end between 15.1 and 16, its lower case is of 17, its composition of 9.
// The tables below hold every difference from utf8proc of Unicode 15, and what newer data would
// change, so that the result does not depend on the utf8proc installed.

struct ClassRange {
  char32_t first;
  char32_t last;
  CharClass value;
};
constexpr ClassRange kClasses[] = {
    {0x0558, 0x0558, CharClass::kOther},    {0x058B, 0x058C, CharClass::kOther},
    {0x088F, 0x088F, CharClass::kOther},    {0x0C5C, 0x0C5C, CharClass::kOther},
    {0x0CDC, 0x0CDC, CharClass::kOther},    {0x1C89, 0x1C8A, CharClass::kLetter},
    {0x208F, 0x208F, CharClass::kOther},    {0x209D, 0x209F, CharClass::kOther},
    {0xA7CB, 0xA7CD, CharClass::kLetter},   {0xA7CE, 0xA7CF, CharClass::kOther},
    {0xA7D2, 0xA7D2, CharClass::kOther},    {0xA7D4, 0xA7D4, CharClass::kOther},
    {0xA7DA, 0xA7DC, CharClass::kLetter},   {0xA7DD, 0xA7DD, CharClass::kOther},
    {0xA7E2, 0xA7E2, CharClass::kOther},    {0xA7F1, 0xA7F1, CharClass::kOther},
    {0xAB6C, 0xAB6D, CharClass::kOther},    {0x105C0, 0x105F3, CharClass::kLetter},
    {0x107BB, 0x107BF, CharClass::kOther},  {0x10940, 0x10959, CharClass::kOther},
    {0x10D40, 0x10D49, CharClass::kNumber}, {0x10D4A, 0x10D65, CharClass::kLetter},
    {0x10D6F, 0x10D85, CharClass::kLetter}, {0x10EC2, 0x10EC4, CharClass::kLetter},
    {0x10EC5, 0x10EC7, CharClass::kOther},  {0x10ED9, 0x10EEE, CharClass::kOther},
    {0x11380, 0x11389, CharClass::kLetter}, {0x1138B, 0x1138B, CharClass::kLetter},
    {0x1138E, 0x1138E, CharClass::kLetter}, {0x11390, 0x113B5, CharClass::kLetter},
    {0x113B7, 0x113B7, CharClass::kLetter}, {0x113D1, 0x113D1, CharClass::kLetter},
    {0x113D3, 0x113D3, CharClass::kLetter}, {0x116D0, 0x116E3, CharClass::kNumber},
    {0x11B0A, 0x11B0A, CharClass::kOther},  {0x11BC0, 0x11BE0, CharClass::kLetter},
    {0x11BF0, 0x11BF9, CharClass::kNumber}, {0x11DB0, 0x11DDB, CharClass::kOther},
    {0x11DE0, 0x11DE9, CharClass::kOther},  {0x11DF1, 0x11DF1, CharClass::kOther},
    {0x1246F, 0x1246F, CharClass::kOther},  {0x12475, 0x1247F, CharClass::kOther},
    {0x12550, 0x12686, CharClass::kOther},  {0x13460, 0x143FA, CharClass::kLetter},
    {0x16100, 0x1611D, CharClass::kLetter}, {0x16130, 0x16139, CharClass::kNumber},
    {0x16D40, 0x16D6C, CharClass::kLetter}, {0x16D70, 0x16D79, CharClass::kNumber},
    {0x16EA0, 0x16EB8, CharClass::kOther},  {0x16EBB, 0x16ED3, CharClass::kOther},
    {0x16FF2, 0x16FF6, CharClass::kOther},  {0x187F8, 0x187FF, CharClass::kOther},
    {0x18CD6, 0x18CDA, CharClass::kOther},  {0x18CFF, 0x18CFF, CharClass::kLetter},
    {0x18D09, 0x18D20, CharClass::kOther},  {0x18D80, 0x18DF2, CharClass::kOther},
    {0x18E00, 0x19191, CharClass::kOther},  {0x191A0, 0x191D2, CharClass::kOther},
    {0x1B123, 0x1B128, CharClass::kOther},  {0x1B168, 0x1B168, CharClass::kOther},
    {0x1CCF0, 0x1CCF9, CharClass::kNumber}, {0x1D6A6, 0x1D6A6, CharClass::kOther},
    {0x1DF1F, 0x1DF24, CharClass::kOther},  {0x1DF2B, 0x1DF81, CharClass::kOther},
    {0x1DF90, 0x1DF96, CharClass::kOther},  {0x1DFCD, 0x1DFFF, CharClass::kOther},
    {0x1E5D0, 0x1E5ED, CharClass::kLetter}, {0x1E5F0, 0x1E5F0, CharClass::kLetter},
    {0x1E5F1, 0x1E5FA, CharClass::kNumber}, {0x1E6C0, 0x1E6DE, CharClass::kOther},
    {0x1E6E0, 0x1E6E2, CharClass::kOther},  {0x1E6E4, 0x1E6E5, CharClass::kOther},
    {0x1E6E7, 0x1E6ED, CharClass::kOther},  {0x1E6F0, 0x1E6F4, CharClass::kOther},
    {0x1E6FE, 0x1E6FF, CharClass::kOther},  {0x2B73A, 0x2B73F, CharClass::kOther},
    {0x2B81E, 0x2B81E, CharClass::kOther},  {0x2CEA2, 0x2CEAD, CharClass::kOther},
    {0x2EBF0, 0x2EE5D, CharClass::kLetter}, {0x323B0, 0x33479, CharClass::kOther},
    {0x3D000, 0x3FC3F, CharClass::kOther}};

// Code points that came after Unicode 9 and compose, decompose or reorder in later versions. To the
// reference they are unassigned: starters that stay as they are.
struct Range {
  char32_t first;
  char32_t last;
};
constexpr Range kNotComposing[] = {
    {0x05C8, 0x05C9},   {0x07FD, 0x07FD},   {0x0897, 0x089F},   {0x08CA, 0x08D3},
    {0x09FE, 0x09FE},   {0x0C3C, 0x0C3C},   {0x0D3B, 0x0D3C},   {0x0EBA, 0x0EBA},
    {0x1715, 0x1715},   {0x1ABF, 0x1AF0},   {0x1DF6, 0x1DFA},   {0xA82C, 0xA82C},
    {0x105C9, 0x105C9}, {0x105D2, 0x105D2}, {0x105DA, 0x105DA}, {0x105E4, 0x105E4},
    {0x10D24, 0x10D27}, {0x10D69, 0x10D6D}, {0x10EAB, 0x10EAC}, {0x10ECB, 0x10ECF},
    {0x10EF0, 0x10EFB}, {0x10EFD, 0x10EFF}, {0x10F46, 0x10F50}, {0x10F82, 0x10F85},
    {0x11070, 0x11070}, {0x1133B, 0x1133B}, {0x11382, 0x11385}, {0x1138B, 0x1138B},
    {0x1138E, 0x1138E}, {0x11390, 0x11391}, {0x113C2, 0x113C2}, {0x113C5, 0x113C5},
    {0x113C7, 0x113C8}, {0x113CE, 0x113D0}, {0x1145E, 0x1145E}, {0x11839, 0x1183A},
    {0x11935, 0x11935}, {0x11938, 0x11938}, {0x1193D, 0x1193E}, {0x11943, 0x11943},
    {0x119E0, 0x119E0}, {0x11A34, 0x11A34}, {0x11A47, 0x11A47}, {0x11A99, 0x11A99},
    {0x11D42, 0x11D42}, {0x11D44, 0x11D45}, {0x11D97, 0x11D97}, {0x11F41, 0x11F42},
    {0x1611E, 0x1611E}, {0x16121, 0x16129}, {0x1612F, 0x1612F}, {0x16D63, 0x16D63},
    {0x16D67, 0x16D6A}, {0x16FF0, 0x16FF1}, {0x1D127, 0x1D128}, {0x1D250, 0x1D252},
    {0x1D25B, 0x1D25C}, {0x1D25F, 0x1D25F}, {0x1D280, 0x1D281}, {0x1E08F, 0x1E08F},
    {0x1E130, 0x1E136}, {0x1E2AE, 0x1E2AE}, {0x1E2EC, 0x1E2EF}, {0x1E4EC, 0x1E4EF},
    {0x1E5EE, 0x1E5EF}, {0x1E6E3, 0x1E6E3}, {0x1E6E6, 0x1E6E6}, {0x1E6EE, 0x1E6EF},
    {0x1E6F5, 0x1E6F5}};

// The range that holds c, or null.
template <class R, size_t kCount>
const R* find_range(const R (&ranges)[kCount], char32_t c) {
  if (c < ranges[0].first) return nullptr;
  const R* behind = std::upper_bound(std::begin(ranges), std::end(ranges), c,
                                     [](char32_t value, const R& r) { return value < r.first; });
  return c <= behind[-1].last ? behind - 1 : nullptr;
}

// Capital letters of Unicode 16 and 17 and those that got a small letter there; 0 for all others.
char32_t newer_lower(char32_t c) {
  switch (c) {
    case 0x1C89:
    case 0xA7CC:
    case 0xA7CE:
    case 0xA7D2:
    case 0xA7D4:
    case 0xA7DA:
      return c + 1;
    case 0xA7CB:
      return 0x0264;
    case 0xA7DC:
      return 0x019B;
    default:
      if (c >= 0x10D50 && c <= 0x10D65) return c + 0x20;
      return c >= 0x16EA0 && c <= 0x16EB8 ? c + 0x1B : 0;
  }
}

void compose(std::string_view text, std::string* out, core::Status* status) {
  if (text.empty()) return;
  utf8proc_uint8_t* mapped = nullptr;
  const utf8proc_ssize_t length =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                   static_cast<utf8proc_ssize_t>(text.size()), &mapped,
                   static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  const std::unique_ptr<utf8proc_uint8_t, void (*)(void*)> owner(mapped, std::free);
  if (length == UTF8PROC_ERROR_NOMEM) throw std::bad_alloc();
  if (length < 0) {
    *status = core::Status(core::Code::kInternal,
                           std::string("cannot compose text: ") + utf8proc_errmsg(length));
    return;
  }
  out->append(reinterpret_cast<const char*>(mapped), static_cast<size_t>(length));
}

}  // namespace

CharClass classify(char32_t c) {
  if (is_space(c)) return CharClass::kSpace;
  if (c < 0x80) {
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) return CharClass::kLetter;
    return c >= '0' && c <= '9' ? CharClass::kNumber : CharClass::kOther;
  }
  if (const ClassRange* range = find_range(kClasses, c)) return range->value;
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
  if (const char32_t lower = newer_lower(c); lower != 0) {
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
  std::string out;
  out.reserve(text.size());
  core::Status status;
  size_t begin = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t here = at;
    if (find_range(kNotComposing, next_code_point(text, &at)) == nullptr) continue;
    compose(text.substr(begin, here - begin), &out, &status);
    out.append(text.substr(here, at - here));
    begin = at;
  }
  compose(text.substr(begin), &out, &status);
  if (!status.ok()) return status;
  return out;
}

}  // namespace npuseg::text

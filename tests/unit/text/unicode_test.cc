// SPDX-License-Identifier: Apache-2.0
// All code points against the tokenizers library (golden/unicode.txt, made by
// tests/oracle/text_unicode.py), and UTF-8 at the border.
#include "text/unicode.h"

#include <zlib.h>

#include <array>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>

#include "cmocka_cpp.h"
#include "core/file.h"
#include "text/utf8.h"

namespace {

using namespace npuseg::text;

constexpr size_t kKinds = 5;
constexpr char32_t kBlock = 4096;
const char* const kNames[kKinds] = {"class", "lower case", "NFC", "NFC with U+0334 behind",
                                    "NFC with U+0345 before"};

void add(uint32_t* sum, const std::string& text) {
  *sum = static_cast<uint32_t>(
      crc32(*sum, reinterpret_cast<const Bytef*>(text.data()), static_cast<uInt>(text.size())));
}

std::string composed(const std::string& text) {
  auto result = to_nfc(text);
  assert_true(result.ok());
  return result.value() + "\n";
}

void test_every_code_point(void**) {
  const auto golden = npuseg::core::read_file(
      NPUSEG_SOURCE_DIR "/tests/unit/text/golden/unicode.txt", size_t{1} << 20);
  assert_true(golden.ok());
  std::istringstream lines(golden.value());
  size_t differences = 0;
  for (char32_t first = 0; first < 0x110000; first += kBlock) {
    uint32_t block = 0;
    std::array<uint32_t, kKinds> wanted{};
    lines >> std::hex >> block;
    for (uint32_t& sum : wanted) lines >> std::hex >> sum;
    assert_true(static_cast<bool>(lines));
    assert_int_equal(block, first);
    std::array<uint32_t, kKinds> sums{};
    for (char32_t c = first; c < first + kBlock; ++c) {
      if (c >= 0xD800 && c < 0xE000) continue;
      std::string self;
      append_utf8(c, &self);
      size_t at = 0;
      assert_int_equal(next_code_point(self, &at), c);
      assert_int_equal(at, self.size());
      assert_int_equal(find_invalid_utf8(self), self.size());
      std::string lower;
      append_lower(c, &lower);
      add(&sums[0], std::string(1, static_cast<char>('0' + static_cast<int>(classify(c)))));
      add(&sums[1], lower + "\n");
      add(&sums[2], composed(self));
      add(&sums[3], composed("a" + self + "\xCC\xB4"));
      add(&sums[4], composed("a\xCD\x85" + self));
    }
    for (size_t kind = 0; kind < kKinds; ++kind) {
      if (sums[kind] == wanted[kind]) continue;
      print_message("%s differs in U+%04X to U+%04X\n", kNames[kind], static_cast<unsigned>(first),
                    static_cast<unsigned>(first + kBlock - 1));
      ++differences;
    }
  }
  assert_int_equal(differences, 0);
}

void test_composition(void**) {
  const char* const pairs[][2] = {
      {"cafe\xCC\x81", "caf\xC3\xA9"},
      {"\xE2\x84\xAB", "\xC3\x85"},                                              // U+212B
      {"\xE1\x84\x92\xE1\x85\xA1\xE1\x86\xAB", "\xED\x95\x9C"},                  // jamo
      {"\xE0\xA5\x98", "\xE0\xA4\x95\xE0\xA4\xBC"},                              // excluded: U+0958
      {"a\xCC\x81\xCC\xA3", "\xE1\xBA\xA1\xCC\x81"},                             // reordered
      {"\xF0\x91\xA4\xB5\xF0\x91\xA4\xB0", "\xF0\x91\xA4\xB5\xF0\x91\xA4\xB0"},  // of Unicode 13
      {"", ""},
  };
  for (const auto& pair : pairs) assert_string_equal(to_nfc(pair[0]).value().c_str(), pair[1]);
  const std::string nul("\0e\xCC\x81\0", 5);
  assert_true(to_nfc(nul).value() == std::string("\0\xC3\xA9\0", 4));
}

// Values of Python's bytes.decode("utf-8", "replace"); ? stands for U+FFFD.
void test_invalid_utf8_is_replaced(void**) {
  const std::pair<std::string_view, std::string_view> cases[] = {
      {"\xFF", "?"},
      {"a\x80z", "a?z"},
      {"\xE2\x82", "?"},
      {"\xE2\x82z", "?z"},
      {"\xF0\x9F\x98z", "?z"},
      {"\xED\xA0\x80", "???"},
      {"\xF0\x80\x80\x80", "????"},
      {"\xC0\xAF", "??"},
      {"\xF4\x90\x80\x80", "????"},
      {"\xE2\xE2\x82\xAC", "?\xE2\x82\xAC"},
      {"\xF0\x9F\x98\x80\xF0", "\xF0\x9F\x98\x80?"},
      {"", ""},
      {std::string_view("\0ok", 3), std::string_view("\0ok", 3)},
  };
  for (const auto& [bytes, expected] : cases) {
    std::string wanted;
    for (const char c : expected) {
      if (c == '?') {
        wanted += "\xEF\xBF\xBD";
      } else {
        wanted += c;
      }
    }
    const std::string got = replace_invalid_utf8(bytes);
    assert_true(got == wanted);
    assert_int_equal(find_invalid_utf8(got), got.size());
  }
}

void test_invalid_utf8_has_its_offset(void**) {
  const std::string bad[] = {"\x80",         "\xBF",
                             "\xC0\x80",     "\xC1\xBF",
                             "\xC3",         "\xC3(",
                             "\xE0\x80\x80", "\xE0\x9F\xBF",
                             "\xE2\x82",     "\xED\xA0\x80",
                             "\xED\xBF\xBF", "\xF0\x8F\xBF\xBF",
                             "\xF0\x9F\x98", "\xF4\x90\x80\x80",
                             "\xF5\x80",     "\xFE",
                             "\xFF",         "\xF8\x88\x80\x80\x80"};
  for (const std::string& bytes : bad) {
    assert_int_equal(find_invalid_utf8(bytes), 0);
    assert_int_equal(find_invalid_utf8("\xF0\x9F\x98\x80" + bytes), 4);
    assert_int_equal(find_invalid_utf8("a" + bytes + "b"), 1);
  }
  for (const std::string& bytes :
       {std::string(), std::string("\0", 1), std::string("\xED\x9F\xBF\xEE\x80\x80"),
        std::string("\xF4\x8F\xBF\xBF"), std::string("\xEF\xBB\xBFx")}) {
    assert_int_equal(find_invalid_utf8(bytes), bytes.size());
  }
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(test_every_code_point),
      cmocka_unit_test(test_composition),
      cmocka_unit_test(test_invalid_utf8_has_its_offset),
      cmocka_unit_test(test_invalid_utf8_is_replaced),
  };
  return cmocka_run_group_tests_name("text unicode", tests, nullptr, nullptr);
}

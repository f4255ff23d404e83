// SPDX-License-Identifier: Apache-2.0
// JPEG decoding: the reference table (sampling, progressive, arithmetic, CMYK), truncation, limits.
#include <algorithm>
#include <array>
#include <string>

#include "image/orientation.h"
#include "image/picture.h"
#include "picture_maker.h"

namespace {

using npuseg::core::Code;
using npuseg::image::decode;
using npuseg::image::DecodeOptions;
using npuseg::image::Picture;
using npuseg::test::Bytes;
using npuseg::test::crc;
using npuseg::test::make_jpeg;

Picture good(const Bytes& file, const DecodeOptions& options = {}) {
  auto result = decode(file, options, "test.jpg");
  if (!result.ok()) print_message("%s\n", result.status().message().c_str());
  assert_true(result.ok());
  return std::move(result).value();
}

void bad(const Bytes& file, Code code, const std::string& word, const DecodeOptions& options = {}) {
  const auto result = decode(file, options, "test.jpg");
  assert_false(result.ok());
  const std::string& message = result.status().message();
  if (result.status().code() != code || message.find(word) == std::string::npos) {
    print_message("%s\nlacks %s or has code %d\n", message.c_str(), word.c_str(),
                  static_cast<int>(result.status().code()));
  }
  assert_int_equal(result.status().code(), code);
  assert_true(message.find(word) != std::string::npos);
}

Bytes j1() { return make_jpeg(37, 29, {}); }
Bytes cut(Bytes file, size_t size) {
  file.resize(size);
  return file;
}

void test_reference_files(void**) {
  struct Row {
    npuseg::test::JpegMaking how;
    size_t size;
    uint32_t file_crc, rgb_crc;
  };
  const std::array<Row, 7> rows = {{
      {{}, 1208, 0xb87f76d9, 0x1b2fde7f},
      {{.h = 1, .v = 1}, 1543, 0x08eeea55, 0xdab9c119},
      {{.quality = 90, .h = 2, .v = 1, .progressive = true}, 1660, 0x888a2ce3, 0x51b738fd},
      {{.grey = true}, 731, 0xf133a80c, 0x38932edc},
      {{.arithmetic = true}, 753, 0x631e646f, 0x1b2fde7f},
      {{.h = 1, .v = 2}, 1332, 0xcf255b09, 0x37cf6e1d},
      {{.rgb = true}, 1391, 0x50f80977, 0xf939545f},
  }};
  for (const Row& row : rows) {
    const Bytes file = make_jpeg(37, 29, row.how);
    assert_int_equal(file.size(), row.size);
    assert_int_equal(crc(file.data(), file.size()), row.file_crc);
    const Picture picture = good(file);
    assert_int_equal(picture.width, 37);
    assert_int_equal(picture.height, 29);
    assert_int_equal(crc(picture), row.rgb_crc);
  }
}

void test_ends(void**) {
  const Bytes file = j1();
  const uint32_t whole = crc(good(file));
  bad(cut(file, file.size() - 2), Code::kCorruptData, "truncated");
  bad(cut(file, 1000), Code::kCorruptData, "truncated");
  bad(cut(file, 604), Code::kCorruptData, "truncated");
  Bytes ended = cut(file, 1000);
  ended.insert(ended.end(), {0xFF, 0xD9});
  const Picture partial = good(ended);
  assert_int_equal(crc(partial), 0xec67584c);
  const uint8_t* last = partial.row(28) + size_t{36} * 3;
  assert_int_equal(last[0], 128);
  assert_int_equal(last[2], 128);
  DecodeOptions lenient;
  lenient.accept_truncated = true;
  assert_int_equal(crc(good(cut(file, 1000), lenient)), 0xec67584c);
  Bytes junk = file;
  junk.insert(junk.end(), 40, 0x55);
  assert_int_equal(crc(good(junk)), whole);
  for (size_t zeros = 1; zeros <= 11; ++zeros) {
    Bytes tail = cut(file, file.size() - 2);
    tail.insert(tail.end(), zeros, 0);
    if (zeros < 5) {
      bad(tail, Code::kCorruptData, "truncated");
    } else {
      assert_int_equal(crc(good(tail)), whole);
    }
  }
  const Bytes progressive = make_jpeg(37, 29, {.quality = 90, .h = 2, .v = 1, .progressive = true});
  bad(cut(progressive, progressive.size() - 2), Code::kCorruptData, "truncated");
}

size_t frame_at(const Bytes& file) {
  for (size_t i = 0; i + 1 < file.size(); ++i) {
    if (file[i] == 0xFF && file[i + 1] >= 0xC0 && file[i + 1] <= 0xC2) return i;
  }
  return 0;
}

void test_headers(void**) {
  const Bytes file = j1();
  Bytes prefixed = file;
  prefixed.insert(prefixed.begin(), 0);
  bad(prefixed, Code::kUnsupported, "neither JPEG nor PNG");
  Bytes filled = file;
  filled.insert(filled.begin() + 2, 0xFF);
  assert_int_equal(crc(good(filled)), crc(good(file)));
  const size_t at = frame_at(file);
  Bytes flat = file;
  flat[at + 5] = flat[at + 6] = 0;
  bad(flat, Code::kCorruptData, "0 pixels");
  Bytes deep = file;
  deep[at + 4] = 12;
  bad(deep, Code::kUnsupported, "12 bits");
  Bytes two = file;
  two[at + 9] = 2;
  bad(two, Code::kUnsupported, "2 components");
  Bytes huge = file;
  for (size_t i = 5; i < 9; ++i) huge[at + i] = 0xFF;
  bad(huge, Code::kLimitExceeded, "65535x65535");
  bad({}, Code::kCorruptData, "empty");
  bad({0xFF}, Code::kUnsupported, "neither");
  bad({'R', 'I', 'F', 'F', 1, 0, 0, 0, 'W', 'E', 'B', 'P'}, Code::kUnsupported, "WebP");
  bad({'G', 'I', 'F', '8', '9', 'a', 0, 0}, Code::kUnsupported, "GIF");
  DecodeOptions options;
  options.limits.max_file_bytes = 100;
  bad(file, Code::kLimitExceeded, "1208 bytes", options);
  options.limits = {};
  options.limits.max_side = 36;
  bad(file, Code::kLimitExceeded, "36", options);
}

void test_cmyk(void**) {
  const std::array<std::array<Bytes, 2>, 4> rows = {{{{{255, 255, 255, 255}, {255, 255, 255}}},
                                                     {{{0, 0, 0, 0}, {0, 0, 0}}},
                                                     {{{255, 0, 0, 255}, {255, 0, 0}}},
                                                     {{{128, 64, 32, 200}, {100, 50, 25}}}}};
  for (const auto& row : rows) {
    for (const bool adobe : {false, true}) {
      const Picture picture = good(npuseg::test::make_cmyk_jpeg(row[0], adobe, false));
      for (size_t c = 0; c < 3; ++c) assert_int_equal(picture.row(3)[9 + c], row[1][c]);
    }
    // Through YCC the colours may be off by the rounding of two conversions.
    const Picture picture = good(npuseg::test::make_cmyk_jpeg(row[0], true, true));
    for (size_t c = 0; c < 3; ++c) assert_in_range(picture.row(3)[9 + c] + 3 - row[1][c], 1, 5);
  }
}

void test_scan_limit(void**) {
  // A progressive file whose first scan is repeated ten thousand times.
  const Bytes file = make_jpeg(16, 16, {.progressive = true});
  size_t begin = 0;
  while (!(file[begin] == 0xFF && file[begin + 1] == 0xDA)) ++begin;
  size_t end = begin + 2;
  while (!(file[end] == 0xFF && file[end + 1] != 0)) ++end;
  const auto iterator = [&file](size_t i) { return file.begin() + static_cast<std::ptrdiff_t>(i); };
  Bytes bomb(iterator(0), iterator(end));
  for (int i = 0; i < 10000; ++i) bomb.insert(bomb.end(), iterator(begin), iterator(end));
  bomb.insert(bomb.end(), iterator(end), file.end());
  bad(bomb, Code::kLimitExceeded, "scans");
}

void test_orientation_blocks(void**) {
  using npuseg::image::orientation_of_tiff;
  using npuseg::image::orientation_of_xmp;
  const Bytes little = {'I', 'I', 42, 0, 8, 0, 0, 0, 1, 0, 0x12, 1, 3, 0, 1, 0, 0, 0, 6, 0, 0, 0};
  const Bytes big = {'M', 'M', 0, 42, 0, 0, 0, 8, 0, 1, 1, 0x12, 0, 3, 0, 0, 0, 1, 0, 8, 0, 0};
  assert_int_equal(orientation_of_tiff(little), 6);
  assert_int_equal(orientation_of_tiff(big), 8);
  for (size_t size = 0; size < little.size(); ++size) {
    assert_int_equal(orientation_of_tiff(std::span(little).first(size)), 0);
  }
  Bytes far = little;
  far[4] = far[5] = far[6] = far[7] = 0xFF;
  assert_int_equal(orientation_of_tiff(far), 0);
  assert_int_equal(orientation_of_xmp("<a tiff:Orientation=\"3\"/>"), 3);
  assert_int_equal(orientation_of_xmp("<tiff:Orientation>7</tiff:Orientation>"), 7);
  assert_int_equal(orientation_of_xmp("tiff:Orientation"), 0);
}

void test_turning(void**) {
  const std::array<const char*, 9> expected = {"",         "012/345",  "210/543",
                                               "543/210",  "345/012",  "03/14/25",
                                               "30/41/52", "52/41/30", "25/14/03"};
  for (uint32_t orientation = 1; orientation <= 8; ++orientation) {
    auto made = Picture::make(3, 2);
    assert_true(made.ok());
    Picture picture = std::move(made).value();
    for (size_t i = 0; i < 18; ++i) picture.rgb.data()[i] = static_cast<uint8_t>(i / 3);
    auto turned = npuseg::image::turn_upright(std::move(picture), orientation, nullptr);
    assert_true(turned.ok());
    std::string text;
    for (size_t y = 0; y < turned.value().height; ++y) {
      if (y > 0) text += '/';
      for (size_t x = 0; x < turned.value().width; ++x) {
        text += static_cast<char>('0' + turned.value().row(y)[x * 3 + 1]);
      }
    }
    assert_string_equal(text.c_str(), expected[orientation]);
  }
}

void test_damage_never_crashes(void**) {
  uint32_t state = 7;
  const auto next = [&state](uint32_t below) {
    state = state * 1664525u + 1013904223u;
    return static_cast<uint32_t>((uint64_t{state >> 8} * below) >> 24);
  };
  DecodeOptions options;
  options.limits.max_pixels = 1 << 20;
  for (const bool progressive : {false, true}) {
    const Bytes file = make_jpeg(37, 29, {.progressive = progressive});
    for (int i = 0; i < 150; ++i) {
      Bytes changed = cut(file, 1 + next(static_cast<uint32_t>(file.size())));
      for (uint32_t k = 0; k < 1 + next(3); ++k) {
        changed[next(static_cast<uint32_t>(changed.size()))] ^= static_cast<uint8_t>(1u << next(8));
      }
      options.accept_truncated = i % 2 == 0;
      const auto result = decode(changed, options, "changed");
      if (!result.ok()) assert_false(result.status().message().empty());
    }
  }
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(test_reference_files), cmocka_unit_test(test_ends),
      cmocka_unit_test(test_headers),         cmocka_unit_test(test_cmyk),
      cmocka_unit_test(test_scan_limit),      cmocka_unit_test(test_orientation_blocks),
      cmocka_unit_test(test_turning),         cmocka_unit_test(test_damage_never_crashes),
  };
  return cmocka_run_group_tests_name("image/jpeg", tests, nullptr, nullptr);
}

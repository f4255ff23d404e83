// SPDX-License-Identifier: Apache-2.0
// PNG decoding: the reference table of formats and file structure, limits, damage; writing.
#include <string>

#include "image/picture.h"
#include "image/png_write.h"
#include "picture_maker.h"

namespace {

using npuseg::core::Code;
using npuseg::image::AlphaMode;
using npuseg::image::decode;
using npuseg::image::DecodeOptions;
using npuseg::image::Picture;
using npuseg::test::Bytes;
using npuseg::test::bytes_of;
using npuseg::test::deflated;
using npuseg::test::Ihdr;
using npuseg::test::joined;
using npuseg::test::make_png;
using npuseg::test::png_chunk;
using npuseg::test::png_signature;

void good(const Bytes& file, const Bytes& rgb, const DecodeOptions& options = {}) {
  const auto result = decode(file, options, "test.png");
  if (!result.ok()) print_message("%s\n", result.status().message().c_str());
  assert_true(result.ok());
  const Picture& picture = result.value();
  assert_int_equal(picture.stride() * picture.height, rgb.size());
  assert_memory_equal(picture.rgb.data(), rgb.data(), rgb.size());
}

void bad(const Bytes& file, Code code, const std::string& word, const DecodeOptions& options = {}) {
  const auto result = decode(file, options, "test.png");
  assert_false(result.ok());
  if (result.status().message().find(word) == std::string::npos) {
    print_message("%s\nlacks %s\n", result.status().message().c_str(), word.c_str());
    assert_true(false);
  }
  assert_int_equal(result.status().code(), code);
}

Bytes grey(const Bytes& values) {
  Bytes out;
  for (const uint8_t v : values) out.insert(out.end(), 3, v);
  return out;
}

const Bytes kPalette = {10, 20, 30, 40, 50, 60, 70, 80, 90};

void test_formats(void**) {
  good(make_png({8, 1, 1, 0}, {0, 0xB0}), grey({255, 0, 255, 255, 0, 0, 0, 0}));
  good(make_png({4, 1, 2, 0}, {0, 0x1B}), grey({0, 85, 170, 255}));
  good(make_png({4, 1, 4, 0}, {0, 0x07, 0xF1}), grey({0, 119, 255, 17}));
  const Bytes words = {0, 0, 0, 0, 1, 0, 255, 1, 0, 1, 1, 255, 255};
  good(make_png({6, 1, 16, 0}, words), grey({0, 1, 255, 255, 255, 255}));
  DecodeOptions scaled;
  scaled.grey16 = npuseg::image::Grey16::kScale;
  good(make_png({2, 1, 16, 0}, {0, 0x80, 0, 0xFF, 0xFF}), grey({128, 255}), scaled);
  good(make_png({1, 1, 16, 2}, {0, 0x01, 0xFF, 0x80, 0x80, 0xFF, 0x00}), {1, 128, 255});
  good(make_png({1, 1, 8, 2}, {0, 7, 8, 9}, png_chunk("tRNS", {0, 7, 0, 8, 0, 9})), {7, 8, 9});
  const Bytes plte = png_chunk("PLTE", kPalette);
  good(make_png({4, 1, 2, 3}, {0, 0x1B}, plte), {10, 20, 30, 40, 50, 60, 70, 80, 90, 0, 0, 0});
  good(make_png({4, 1, 8, 3}, {0, 0, 2, 3, 255}, plte), {10, 20, 30, 70, 80, 90, 0, 0, 0, 0, 0, 0});
  good(make_png({1, 1, 8, 3}, {0, 0}, joined({plte, png_chunk("tRNS", {0, 128, 255})})),
       {10, 20, 30});
  good(make_png({2, 1, 8, 3}, {0, 0, 9}), grey({0, 0}));
  good(make_png({3, 1, 8, 3}, {0, 0, 1, 2}, png_chunk("PLTE", {1, 2, 3, 4, 5, 6, 7})),
       {1, 2, 3, 4, 5, 6, 0, 0, 0});
  bad(make_png({1, 1, 8, 3}, {0, 0}, png_chunk("PLTE", Bytes(771))), Code::kCorruptData, "257");
  good(make_png({2, 1, 8, 4}, {0, 0x11, 0, 0xEE, 0x80}), grey({17, 238}));
  good(make_png({1, 1, 16, 4}, {0, 0x12, 0x34, 0, 0}), grey({18}));
  good(make_png({1, 1, 8, 6}, {0, 10, 20, 30, 0}), {10, 20, 30});
  good(make_png({1, 1, 16, 6}, {0, 0x12, 0xFF, 0x34, 0xFF, 0x56, 0xFF, 0, 0}), {18, 52, 86});
}

void test_alpha_over_colour(void**) {
  DecodeOptions white;
  white.alpha.mode = AlphaMode::kOverColour;
  good(make_png({2, 1, 8, 6}, {0, 10, 20, 30, 128, 200, 3, 90, 77}), {132, 137, 142, 238, 179, 205},
       white);
  good(make_png({1, 1, 8, 6}, {0, 10, 20, 30, 0}), {255, 255, 255}, white);
  good(make_png({2, 1, 8, 2}, {0, 7, 8, 9, 7, 8, 8}, png_chunk("tRNS", {0, 7, 0, 8, 0, 9})),
       {255, 255, 255, 7, 8, 8}, white);
  good(make_png({2, 1, 8, 0}, {0, 5, 6}, png_chunk("tRNS", {0, 5})), grey({255, 6}), white);
  DecodeOptions blue = white;
  blue.alpha.colour = {0, 0, 255};
  const Bytes extra = joined({png_chunk("PLTE", kPalette), png_chunk("tRNS", {0, 255})});
  good(make_png({3, 1, 8, 3}, {0, 0, 1, 2}, extra), {0, 0, 255, 40, 50, 60, 70, 80, 90}, blue);
  // Every colour with every alpha, by the definition of rounding c*a + 255*(255-a) over 255.
  Bytes raw, expected;
  for (uint32_t a = 0; a < 256; ++a) {
    raw.push_back(0);
    for (uint32_t c = 0; c < 256; ++c) {
      raw.insert(raw.end(), {static_cast<uint8_t>(c), static_cast<uint8_t>(a)});
      const uint32_t value = (2 * (c * a + 255 * (255 - a)) + 255) / 510;
      expected.insert(expected.end(), 3, static_cast<uint8_t>(value));
    }
  }
  good(make_png({256, 256, 8, 4}, raw), expected, white);
}

void test_structure(void**) {
  const Ihdr one{2, 1, 8, 0};
  const Bytes raw = {0, 3, 4};
  const Bytes pixels = grey({3, 4});
  const Bytes idat = png_chunk("IDAT", deflated(raw));
  const Bytes end = png_chunk("IEND", {});
  const Bytes head = joined({png_signature(), one.chunk()});
  Bytes wrong_idat = idat;
  wrong_idat.back() ^= 1;
  good(joined({head, wrong_idat, end}), pixels);
  Bytes gamma = png_chunk("gAMA", {0, 1, 134, 160});
  const Bytes extras =
      joined({gamma, png_chunk("iCCP", bytes_of("garbage")), png_chunk("bKGD", {0, 1}),
              png_chunk("sBIT", {8}), png_chunk("abCd", {1})});
  good(joined({head, extras, idat, end}), pixels);
  good(joined({png_signature(), gamma, Ihdr{9, 9, 8, 2}.chunk(), one.chunk(), idat, end}), pixels);
  gamma.back() ^= 1;
  bad(joined({head, gamma, idat, end}), Code::kCorruptData, "checksum of chunk gAMA");
  Bytes wrong_head = one.chunk();
  wrong_head.back() ^= 1;
  bad(joined({png_signature(), wrong_head, idat, end}), Code::kCorruptData, "IHDR");
  Bytes wrong_end = end;
  wrong_end.back() ^= 1;
  good(joined({head, idat, wrong_end}), pixels);
  good(joined({head, idat}), pixels);
  good(joined({head, idat, end, bytes_of("junk behind")}), pixels);
  Bytes stream = deflated(raw);
  stream.back() ^= 1;
  bad(joined({head, png_chunk("IDAT", stream), end}), Code::kCorruptData, "compressed data");
  stream.resize(stream.size() - 4);
  good(joined({head, png_chunk("IDAT", stream), end}), pixels);
  bad(joined({head, Bytes(idat.begin(), idat.begin() + 12)}), Code::kCorruptData, "truncated");
  bad(head, Code::kCorruptData, "truncated");
  bad(joined({head, end}), Code::kCorruptData, "no IDAT");
  good(make_png({2, 2, 8, 0}, raw), grey({3, 4, 0, 0}));
  bad(make_png({2, 2, 8, 0}, {0, 3, 4, 0, 5}), Code::kCorruptData, "truncated");
  good(make_png(one, {0, 3, 4, 0, 5, 6}), pixels);
  bad(make_png(one, {5, 3, 4}), Code::kCorruptData, "filter 5");
  bad(make_png({2, 1, 3, 0}, raw), Code::kCorruptData, "3 bits");
  bad(make_png({2, 1, 8, 5}, raw), Code::kCorruptData, "colour type 5");
  bad(make_png({0, 1, 8, 0}, raw), Code::kCorruptData, "0 pixels");
  bad(make_png({2, 1, 8, 0, 0, 1}, raw), Code::kCorruptData, "filter method 1");
  good(make_png({2, 1, 8, 0, 1}, raw), pixels);
  const Bytes whole = deflated(raw);
  const Bytes front(whole.begin(), whole.begin() + 5);
  const Bytes back(whole.begin() + 5, whole.end());
  good(
      joined({head, png_chunk("IDAT", front), png_chunk("IDAT", {}), png_chunk("IDAT", back), end}),
      pixels);
  bad(joined({head, png_chunk("IDAT", front), png_chunk("tEXt", bytes_of("a")),
              png_chunk("IDAT", back), end}),
      Code::kCorruptData, "truncated");
  bad(make_png(one, raw, png_chunk("tRNS", {1})), Code::kCorruptData, "tRNS");
  const Bytes animation =
      joined({png_chunk("acTL", {0, 0, 0, 1, 0, 0, 0, 0}), png_chunk("fcTL", Bytes(26))});
  good(make_png(one, raw, animation), pixels);
}

void test_interlace(void**) {
  const Bytes raw = {0, 0,  0,  4, 0,  20, 24, 0, 2, 0, 22, 0, 10, 12, 14, 0,  1,  3,
                     0, 11, 13, 0, 21, 23, 0,  5, 6, 7, 8,  9, 0,  15, 16, 17, 18, 19};
  Bytes expected;
  for (uint8_t i = 0; i < 25; ++i) expected.insert(expected.end(), 3, i);
  // Passes of 5x5: 1x1, 1x1, 2 of row 4, 1x2 of column 2, row 2, columns 1 and 3, odd rows.
  good(make_png({5, 5, 8, 0, 0, 0, 1}, raw), expected);
  good(make_png({5, 5, 8, 0, 0, 0, 2}, raw), expected);
}

void test_limits(void**) {
  const Bytes tiny = deflated({0, 1});
  bad(joined({png_signature(), Ihdr{30000, 30000, 8, 2}.chunk(), png_chunk("IDAT", tiny)}),
      Code::kLimitExceeded, "900000000");
  bad(joined({png_signature(), Ihdr{10000, 9000, 8, 2}.chunk(), png_chunk("IDAT", tiny)}),
      Code::kCorruptData, "truncated");
  bad(joined({png_signature(), Ihdr{70000, 1, 8, 0}.chunk(), png_chunk("IDAT", tiny)}),
      Code::kLimitExceeded, "70000");
  Bytes zeros(size_t{64} << 20);
  const Bytes bomb = joined({bytes_of("Raw profile type exif"), {0, 0}, deflated(zeros)});
  good(make_png({1, 1, 8, 0}, {0, 9}, png_chunk("zTXt", bomb)), grey({9}));
}

void test_damage_never_crashes(void**) {
  uint32_t state = 11;
  const auto next = [&state](size_t below) {
    state = state * 1664525u + 1013904223u;
    return static_cast<size_t>((uint64_t{state >> 8} * below) >> 24);
  };
  DecodeOptions options;
  options.limits.max_pixels = 1 << 20;
  for (uint8_t interlace = 0; interlace < 2; ++interlace) {
    Bytes raw = npuseg::test::lcg_bytes(30 * 91);
    for (size_t i = 0; i < raw.size(); i += 91) raw[i] = static_cast<uint8_t>(i % 5);
    const Bytes file = make_png({30, 30, 8, 2, 0, 0, interlace}, raw, png_chunk("eXIf", raw));
    for (int i = 0; i < 300; ++i) {
      Bytes changed = file;
      if (i % 2 == 0) changed.resize(1 + next(file.size()));
      for (size_t k = 0; k < 1 + next(4); ++k) {
        changed[next(changed.size())] ^= static_cast<uint8_t>(1u << next(8));
      }
      const auto result = decode(changed, options, "changed");
      if (!result.ok()) assert_false(result.status().message().empty());
    }
  }
}

void test_writing(void**) {
  const Bytes rgb = npuseg::test::pattern_pixels(37, 29);
  const npuseg::image::RgbView view{rgb.data(), 37, 29, 37 * 3};
  const auto file = npuseg::image::encode_png_rgb(view);
  const auto again = npuseg::image::encode_png_rgb(view);
  assert_true(file.ok() && again.ok());
  assert_true(file.value() == again.value());
  good(file.value(), rgb);
  const Bytes mask = {0, 255, 9, 255, 0, 9};
  const auto grey_file = npuseg::image::encode_png_grey(mask.data(), 3, 2, 2);
  assert_true(grey_file.ok());
  good(grey_file.value(), grey({0, 255, 255, 0}));
  assert_false(npuseg::image::encode_png_grey(mask.data(), 3, 0, 2).ok());
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(test_formats),   cmocka_unit_test(test_alpha_over_colour),
      cmocka_unit_test(test_structure), cmocka_unit_test(test_interlace),
      cmocka_unit_test(test_limits),    cmocka_unit_test(test_damage_never_crashes),
      cmocka_unit_test(test_writing),
  };
  return cmocka_run_group_tests_name("image/png", tests, nullptr, nullptr);
}

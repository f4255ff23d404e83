// SPDX-License-Identifier: Apache-2.0
// Byte resize against the reference tables, normalisation bit patterns, pixel layouts.
#include "image/resize.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <string>
#include <vector>

#include "core/threads.h"
#include "image/convert.h"
#include "image/normalize.h"
#include "picture_maker.h"

namespace {

using npuseg::core::Call;
using npuseg::core::Code;
using npuseg::test::Bytes;
using npuseg::test::crc;
using npuseg::test::lcg_bytes;
using namespace npuseg::image;

Picture resized(const Bytes& pixels, uint32_t h, uint32_t w, uint32_t out_h, uint32_t out_w,
                Filter filter, int threads = 1, size_t stride = 0) {
  Call::Options options;
  options.threads = threads;
  Call call(options);
  auto result = resize_rgb(call, {pixels.data(), w, h, stride == 0 ? size_t{w} * 3 : stride}, out_w,
                           out_h, filter);
  assert_true(result.ok());
  return std::move(result).value();
}

void test_whole_pictures(void**) {
  struct Row {
    uint32_t h, w, out_h, out_w;
    Filter filter;
    uint32_t in_crc, out_crc;
  };
  const Filter linear = Filter::kBilinear;
  const Filter cubic = Filter::kBicubic;
  const std::vector<Row> rows = {{37, 53, 64, 64, linear, 0x0ea2188d, 0xab502e5a},
                                 {37, 53, 64, 64, cubic, 0x0ea2188d, 0x9da64c34},
                                 {37, 53, 20, 30, linear, 0x0ea2188d, 0xefc333f5},
                                 {37, 53, 20, 30, cubic, 0x0ea2188d, 0xdc171d87},
                                 {64, 64, 37, 53, linear, 0xcbbbcd1b, 0x50d593dc},
                                 {64, 64, 37, 53, cubic, 0xcbbbcd1b, 0xd6276458},
                                 {480, 640, 1008, 1008, linear, 0x47111d5a, 0xac3ecf82},
                                 {480, 640, 1008, 1008, cubic, 0x47111d5a, 0xf8b2e317},
                                 {480, 640, 672, 912, cubic, 0x47111d5a, 0x9a35fe29},
                                 {600, 800, 1008, 1008, linear, 0xf19b25ab, 0xa0372a01},
                                 {1080, 1920, 1008, 1008, linear, 0x3c2edb49, 0x2cdd3117},
                                 {1008, 640, 1008, 1008, linear, 0x52abf6ed, 0xeb5adceb},
                                 {1, 1, 5, 7, linear, 0x6cb7068a, 0x54ccf878},
                                 {1, 1, 5, 7, cubic, 0x6cb7068a, 0x54ccf878},
                                 {1, 9, 4, 4, linear, 0x338a9fd6, 0x278c4b4f},
                                 {1, 9, 4, 4, cubic, 0x338a9fd6, 0xc60bf841},
                                 {9, 1, 4, 4, linear, 0x338a9fd6, 0x5a3e23a9},
                                 {9, 1, 4, 4, cubic, 0x338a9fd6, 0x89afaf35}};
  for (const Row& row : rows) {
    // The tables were made with the generator stepped once before the first byte.
    const Bytes in = lcg_bytes(size_t{row.h} * row.w * 3, 1);
    assert_int_equal(crc(in.data(), in.size()), row.in_crc);
    for (const int threads : {1, 3}) {
      const Picture out = resized(in, row.h, row.w, row.out_h, row.out_w, row.filter, threads);
      assert_int_equal(crc(out), row.out_crc);
    }
  }
}

std::string taps_text(uint32_t in, uint32_t out, Filter filter, size_t i) {
  const AxisTaps taps = make_axis_taps(in, out, filter);
  std::string text =
      "p" + std::to_string(taps.precision) + " " + std::to_string(taps.first[i]) + ":";
  for (size_t j = 0; j < taps.count[i]; ++j) {
    text += " " + std::to_string(taps.weights[i * taps.max_taps + j]);
  }
  return text;
}

void test_taps(void**) {
  const Filter linear = Filter::kBilinear;
  const Filter cubic = Filter::kBicubic;
  const auto is = [](const std::string& got, const char* expected) {
    assert_string_equal(got.c_str(), expected);
  };
  is(taps_text(2, 4, linear, 1), "p14 0: 12288 4096");
  is(taps_text(4, 2, linear, 0), "p16 0: 28087 28087 9362");
  is(taps_text(3, 5, linear, 2), "p14 1: 16384 0");
  is(taps_text(5, 3, linear, 1), "p15 1: 7282 18204 7282");
  is(taps_text(4, 1, linear, 0), "p16 0: 13653 19115 19115 13653");
  is(taps_text(640, 1008, linear, 504), "p14 319: 2991 13393");
  is(taps_text(1920, 1008, linear, 504), "p15 959: 4096 13150 12288 3234");
  is(taps_text(2, 4, cubic, 0), "p14 0: 17830 -1446");
  is(taps_text(4, 2, cubic, 1), "p16 0: -2437 7853 30060 30060");
  is(taps_text(3, 5, cubic, 2), "p14 0: 0 16384 0");
  is(taps_text(5, 3, cubic, 1), "p15 0: -1219 8078 19051 8078 -1219");
  is(taps_text(640, 1008, cubic, 504), "p14 318: -223 2438 15169 -999");
  is(taps_text(1920, 1008, cubic, 504), "p15 957: -246 -1256 3639 15127 14265 2653 -1275 -140");
  assert_int_equal(make_axis_taps(20000, 1008, linear).precision, 19);
  assert_int_equal(make_axis_taps(20000, 1008, cubic).precision, 19);
}

void expect_row(const Bytes& in, uint32_t out, Filter filter, const Bytes& expected) {
  Bytes rgb;
  for (const uint8_t v : in) rgb.insert(rgb.end(), 3, v);
  const Picture wide = resized(rgb, 1, static_cast<uint32_t>(in.size()), 1, out, filter);
  const Picture high = resized(rgb, static_cast<uint32_t>(in.size()), 1, out, 1, filter);
  for (size_t i = 0; i < out * size_t{3}; ++i) {
    assert_int_equal(wide.rgb.data()[i], expected[i / 3]);
    assert_int_equal(high.rgb.data()[i], expected[i / 3]);
  }
}

void test_rows(void**) {
  const Filter linear = Filter::kBilinear;
  const Filter cubic = Filter::kBicubic;
  expect_row({0, 255}, 4, linear, {0, 64, 191, 255});
  expect_row({0, 255}, 4, cubic, {0, 53, 202, 255});
  expect_row({0, 255}, 8, linear, {0, 0, 32, 96, 159, 223, 255, 255});
  expect_row({0, 255}, 8, cubic, {0, 0, 22, 89, 166, 233, 255, 255});
  expect_row({0, 255}, 1, cubic, {128});
  expect_row({10, 200, 30, 255, 0}, 3, linear, {91, 118, 109});
  expect_row({10, 200, 30, 255, 0}, 3, cubic, {87, 129, 108});
  expect_row({10, 200, 30, 255, 0}, 7, linear, {10, 119, 151, 30, 191, 146, 0});
  expect_row({10, 200, 30, 255, 0}, 7, cubic, {0, 128, 166, 30, 214, 158, 0});
}

// The definition, tap by tap, for every width up to 130: the vector loops must not differ.
void test_vector_loops(void**) {
  for (uint32_t w = 1; w <= 130; ++w) {
    const Bytes in = lcg_bytes(size_t{w} * 3, w);
    const uint32_t out_w = 1 + (w * 37) % 90;
    const AxisTaps taps = make_axis_taps(w, out_w, Filter::kBicubic);
    const Picture out = resized(in, 1, w, 1, out_w, Filter::kBicubic);
    for (size_t i = 0; w != out_w && i < size_t{out_w} * 3; ++i) {
      int32_t sum = 1 << (taps.precision - 1);
      for (size_t j = 0; j < taps.count[i / 3]; ++j) {
        sum += taps.weights[i / 3 * taps.max_taps + j] * in[(taps.first[i / 3] + j) * 3 + i % 3];
      }
      assert_int_equal(out.rgb.data()[i], std::clamp(sum >> taps.precision, 0, 255));
    }
    // A picture w pixels wide, only its height changed: the other loop with every tail length.
    const Bytes tall = lcg_bytes(size_t{w} * 3 * 11, w);
    const AxisTaps down = make_axis_taps(11, 5, Filter::kBilinear);
    const Picture shrunk = resized(tall, 11, w, 5, w, Filter::kBilinear);
    for (size_t y = 0; y < 5; ++y) {
      for (size_t x = 0; x < size_t{w} * 3; ++x) {
        int32_t sum = 1 << (down.precision - 1);
        for (size_t j = 0; j < down.count[y]; ++j) {
          sum += down.weights[y * down.max_taps + j] * tall[(down.first[y] + j) * w * 3 + x];
        }
        assert_int_equal(shrunk.row(y)[x], std::clamp(sum >> down.precision, 0, 255));
      }
    }
  }
}

void test_properties(void**) {
  for (const Filter filter : {Filter::kBilinear, Filter::kBicubic}) {
    for (const uint8_t value : {uint8_t{0}, uint8_t{255}}) {
      const Picture out = resized(Bytes(31 * 17 * 3, value), 31, 17, 50, 9, filter);
      for (size_t i = 0; i < 50 * 9 * 3; ++i) assert_int_equal(out.rgb.data()[i], value);
    }
    const Picture point = resized({1, 2, 3}, 1, 1, 1008, 1008, filter);
    assert_int_equal(point.row(1007)[3023], 3);
  }
  const Bytes same = lcg_bytes(20 * 10 * 3);
  assert_memory_equal(resized(same, 20, 10, 20, 10, Filter::kBicubic).rgb.data(), same.data(),
                      same.size());
  // Padded rows give what tight rows give.
  Bytes padded;
  for (size_t y = 0; y < 20; ++y) {
    const auto row = same.begin() + static_cast<std::ptrdiff_t>(y * 30);
    padded.insert(padded.end(), row, row + 30);
    padded.insert(padded.end(), 7, 0xEE);
  }
  for (const auto& [h, w] : std::vector<std::array<uint32_t, 2>>{{33, 44}, {20, 5}, {9, 10}}) {
    assert_int_equal(crc(resized(padded, 20, 10, h, w, Filter::kBilinear, 1, 37)),
                     crc(resized(same, 20, 10, h, w, Filter::kBilinear)));
  }
  Call call;
  assert_false(resize_rgb(call, {same.data(), 10, 20, 30}, 0, 5, Filter::kBilinear).ok());
  assert_false(resize_rgb(call, {}, 5, 5, Filter::kBilinear).ok());
}

void test_normalisation(void**) {
  const auto fused = make_normalize_table({});
  Normalization only_rescale;
  only_rescale.normalize = false;
  const auto plain = make_normalize_table(only_rescale);
  assert_true(fused.ok() && plain.ok());
  const std::array<std::array<uint32_t, 3>, 9> rows = {{{0, 0xbf800000, 0x00000000},
                                                        {1, 0xbf7dfdfe, 0x3b808081},
                                                        {2, 0xbf7bfbfc, 0x3c008081},
                                                        {64, 0xbefefeff, 0x3e808081},
                                                        {127, 0xbb808081, 0x3efeff00},
                                                        {128, 0x3b808081, 0x3f008081},
                                                        {200, 0x3f119192, 0x3f48c8ca},
                                                        {254, 0x3f7dfdfe, 0x3f7eff00},
                                                        {255, 0x3f800000, 0x3f800000}}};
  for (const auto& row : rows) {
    assert_int_equal(std::bit_cast<uint32_t>(fused.value()[1][row[0]]), row[1]);
    assert_int_equal(std::bit_cast<uint32_t>(plain.value()[2][row[0]]), row[2]);
  }
  Call call;
  const Bytes rgb = {0, 1, 2, 255, 254, 200};
  float planar[6];
  assert_true(normalize_planar(call, {rgb.data(), 2, 1, 6}, fused.value(), planar).ok());
  assert_true(planar[0] == -1.0f && planar[1] == 1.0f);
  assert_int_equal(std::bit_cast<uint32_t>(planar[5]), 0x3f119192);
  Normalization wrong;
  wrong.std_dev[1] = 0.0;
  assert_false(make_normalize_table(wrong).ok());
  wrong.std_dev[1] = std::nan("");
  assert_false(make_normalize_table(wrong).ok());
}

void test_pixel_layouts(void**) {
  const AlphaRule drop;
  AlphaRule over;
  over.mode = AlphaMode::kOverColour;
  const auto first = [](const Bytes& pixels, PixelFormat format, const AlphaRule& alpha) {
    auto picture = from_pixels(pixels, format, 1, 1, 0, alpha, {});
    assert_true(picture.ok());
    const uint8_t* p = picture.value().row(0);
    return Bytes{p[0], p[1], p[2]};
  };
  assert_true(first({255, 1, 2}, PixelFormat::kRgb, drop) == Bytes({255, 1, 2}));
  assert_true(first({2, 1, 255}, PixelFormat::kBgr, drop) == Bytes({255, 1, 2}));
  assert_true(first({10, 20, 30, 128}, PixelFormat::kRgba, drop) == Bytes({10, 20, 30}));
  assert_true(first({10, 20, 30, 128}, PixelFormat::kRgba, over) == Bytes({132, 137, 142}));
  assert_true(first({30, 20, 10, 128}, PixelFormat::kBgra, over) == Bytes({132, 137, 142}));
  assert_true(first({77}, PixelFormat::kGrey, over) == Bytes({77, 77, 77}));
  const Bytes rows = {1, 2, 9, 3, 4};  // 2x2 grey, stride 3; the last row ends without padding
  auto padded = from_pixels(rows, PixelFormat::kGrey, 2, 2, 3, drop, {});
  assert_true(padded.ok());
  assert_int_equal(padded.value().row(1)[3], 4);
  const auto refused = [&](PixelFormat format, uint32_t w, uint32_t h, size_t stride) {
    const auto result = from_pixels(rows, format, w, h, stride, drop, {});
    assert_false(result.ok());
    assert_int_equal(result.status().code(), Code::kInvalidArgument);
  };
  refused(PixelFormat::kGrey, 2, 3, 3);
  refused(PixelFormat::kGrey, 2, 2, 1);
  refused(PixelFormat::kGrey, 0, 2, 3);
  refused(static_cast<PixelFormat>(7), 1, 1, 0);
  refused(PixelFormat::kRgb, 1, 1 << 20, SIZE_MAX / 2);
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(test_whole_pictures), cmocka_unit_test(test_taps),
      cmocka_unit_test(test_rows),           cmocka_unit_test(test_vector_loops),
      cmocka_unit_test(test_properties),     cmocka_unit_test(test_normalisation),
      cmocka_unit_test(test_pixel_layouts),
  };
  return cmocka_run_group_tests_name("image/resize", tests, nullptr, nullptr);
}

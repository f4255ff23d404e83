// SPDX-License-Identifier: Apache-2.0
// Mask resize and thresholds, COCO runs and strings, outlines, overlays.
#include "image/mask.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "core/threads.h"
#include "image/overlay.h"
#include "image/polygon.h"
#include "image/rle.h"
#include "picture_maker.h"

namespace {

using npuseg::core::Call;
using npuseg::core::Code;
using npuseg::test::Bytes;
using npuseg::test::lcg_bytes;
using namespace npuseg::image;

std::vector<float> resized(const std::vector<float>& map, uint32_t h, uint32_t w, uint32_t out_h,
                           uint32_t out_w) {
  Call call;
  const auto resizer =
      MaskResizer::make({map.data(), h, w, w}, out_w, out_h, MaskResizer::Values::kPlain);
  assert_true(resizer.ok());
  std::vector<float> out(size_t{out_h} * out_w);
  assert_true(resizer.value().floats(call, out.data(), out_w).ok());
  return out;
}

void near(const std::vector<float>& got, const std::vector<double>& expected) {
  assert_true(got.size() >= expected.size());
  for (size_t i = 0; i < expected.size(); ++i) assert_true(std::abs(got[i] - expected[i]) < 1e-6);
}

void test_examples(void**) {
  const std::vector<float> two = {0, 1, 2, 3};
  near(resized(two, 2, 2, 4, 4),
       {0, .25, .75, 1, .5, .75, 1.25, 1.5, 1.5, 1.75, 2.25, 2.5, 2, 2.25, 2.75, 3});
  near(resized(two, 2, 2, 3, 3), {0, .5, 1, 1, 1.5, 2, 2, 2.5, 3});
  near(resized(two, 2, 2, 1, 1), {1.5});
  near(resized(two, 2, 2, 5, 2), {0, 1, .2, 1.2, 1, 2, 1.8, 2.8, 2, 3});
  std::vector<float> sixteen;
  for (int i = 0; i < 16; ++i) sixteen.push_back(static_cast<float>(i));
  near(resized(sixteen, 4, 4, 2, 2), {2.5, 4.5, 10.5, 12.5});
  near(resized(sixteen, 4, 4, 1, 1), {7.5});
  near(resized(sixteen, 4, 4, 6, 6), {0, .5, 7.0 / 6, 11.0 / 6, 2.5, 3});
  std::vector<float> big;
  for (const uint8_t v : lcg_bytes(288 * 288)) big.push_back(static_cast<float>(v) * 0.1f);
  assert_true(resized(big, 288, 288, 288, 288) == big);
}

void test_thresholds(void**) {
  Call call;
  for (const float logit : {0.0f, -1e-7f}) {
    const std::vector<float> map(64, logit);
    const auto resizer = MaskResizer::make({map.data(), 8, 8, 8}, 100, 50);
    assert_true(resizer.ok());
    Bytes mask(5000, 1);
    uint64_t area = 7;
    assert_true(resizer.value().bytes(call, 0.5f, mask.data(), 100, &area).ok());
    assert_int_equal(area, 0);
    assert_true(mask == Bytes(5000, 0));
    const auto runs = resizer.value().runs(call, 0.5f);
    assert_true(runs.ok());
    assert_true(runs.value().counts == std::vector<uint32_t>{5000});
  }
  // Sigmoid first, resize second: at the middle of a step from -10 to +1 the mean probability is
  // below one half, the mean logit is far below zero; near the +1 side the orders disagree.
  const std::vector<float> step = {-10.0f, 1.0f};
  const auto resizer = MaskResizer::make({step.data(), 1, 2, 2}, 100, 1);
  assert_true(resizer.ok());
  Bytes mask(100);
  uint64_t probability_first = 0;
  assert_true(resizer.value().bytes(call, 0.5f, mask.data(), 100, &probability_first).ok());
  const auto logits =
      MaskResizer::make({step.data(), 1, 2, 2}, 100, 1, MaskResizer::Values::kPlain);
  assert_true(logits.ok());
  uint64_t logits_first = 0;
  assert_true(logits.value().bytes(call, 0.0f, mask.data(), 100, &logits_first).ok());
  assert_true(probability_first > 25 && probability_first != logits_first);
  assert_false(MaskResizer::make({step.data(), 1, 2, 2}, 0, 1).ok());
}

// Bytes and runs are two ways to the same mask, whatever the values and threads.
void test_runs_equal_bytes(void**) {
  const std::vector<std::array<uint32_t, 4>> sizes = {
      {1, 1, 5, 7}, {7, 9, 64, 65}, {30, 20, 10, 11}, {16, 16, 16, 40}, {24, 24, 333, 24}};
  for (const auto& [h, w, out_h, out_w] : sizes) {
    std::vector<float> map;
    for (const uint8_t v : lcg_bytes(size_t{h} * w)) map.push_back((v - 128.0f) / 16.0f);
    if (h > 8) map[5] = NAN;
    for (const int threads : {1, 3}) {
      Call::Options options;
      options.threads = threads;
      Call call(options);
      const auto resizer = MaskResizer::make({map.data(), h, w, w}, out_w, out_h);
      assert_true(resizer.ok());
      for (const float threshold : {0.0f, 0.3f, 0.5f, 0.9f}) {
        Bytes mask(size_t{out_h} * (out_w + 3));
        uint64_t area = 0;
        assert_true(resizer.value().bytes(call, threshold, mask.data(), out_w + 3, &area, 1).ok());
        const auto from_bytes = rle_from_mask(mask.data(), out_w + 3, out_h, out_w);
        const auto runs = resizer.value().runs(call, threshold);
        assert_true(from_bytes.ok() && runs.ok());
        assert_true(runs.value().counts == from_bytes.value().counts);
        assert_int_equal(rle_area(runs.value()), area);
      }
    }
  }
}

void expect_rle(uint32_t h, uint32_t w, const std::vector<uint32_t>& counts, const char* text,
                uint64_t area, const std::array<uint32_t, 4>& box) {
  const auto rle = rle_from_counts(counts, h, w);
  assert_true(rle.ok());
  assert_string_equal(rle_to_string(rle.value()).c_str(), text);
  assert_int_equal(rle_area(rle.value()), area);
  assert_true(rle_bbox(rle.value()) == box);
  const auto back = rle_from_string(text, h, w);
  assert_true(back.ok());
  assert_true(back.value().counts == counts);
  Bytes mask(size_t{h} * w);
  assert_true(rle_to_mask(back.value(), mask.data(), w).ok());
  const auto again = rle_from_mask(mask.data(), w, h, w);
  assert_true(again.ok());
  assert_true(again.value().counts == counts);
}

void test_coco_table(void**) {
  expect_rle(2, 3, {6}, "6", 0, {0, 0, 0, 0});
  expect_rle(2, 3, {0, 6}, "06", 6, {0, 0, 3, 2});
  expect_rle(1, 1, {1}, "1", 0, {0, 0, 0, 0});
  expect_rle(1, 1, {0, 1}, "01", 1, {0, 0, 1, 1});
  expect_rle(3, 4, {0, 1, 11}, "01;", 1, {0, 0, 1, 1});
  expect_rle(3, 4, {11, 1}, ";1", 1, {3, 2, 1, 1});
  expect_rle(3, 4, {4, 1, 2, 1, 4}, "41202", 2, {1, 1, 2, 1});
  expect_rle(4, 4, {5, 2, 2, 2, 5}, "52203", 4, {1, 1, 2, 2});
  expect_rle(4, 4, {1, 1, 1, 2, 1, 1, 2, 1, 1, 2, 1, 1, 1}, "11110O10O10O0", 8, {0, 0, 4, 4});
  expect_rle(5, 6, {9, 2, 19}, "92c0", 2, {1, 0, 2, 5});
  expect_rle(1008, 1008, {1016064}, "PXPo0", 0, {0, 0, 0, 0});
  expect_rle(1008, 1008, {0, 1016064}, "0PXPo0", 1016064, {0, 0, 1008, 1008});
  expect_rle(10, 10, {22, 3, 7, 3, 7, 3, 55}, "f037000`1", 9, {2, 2, 3, 3});
  expect_rle(10, 10, {11, 6, 4, 5, 5, 4, 6, 3, 7, 2, 8, 1, 38}, ";64O1O1O1O1On0", 21, {1, 1, 6, 6});
}

void test_bad_strings(void**) {
  const auto refused = [](const char* text, uint32_t h, uint32_t w, Code code) {
    const auto rle = rle_from_string(text, h, w);
    assert_false(rle.ok());
    assert_int_equal(rle.status().code(), code);
  };
  for (const char* text : {"/", "p", "X", "5", "7", "", "06\n", "hhhhhhhh0"}) {
    refused(text, 2, 3, Code::kCorruptData);
  }
  refused("0", 65536, 65536, Code::kLimitExceeded);
  refused("0", 0, 5, Code::kInvalidArgument);
  assert_true(check_rle_size(65535, 65535).ok());
  // Any short string: an error or runs that fit.
  uint32_t state = 5;
  for (int i = 0; i < 3000; ++i) {
    std::string text;
    for (int k = 0; k < 1 + i % 9; ++k) {
      state = state * 1664525u + 1013904223u;
      text += static_cast<char>(48 + (state >> 26));
    }
    const auto rle = rle_from_string(text, 40, 50);
    Bytes mask(2000);
    if (rle.ok()) assert_true(rle_to_mask(rle.value(), mask.data(), 50).ok());
  }
}

void test_crop(void**) {
  Bytes mask = lcg_bytes(30 * 40);
  for (uint8_t& p : mask) p = p < 100 ? 1 : 0;
  const auto rle = rle_from_mask(mask.data(), 40, 30, 40);
  assert_true(rle.ok());
  for (const auto& [x, y, w, h] :
       std::vector<std::array<uint32_t, 4>>{{0, 0, 40, 30}, {3, 5, 20, 11}, {39, 29, 1, 1}}) {
    const auto part = rle_crop(rle.value(), x, y, w, h);
    const auto direct = rle_from_mask(mask.data() + y * 40 + x, 40, h, w);
    assert_true(part.ok() && direct.ok());
    assert_true(part.value().counts == direct.value().counts);
  }
  assert_false(rle_crop(rle.value(), 1, 0, 40, 30).ok());
}

Rle drawn(const std::vector<std::string>& rows) {
  Bytes mask;
  for (const std::string& row : rows) {
    for (const char c : row) mask.push_back(c == '#' ? 1 : 0);
  }
  auto rle = rle_from_mask(mask.data(), rows[0].size(), static_cast<uint32_t>(rows.size()),
                           static_cast<uint32_t>(rows[0].size()));
  assert_true(rle.ok());
  return std::move(rle).value();
}

void test_rings(void**) {
  const auto square = mask_rings(drawn({"....", ".##.", ".##.", "...."}));
  assert_true(square.ok());
  assert_int_equal(square.value().size(), 1);
  assert_true(square.value()[0].points == std::vector<Point>({{1, 1}, {3, 1}, {3, 3}, {1, 3}}));
  const auto holed = mask_rings(drawn({"#####.#", "#...#..", "#.#.#..", "#...#..", "#####.#"}));
  assert_true(holed.ok());
  assert_int_equal(holed.value().size(), 5);
  assert_int_equal(holed.value()[0].area, 25);
  assert_true(holed.value()[1].hole);
  assert_int_equal(holed.value()[1].area, 9);
  assert_int_equal(holed.value()[1].parent, 0);
  assert_false(holed.value()[2].hole);
  assert_int_equal(mask_rings(drawn({"#.", ".#"})).value().size(), 2);
  assert_true(mask_rings(drawn({"..", ".."})).value().empty());
  // Random masks come back exactly, and areas add up.
  for (uint32_t size = 1; size < 40; ++size) {
    const uint32_t h = 1 + size * 7 % 23;
    Bytes mask = lcg_bytes(size_t{size} * h, size);
    for (uint8_t& p : mask) p = p < 60 + size * 4 ? 1 : 0;
    const auto rle = rle_from_mask(mask.data(), size, h, size);
    assert_true(rle.ok());
    const auto rings = mask_rings(rle.value());
    assert_true(rings.ok());
    const auto back = fill_rings(rings.value(), h, size);
    assert_true(back.ok());
    assert_true(back.value().counts == rle.value().counts);
    uint64_t area = 0;
    for (const Ring& ring : rings.value()) area += ring.hole ? 0 - ring.area : ring.area;
    assert_int_equal(area, rle_area(rle.value()));
  }
  Ring slanted;
  slanted.points = {{0, 0}, {2, 1}, {0, 1}};
  assert_false(fill_rings({slanted}, 5, 5).ok());
}

void test_overlay(void**) {
  const std::vector<std::array<uint32_t, 2>> sizes = {{1, 1}, {20, 20}, {3, 400}, {640, 480}};
  for (const auto& [w, h] : sizes) {
    auto made = Picture::make(w, h);
    assert_true(made.ok());
    Picture picture = std::move(made).value();
    std::fill_n(picture.rgb.data(), picture.stride() * h, uint8_t{90});
    const auto mask = rle_from_counts({0, w * h}, h, w);
    assert_true(mask.ok());
    std::vector<OverlayInstance> instances(3);
    for (uint32_t i = 0; i < 3; ++i) {
      instances[i].mask = i == 0 ? &mask.value() : nullptr;
      instances[i].box = {-5.0f, -1e30f, static_cast<float>(w) + 9.0f, static_cast<float>(h)};
      instances[i].label = "caf\xC3\xA9 \xFF 0.98 and a label that is longer than the picture";
      instances[i].colour_index = i * 50;
    }
    instances[2].box[0] = NAN;
    assert_true(draw_overlay(picture, instances).ok());
    bool changed = false;
    for (size_t i = 0; i < picture.stride() * h; ++i) changed |= picture.rgb.data()[i] != 90;
    assert_true(changed);
    const Rle other{h + 1, w, {w * (h + 1)}};
    instances[0].mask = &other;
    const auto refused = draw_overlay(picture, instances);
    assert_int_equal(refused.code(), Code::kInvalidArgument);
  }
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(test_examples),
      cmocka_unit_test(test_thresholds),
      cmocka_unit_test(test_runs_equal_bytes),
      cmocka_unit_test(test_coco_table),
      cmocka_unit_test(test_bad_strings),
      cmocka_unit_test(test_crop),
      cmocka_unit_test(test_rings),
      cmocka_unit_test(test_overlay),
  };
  return cmocka_run_group_tests_name("image/mask", tests, nullptr, nullptr);
}

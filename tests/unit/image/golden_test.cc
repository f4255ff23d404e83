// SPDX-License-Identifier: Apache-2.0
// Replays tests/oracle/image_cases.py: Pillow's pixels of 500 files, and resize, mask, table and
// run results of torchvision, torch and pycocotools.
//
// numbers.txt lines:
//   resize FILTER h w H W crc          bytes of the generator resized
//   mask h w H W crc area              generator bytes / 256, values resized, area above 0.5
//   normalize mean*3 std*3 crc         the three tables of 256 floats
//   rle skip h w cut area box*4 string pixels of the generator (after `skip`) below `cut`
#include <cstdio>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "core/threads.h"
#include "image/mask.h"
#include "image/normalize.h"
#include "image/picture.h"
#include "image/resize.h"
#include "image/rle.h"
#include "picture_maker.h"

namespace {

using npuseg::test::Bytes;
using npuseg::test::crc;
using npuseg::test::lcg_bytes;
namespace image = npuseg::image;

const std::string kFolder = NPUSEG_SOURCE_DIR "/tests/unit/image/golden/";

class Records {
 public:
  explicit Records(Bytes bytes) : bytes_(std::move(bytes)) {}
  [[nodiscard]] bool done() const { return at_ == bytes_.size(); }
  uint32_t number(size_t size) {
    assert_true(bytes_.size() - at_ >= size);
    uint32_t value = 0;
    for (size_t i = 0; i < size; ++i) value |= uint32_t{bytes_[at_ + i]} << (8 * i);
    at_ += size;
    return value;
  }
  Bytes take(size_t size) {
    assert_true(bytes_.size() - at_ >= size);
    const auto begin = bytes_.begin() + static_cast<std::ptrdiff_t>(at_);
    at_ += size;
    return {begin, begin + static_cast<std::ptrdiff_t>(size)};
  }

 private:
  Bytes bytes_;
  size_t at_ = 0;
};

void test_pictures(void**) {
  std::ifstream file(kFolder + "pictures.bin", std::ios::binary);
  assert_true(file.good());
  std::stringstream all;
  all << file.rdbuf();
  Records records(npuseg::test::bytes_of(all.str()));
  size_t count = 0;
  size_t stricter = 0;
  size_t laxer = 0;
  size_t wrong = 0;
  while (!records.done()) {
    const Bytes text = records.take(records.number(2));
    const std::string name(text.begin(), text.end());
    image::DecodeOptions options;
    if (records.number(1) != 0) options.alpha.mode = image::AlphaMode::kOverColour;
    options.apply_exif = records.number(1) != 0;
    const Bytes data = records.take(records.number(4));
    const uint32_t width = records.number(4);
    const uint32_t height = records.number(4);
    const uint32_t expected = records.number(4);
    const auto result = image::decode(data, options, name);
    ++count;
    if (width == 0) {
      if (result.ok()) {
        ++laxer;
        assert_true(name.starts_with("damaged"));
      }
      continue;
    }
    if (!result.ok()) {
      ++stricter;
      print_message("refused, Pillow accepts: %s\n", result.status().message().c_str());
      assert_true(name.starts_with("damaged"));
      continue;
    }
    const image::Picture& picture = result.value();
    if (picture.width != width || picture.height != height || crc(picture) != expected) {
      print_message("other pixels: %s\n", name.c_str());
      ++wrong;
    }
  }
  print_message("%zu files, %zu only refused here, %zu only accepted here\n", count, stricter,
                laxer);
  assert_int_equal(wrong, 0);
  assert_true(count > 400);
  assert_true(stricter <= count / 100);
}

std::vector<std::istringstream> lines_of(const std::string& kind) {
  std::ifstream file(kFolder + "numbers.txt");
  assert_true(file.good());
  std::vector<std::istringstream> found;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(kind + " ")) found.emplace_back(line.substr(kind.size() + 1));
  }
  assert_false(found.empty());
  return found;
}

void test_resize(void**) {
  npuseg::core::Call call;
  for (std::istringstream& line : lines_of("resize")) {
    std::string filter;
    uint32_t h = 0, w = 0, out_h = 0, out_w = 0, expected = 0;
    line >> filter >> h >> w >> out_h >> out_w >> std::hex >> expected;
    const Bytes pixels = lcg_bytes(size_t{h} * w * 3);
    const auto result = image::resize_rgb(
        call, {pixels.data(), w, h, size_t{w} * 3}, out_w, out_h,
        filter == "bilinear" ? image::Filter::kBilinear : image::Filter::kBicubic);
    assert_true(result.ok());
    assert_int_equal(crc(result.value()), expected);
  }
}

void test_masks(void**) {
  npuseg::core::Call call;
  for (std::istringstream& line : lines_of("mask")) {
    uint32_t h = 0, w = 0, out_h = 0, out_w = 0, expected = 0;
    uint64_t area = 0;
    line >> h >> w >> out_h >> out_w >> std::hex >> expected >> std::dec >> area;
    const Bytes pixels = lcg_bytes(size_t{h} * w);
    std::vector<float> values;
    for (const uint8_t p : pixels) values.push_back(static_cast<float>(p) / 256.0f);
    const auto resizer = image::MaskResizer::make({values.data(), h, w, w}, out_w, out_h,
                                                  image::MaskResizer::Values::kPlain);
    assert_true(resizer.ok());
    std::vector<float> out(size_t{out_h} * out_w);
    assert_true(resizer.value().floats(call, out.data(), out_w).ok());
    assert_int_equal(crc(out.data(), out.size() * sizeof(float)), expected);
    Bytes mask(out.size());
    uint64_t counted = 0;
    assert_true(resizer.value().bytes(call, 0.5f, mask.data(), out_w, &counted).ok());
    assert_int_equal(counted, area);
    const auto runs = resizer.value().runs(call, 0.5f);
    const auto same = image::rle_from_mask(mask.data(), out_w, out_h, out_w);
    assert_true(runs.ok() && same.ok());
    assert_true(runs.value().counts == same.value().counts);
  }
}

void test_normalize(void**) {
  for (std::istringstream& line : lines_of("normalize")) {
    image::Normalization how;
    for (double& v : how.mean) line >> v;
    for (double& v : how.std_dev) line >> v;
    uint32_t expected = 0;
    line >> std::hex >> expected;
    const auto table = image::make_normalize_table(how);
    assert_true(table.ok());
    assert_int_equal(crc(table.value().data(), sizeof table.value()), expected);
  }
}

void test_runs(void**) {
  for (std::istringstream& line : lines_of("rle")) {
    size_t skip = 0;
    uint32_t h = 0, w = 0, cut = 0;
    uint64_t area = 0;
    std::array<uint32_t, 4> box{};
    std::string expected;
    line >> skip >> h >> w >> cut >> area;
    for (uint32_t& v : box) line >> v;
    line >> expected;
    Bytes mask = lcg_bytes(size_t{h} * w, skip);
    for (uint8_t& p : mask) p = p < cut ? 255 : 0;
    const auto rle = image::rle_from_mask(mask.data(), w, h, w);
    assert_true(rle.ok());
    assert_string_equal(image::rle_to_string(rle.value()).c_str(), expected.c_str());
    assert_int_equal(image::rle_area(rle.value()), area);
    assert_true(image::rle_bbox(rle.value()) == box);
    const auto again = image::rle_from_string(expected, h, w);
    assert_true(again.ok());
    assert_true(again.value().counts == rle.value().counts);
    Bytes back(mask.size());
    assert_true(image::rle_to_mask(again.value(), back.data(), w).ok());
    assert_true(back == mask);
  }
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(test_pictures),  cmocka_unit_test(test_resize), cmocka_unit_test(test_masks),
      cmocka_unit_test(test_normalize), cmocka_unit_test(test_runs),
  };
  return cmocka_run_group_tests_name("image/golden", tests, nullptr, nullptr);
}

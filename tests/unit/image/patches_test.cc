// SPDX-License-Identifier: Apache-2.0
// The picture processor of EmbeddingGemma 2 against transformers (golden/patches.txt, made by
// tests/oracle/embeddinggemma2_images.py): sizes, pixels and positions bit for bit.
#include "image/patches.h"

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "core/threads.h"
#include "image/picture.h"
#include "picture_maker.h"

namespace {

namespace image = npuseg::image;
using npuseg::core::Call;
using npuseg::core::Code;
using npuseg::test::Bytes;
using npuseg::test::crc;
using npuseg::test::lcg_bytes;

struct Case {
  image::PatchRule rule;
  uint32_t width = 0;
  uint32_t height = 0;
  size_t out_width = 0;
  size_t out_height = 0;
};

bool read_case(std::istringstream* line, Case* out) {
  *line >> out->rule.max_soft_tokens >> out->rule.patch_size >> out->rule.pooling >> out->width >>
      out->height >> out->out_width >> out->out_height;
  return line->good() || line->eof();
}

void check_grid(const Case& c, const image::PatchGrid& grid) {
  assert_int_equal(grid.width * c.rule.patch_size, c.out_width);
  assert_int_equal(grid.height * c.rule.patch_size, c.out_height);
  assert_int_equal(grid.soft_tokens * c.rule.pooling * c.rule.pooling, grid.patches());
}

void check_picture(const Case& c, const image::RgbView& view, uint32_t pixels, uint32_t positions) {
  Call call;
  const auto made = image::make_patches(call, view, c.rule);
  assert_true(made.ok());
  check_grid(c, made.value().grid);
  assert_int_equal(crc(made.value().pixels.data(), made.value().pixels.bytes()), pixels);
  const std::vector<int64_t> places = image::patch_positions(made.value().grid);
  assert_int_equal(crc(places.data(), places.size() * sizeof(int64_t)), positions);
}

void test_reference(void**) {
  std::ifstream file(NPUSEG_SOURCE_DIR "/tests/unit/image/golden/patches.txt");
  assert_true(file.good());
  size_t sizes = 0;
  size_t pictures = 0;
  size_t files = 0;
  for (std::string text; std::getline(file, text);) {
    std::istringstream line(text);
    std::string kind;
    Case c;
    line >> kind;
    assert_true(read_case(&line, &c));
    if (kind == "size") {
      const auto grid = image::fit_patch_grid(c.width, c.height, c.rule);
      assert_true(grid.ok());
      check_grid(c, grid.value());
      ++sizes;
      continue;
    }
    uint32_t pixels = 0;
    uint32_t positions = 0;
    line >> pixels >> positions;
    if (kind == "rgb") {
      const Bytes rgb = lcg_bytes(size_t{c.width} * c.height * 3);
      check_picture(c, {rgb.data(), c.width, c.height, size_t{c.width} * 3}, pixels, positions);
      ++pictures;
      continue;
    }
    std::string hex;
    line >> hex;
    Bytes bytes;
    for (size_t i = 0; i + 1 < hex.size(); i += 2) {
      bytes.push_back(static_cast<uint8_t>(std::stoul(hex.substr(i, 2), nullptr, 16)));
    }
    const auto picture = image::decode(bytes, {}, "golden");
    assert_true(picture.ok());
    check_picture(c, picture.value().view(), pixels, positions);
    ++files;
  }
  assert_int_equal(sizes, 700);
  assert_int_equal(pictures, 22);
  assert_int_equal(files, 8);
}

// The order inside a patch and of patches, on a picture that is not resized.
void test_order(void**) {
  image::PatchRule rule;
  rule.max_soft_tokens = 2;
  rule.patch_size = 2;
  rule.pooling = 1;
  rule.rescale_factor = 1.0;
  const Bytes rgb = lcg_bytes(4 * 2 * 3 + 5);
  const size_t stride = 4 * 3 + 5;
  const image::RgbView view{rgb.data(), 4, 2, stride};
  Call call;
  const auto made = image::make_patches(call, view, rule);
  assert_true(made.ok());
  assert_true((made.value().grid == image::PatchGrid{2, 1, 2}));
  const float* at = made.value().pixels.data();
  for (size_t patch = 0; patch < 2; ++patch) {
    for (size_t y = 0; y < 2; ++y) {
      for (size_t i = 0; i < 6; ++i) {
        assert_true(*at++ == static_cast<float>(rgb[y * stride + patch * 6 + i]));
      }
    }
  }
}

void test_refusals(void**) {
  const auto code = [](uint32_t width, uint32_t height, const image::PatchRule& rule) {
    return static_cast<int>(image::fit_patch_grid(width, height, rule).status().code());
  };
  const image::PatchRule rule;
  assert_int_equal(code(0, 5, rule), static_cast<int>(Code::kInvalidArgument));
  assert_int_equal(code(5, 0, rule), static_cast<int>(Code::kInvalidArgument));
  assert_int_equal(code(1, 1, {0, 16, 3, 1.0}), static_cast<int>(Code::kInvalidArgument));
  assert_int_equal(code(1, 1, {280, 0, 3, 1.0}), static_cast<int>(Code::kInvalidArgument));
  assert_int_equal(code(1, 1, {280, 16, 1000, 1.0}), static_cast<int>(Code::kInvalidArgument));
  // The largest picture there can be is still cut to the budget.
  const auto widest = image::fit_patch_grid(UINT32_MAX, 1, rule);
  assert_true(widest.ok());
  assert_true((widest.value() == image::PatchGrid{840, 3, 280}));
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(test_reference),
      cmocka_unit_test(test_order),
      cmocka_unit_test(test_refusals),
  };
  return cmocka_run_group_tests_name("image patches", tests, nullptr, nullptr);
}

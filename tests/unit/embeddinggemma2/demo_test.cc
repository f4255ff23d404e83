// SPDX-License-Identifier: Apache-2.0
// The demonstration model (demo/embeddinggemma2) on its sample pictures and texts, against the
// vectors of transformers' float32 run that lie beside it. Token ids are those of the file; pixels
// are resized and cut into patches here.
//
// Bound: the reference's own rounding is not in the file; 1e-6 is about twice the largest
// float32 error of torch on models of this depth (stages_test.cc).
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "core/file.h"
#include "core/json.h"
#include "image/picture.h"
#include "image/resize.h"
// Behind all others.
#include "gemma_fixture.h"

namespace {

using namespace npuseg::test;
using namespace npuseg::embeddinggemma2;
using npuseg::core::Call;
using npuseg::core::JsonValue;
using npuseg::core::Matrix;

constexpr double kBound = 1e-6;
constexpr size_t kBudget = 70;

const std::string kFolder = std::string(NPUSEG_SOURCE_DIR) + "/demo/embeddinggemma2";

std::vector<double> numbers(const JsonValue& array) {
  std::vector<double> out;
  must(array.for_each_element([&](const JsonValue& value) {
    double number = 0;
    assert_true(value.get(&number));
    out.push_back(number);
    return npuseg::core::ok_status();
  }));
  return out;
}

struct Pixels {
  std::vector<float> values;
  Patches patches;
};

// Spec section 8: sides that fill the budget, bicubic, patches with the channel fastest.
Pixels read_patches(const std::string& path, const EmbeddingGemma2Config& config, Call& call) {
  const auto file = must(npuseg::core::MappedFile::open(path));
  const auto picture = must(npuseg::image::decode(file.bytes(), {}, path));
  const size_t side = config.vision->patch_size;
  const size_t unit = side * config.vision->pooling;
  const double pixels = static_cast<double>(kBudget * unit * unit);
  const double factor = std::sqrt(
      pixels / (static_cast<double>(picture.height) * static_cast<double>(picture.width)));
  const auto fit = [&](uint32_t length) {
    return static_cast<size_t>(
               std::floor(factor * static_cast<double>(length) / static_cast<double>(unit))) *
           unit;
  };
  const size_t width = fit(picture.width);
  const size_t height = fit(picture.height);
  const auto resized = must(
      npuseg::image::resize_rgb(call, picture.view(), static_cast<uint32_t>(width),
                                static_cast<uint32_t>(height), npuseg::image::Filter::kBicubic));
  Pixels out;
  const size_t across = width / side;
  const size_t down = height / side;
  for (size_t patch = 0; patch < across * down; ++patch) {
    for (size_t y = 0; y < side; ++y) {
      const uint8_t* row = resized.row(patch / across * side + y) + patch % across * side * 3;
      for (size_t i = 0; i < 3 * side; ++i) {
        out.values.push_back(static_cast<float>(row[i]) * static_cast<float>(0.00392156862745098));
      }
    }
  }
  out.patches = {
      {out.values.data(), across * down, 3 * side * side, 3 * side * side}, across, down};
  return out;
}

double g_worst = 0;

void check(const std::string& what, const float* got, const std::vector<double>& want) {
  double dot = 0;
  double squares = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    const double off = std::fabs(static_cast<double>(got[i]) - want[i]);
    if (!(off <= kBound)) {
      print_error("%s [%zu]: got %.9g, want %.9g\n", what.c_str(), i, static_cast<double>(got[i]),
                  want[i]);
      fail();
    }
    g_worst = std::max(g_worst, off);
    dot += static_cast<double>(got[i]) * want[i];
    squares += want[i] * want[i];
  }
  assert_true(dot / std::sqrt(squares) >= 0.999999);
}

void test_demo(void**) {
  Call call;
  const GemmaPtr model = must(Model::load(kFolder, {}, call));
  const auto& config = model->config();
  const auto document =
      must(npuseg::core::JsonDocument::load(kFolder + "/samples/expected.json", size_t{1} << 20));
  std::vector<std::string> names;
  std::vector<std::vector<double>> want;
  std::vector<Matrix> soft;
  std::vector<std::vector<int64_t>> ids;
  must(document.root()["pictures"].for_each_element([&](const JsonValue& item) {
    std::string_view file;
    double count = 0;
    assert_true(item["file"].get(&file) && item["soft_tokens"].get(&count));
    names.emplace_back(file);
    const Pixels pixels = read_patches(kFolder + "/samples/" + names.back(), config, call);
    soft.push_back(must(encode_picture(*model, call, pixels.patches, nullptr)));
    assert_int_equal(soft.back().rows(), static_cast<size_t>(count));
    want.push_back(numbers(item["embedding"]));
    return npuseg::core::ok_status();
  }));
  must(document.root()["texts"].for_each_element([&](const JsonValue& item) {
    std::string_view text;
    assert_true(item["text"].get(&text));
    names.emplace_back(text);
    std::vector<int64_t> row;
    for (const double id : numbers(item["input_ids"])) row.push_back(static_cast<int64_t>(id));
    ids.push_back(row);
    want.push_back(numbers(item["embedding"]));
    return npuseg::core::ok_status();
  }));
  assert_true(!soft.empty() && !ids.empty());

  const std::vector<int64_t> before{2, config.boi_token_id};
  const std::vector<int64_t> after{config.eoi_token_id, 1};
  std::vector<Sequence> inputs;
  for (const Matrix& tokens : soft) {
    inputs.push_back({Part{before, {}}, Part{{}, tokens.view()}, Part{after, {}}});
  }
  for (const auto& row : ids) inputs.push_back({Part{row, {}}});
  const Matrix got = must(embed(*model, call, inputs, nullptr));
  for (size_t i = 0; i < inputs.size(); ++i) {
    assert_int_equal(want[i].size(), config.text.embedding_dim);
    check(names[i], got.view().row(i), want[i]);
  }
  print_message("largest difference %.2g\n", g_worst);
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {cmocka_unit_test(test_demo)};
  return cmocka_run_group_tests_name("embeddinggemma2 demo model", tests, nullptr, nullptr);
}

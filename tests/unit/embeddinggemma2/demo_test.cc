// SPDX-License-Identifier: Apache-2.0
// The demonstration model (demo/embeddinggemma2) on its sample pictures and texts, against the
// vectors of transformers' float32 run that lie beside it. Token ids are those of the file.
//
// Bound: the reference's own rounding is not in the file; 1e-6 is about twice the largest
// float32 error of torch on models of this depth (stages_test.cc).
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "core/file.h"
#include "core/json.h"
#include "image/patches.h"
#include "image/picture.h"
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

npuseg::image::PatchedPicture read_patches(const std::string& path, const Model& model,
                                           Call& call) {
  npuseg::image::PatchRule rule;
  rule.max_soft_tokens = kBudget;
  rule.patch_size = model.config().vision->patch_size;
  rule.pooling = model.config().vision->pooling;
  const auto file = must(npuseg::core::MappedFile::open(path));
  const auto picture = must(npuseg::image::decode(file.bytes(), {}, path));
  return must(npuseg::image::make_patches(call, picture.view(), rule));
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
    const auto picture = read_patches(kFolder + "/samples/" + names.back(), *model, call);
    const Patches patches{picture.pixels.view(), picture.grid.width, picture.grid.height};
    soft.push_back(must(model->encode_picture(call, patches, nullptr)));
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
  const Matrix got = must(model->embed(call, inputs, nullptr));
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

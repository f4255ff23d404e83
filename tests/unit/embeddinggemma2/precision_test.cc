// SPDX-License-Identifier: Apache-2.0
// Weights held as bfloat16 and as 8-bit integers: how far the vectors are from those of the weights
// as stored, that they are the same bits alone, in a batch and on any number of threads, and what
// the copies cost.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "core/file.h"
#include "core/json.h"
#include "image/patches.h"
#include "image/picture.h"
#include "model/embeddinggemma2/weights.h"
// Behind all others.
#include "gemma_fixture.h"

namespace {

using namespace npuseg::test;
using namespace npuseg::embeddinggemma2;
using npuseg::core::Call;
using npuseg::core::Code;
using npuseg::core::DType;
using npuseg::core::JsonValue;
using npuseg::core::Matrix;
using npuseg::core::MemoryBudget;

// Of a trained model, as docs/exactness.md states.
constexpr double kBf16Cosine = 0.9999;
constexpr double kInt8Cosine = 0.999;
// Random weights pass rounding on less gently: about twice what is measured.
constexpr double kRandomBf16Cosine = 0.9997;
constexpr double kRandomInt8Cosine = 0.998;

// Rows of 160, 96, 40, 24 and 48 inputs: whole groups of a scale and cut ones.
constexpr const char* kConfig = R"({"model_type":"embedding_gemma2",
"image_token_id":7,"boi_token_id":5,"eoi_token_id":6,"audio_token_id":23,"boa_token_id":24,
"eoa_token_index":25,"video_token_id":26,"text_config":{"model_type":"embedding_gemma2_text",
"vocab_size":32,"hidden_size":160,"intermediate_size":300,"num_hidden_layers":4,
"num_attention_heads":4,"num_key_value_heads":1,"head_dim":24,"hidden_size_per_layer_input":40,
"embedding_dim":128,"sliding_window":4,"max_position_embeddings":64,"per_layer_config":{},
"layer_types":["sliding_attention","sliding_attention","sliding_attention","full_attention"]},
"vision_config":{"model_type":"gemma4_vision","hidden_size":96,"intermediate_size":130,
"num_hidden_layers":3,"num_attention_heads":3,"num_key_value_heads":3,"head_dim":32,
"patch_size":4,"pooling_kernel_size":2,"position_embedding_size":8}})";

// 8.4 million weights, nearly all of linear layers.
constexpr const char* kWideConfig = R"({"model_type":"embedding_gemma2",
"image_token_id":7,"boi_token_id":5,"eoi_token_id":6,"audio_token_id":23,"boa_token_id":24,
"eoa_token_index":25,"video_token_id":26,"text_config":{"model_type":"embedding_gemma2_text",
"vocab_size":4096,"hidden_size":512,"intermediate_size":2048,"num_hidden_layers":2,
"num_attention_heads":2,"num_key_value_heads":1,"head_dim":64,"hidden_size_per_layer_input":8,
"embedding_dim":128,"sliding_window":4,"max_position_embeddings":64,"per_layer_config":{},
"layer_types":["sliding_attention","full_attention"]}})";

bool is_linear(const GemmaTensor& tensor) {
  return tensor.shape.size() == 2 && !tensor.name.ends_with("embed_tokens.weight");
}

float to_bf16(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  bits = (bits + 0x7FFFu + ((bits >> 16) & 1u)) & 0xFFFF0000u;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

// Everything but the linear layers is a bfloat16 already.
std::vector<float> narrow_tables(const GemmaTensor& tensor) {
  auto values = stage_values(tensor);
  if (!is_linear(tensor)) {
    for (float& value : values) value = to_bf16(value);
  }
  return values;
}

struct Written {
  Written(const char* config, DType dtype, const GemmaRule& rule = stage_values) {
    assert_true(write_gemma_checkpoint(folder.path, config, dtype, rule));
  }
  [[nodiscard]] GemmaPtr load(WeightForm form, npuseg::core::MemoryBudgetPtr budget = {}) const {
    Model::Options options;
    options.form = form;
    options.budget = std::move(budget);
    Call call;
    return must(Model::load(folder.path, options, call));
  }
  Folder folder;
};

// Inputs of a model: texts, pictures, and both. Every model makes its own soft tokens.
struct Inputs {
  std::vector<Patches> pictures;
  std::vector<std::vector<int64_t>> texts;

  [[nodiscard]] std::vector<Matrix> soft(const Model& model, Call& call) const {
    std::vector<Matrix> all;
    for (const Patches& picture : pictures) {
      all.push_back(must(model.encode_picture(call, picture, nullptr)));
    }
    return all;
  }
  [[nodiscard]] std::vector<Sequence> sequences(const Model& model,
                                                const std::vector<Matrix>& soft) const {
    before_ = {2, model.config().boi_token_id};
    after_ = {model.config().eoi_token_id, 1};
    std::vector<Sequence> all;
    for (const auto& ids : texts) all.push_back({Part{ids, {}}});
    for (size_t p = 0; p < soft.size(); ++p) {
      Sequence sequence{Part{before_, {}}, Part{{}, soft[p].view()}, Part{after_, {}}};
      all.push_back(sequence);
      sequence.push_back(Part{texts[p % texts.size()], {}});
      all.push_back(sequence);
    }
    return all;
  }
  [[nodiscard]] Matrix vectors(const Model& model, int threads = 2) const {
    Call call(on_threads(threads));
    const std::vector<Matrix> made = soft(model, call);
    return must(model.embed(call, sequences(model, made), nullptr));
  }

 private:
  mutable std::vector<int64_t> before_;
  mutable std::vector<int64_t> after_;
};

struct TinyInputs : Inputs {
  TinyInputs() {
    for (const auto& [width, height] : {std::pair<size_t, size_t>{8, 8}, {4, 6}, {2, 2}}) {
      auto& values = pixels_.emplace_back();
      for (size_t i = 0; i < width * height * 48; ++i) {
        values.push_back(static_cast<float>((i * 7 + i / 5 * 11) % 256) / 255.0f);
      }
      pictures.push_back({{values.data(), width * height, 48, 48}, width, height});
    }
    for (int64_t length = 2; length < 26; length += 3) {
      std::vector<int64_t> ids{2};
      for (int64_t i = 0; i < length; ++i) ids.push_back(8 + (i * 5 + length) % 15);
      ids.push_back(1);
      texts.push_back(ids);
    }
  }

 private:
  std::vector<std::vector<float>> pixels_;
};

double least_cosine(const Matrix& a, const Matrix& b) {
  assert_int_equal(a.rows(), b.rows());
  double least = 1.0;
  for (size_t r = 0; r < a.rows(); ++r) {
    double dot = 0;
    for (size_t i = 0; i < a.cols(); ++i) {
      dot += static_cast<double>(a.view().row(r)[i]) * static_cast<double>(b.view().row(r)[i]);
    }
    least = dot <= least ? dot : least;
  }
  return least;
}

void check_cosines(const char* what, const Inputs& inputs, const Model& stored, const Model& bf16,
                   const Model& int8, double bf16_bound, double int8_bound) {
  const Matrix want = inputs.vectors(stored);
  const double b = least_cosine(want, inputs.vectors(bf16));
  const double i = least_cosine(want, inputs.vectors(int8));
  print_message("%s: 1 - cosine of %zu inputs at most %.2g (bf16), %.2g (int8)\n", what,
                want.rows(), 1.0 - b, 1.0 - i);
  assert_true(b >= bf16_bound);
  assert_true(i >= int8_bound);
  // The forms are in use.
  assert_true(i < 1.0 - 1e-9);
}

void test_cosines_tiny(void**) {
  const TinyInputs inputs;
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    const Written written(kConfig, dtype);
    check_cosines(npuseg::core::dtype_name(dtype), inputs, *written.load(WeightForm::kAsStored),
                  *written.load(WeightForm::kBf16), *written.load(WeightForm::kInt8),
                  kRandomBf16Cosine, kRandomInt8Cosine);
  }
}

// The demonstration model on its own samples.
void test_cosines_demo(void**) {
  const std::string folder = std::string(NPUSEG_SOURCE_DIR) + "/demo/embeddinggemma2";
  const auto load = [&](WeightForm form) {
    Model::Options options;
    options.form = form;
    Call call;
    return must(Model::load(folder, options, call));
  };
  const GemmaPtr stored = load(WeightForm::kAsStored);
  npuseg::image::PatchRule rule;
  rule.max_soft_tokens = 70;
  rule.patch_size = stored->config().vision->patch_size;
  rule.pooling = stored->config().vision->pooling;
  const auto document =
      must(npuseg::core::JsonDocument::load(folder + "/samples/expected.json", size_t{1} << 20));
  Call call;
  Inputs inputs;
  std::vector<npuseg::image::PatchedPicture> patched;
  must(document.root()["pictures"].for_each_element([&](const JsonValue& item) {
    std::string_view name;
    assert_true(item["file"].get(&name));
    const std::string path = folder + "/samples/" + std::string(name);
    const auto file = must(npuseg::core::MappedFile::open(path));
    const auto picture = must(npuseg::image::decode(file.bytes(), {}, path));
    patched.push_back(must(npuseg::image::make_patches(call, picture.view(), rule)));
    const auto& made = patched.back();
    inputs.pictures.push_back({made.pixels.view(), made.grid.width, made.grid.height});
    return npuseg::core::ok_status();
  }));
  must(document.root()["texts"].for_each_element([&](const JsonValue& item) {
    std::vector<int64_t> ids;
    must(item["input_ids"].for_each_element([&](const JsonValue& value) {
      double number = 0;
      assert_true(value.get(&number));
      ids.push_back(static_cast<int64_t>(number));
      return npuseg::core::ok_status();
    }));
    inputs.texts.push_back(ids);
    return npuseg::core::ok_status();
  }));
  assert_true(inputs.pictures.size() > 3 && inputs.texts.size() > 3);
  check_cosines("demo model", inputs, *stored, *load(WeightForm::kBf16), *load(WeightForm::kInt8),
                kBf16Cosine, kInt8Cosine);
}

void same_bits(const char* what, const Matrix& a, const Matrix& b) {
  assert_int_equal(a.rows(), b.rows());
  if (std::memcmp(a.data(), b.data(), a.rows() * a.cols() * sizeof(float)) != 0) {
    print_error("%s differ\n", what);
    fail();
  }
}

// A float32 file held in bfloat16 gives the bits of the same file converted to bfloat16, and that
// file is used as it is.
void test_bf16_is_the_converted_file(void**) {
  const TinyInputs inputs;
  const Written wide(kConfig, DType::kF32, narrow_tables);
  const Written narrow(kConfig, DType::kBF16, narrow_tables);
  const auto budget = std::make_shared<MemoryBudget>(SIZE_MAX);
  const GemmaPtr stored = narrow.load(WeightForm::kAsStored);
  const GemmaPtr held = narrow.load(WeightForm::kBf16, budget);
  assert_int_equal(budget->peak(), 0);
  assert_int_equal(held->weight_bytes(), stored->weight_bytes());
  const Matrix want = inputs.vectors(*stored);
  same_bits("mapped weights", want, inputs.vectors(*held));
  same_bits("copied weights", want, inputs.vectors(*wide.load(WeightForm::kBf16)));
}

void test_same_bits(void**) {
  const TinyInputs inputs;
  const Written written(kConfig, DType::kF32);
  for (const WeightForm form : {WeightForm::kBf16, WeightForm::kInt8}) {
    const GemmaPtr model = written.load(form);
    const Matrix want = inputs.vectors(*model, 1);
    for (const int threads : {2, 3}) {
      same_bits("vectors of more threads", want, inputs.vectors(*model, threads));
    }
    Call call(on_threads(2));
    const std::vector<Matrix> soft = inputs.soft(*model, call);
    const std::vector<Sequence> sequences = inputs.sequences(*model, soft);
    for (size_t s = 0; s < sequences.size(); ++s) {
      const Matrix alone = must(model->embed(call, {&sequences[s], 1}, nullptr));
      assert_memory_equal(alone.data(), want.view().row(s), want.cols() * sizeof(float));
    }
  }
}

void test_not_finite(void**) {
  for (const char* name : {"language_model.layers.1.mlp.down_proj.weight",
                           "language_model.embed_tokens.weight", "language_model.norm.weight"}) {
    const Written written(kConfig, DType::kF32, [&](const GemmaTensor& tensor) {
      auto values = stage_values(tensor);
      if (tensor.name == name) values[37] = NAN;
      return values;
    });
    for (const WeightForm form : {WeightForm::kBf16, WeightForm::kInt8}) {
      Model::Options options;
      options.form = form;
      options.budget = std::make_shared<MemoryBudget>(SIZE_MAX);
      Call call;
      const auto refused = Model::load(written.folder.path, options, call);
      assert_false(refused.ok());
      assert_int_equal(static_cast<int>(refused.status().code()),
                       static_cast<int>(Code::kCorruptData));
      for (const char* word : {name, "element 37", "(F32)"}) {
        assert_true(refused.status().message().find(word) != std::string::npos);
      }
      assert_int_equal(options.budget->used(), 0);
      if (std::string(name).find("down_proj") == std::string::npos) continue;
      // Unchecked, it shows in the stage that it spoils.
      options.check_weights = false;
      const GemmaPtr model = must(Model::load(written.folder.path, options, call));
      const std::vector<int64_t> ids{2, 9, 1};
      const std::vector<Sequence> inputs{{Part{ids, {}}}};
      const auto spoilt = model->embed(call, inputs, nullptr);
      assert_false(spoilt.ok());
      assert_true(spoilt.status().message().find("text encoder") != std::string::npos);
    }
  }
}

// Bytes of files below a folder that are resident in this process.
size_t resident_of(const std::string& folder) {
  std::ifstream maps("/proc/self/smaps");
  size_t bytes = 0;
  bool inside = false;
  for (std::string line; std::getline(maps, line);) {
    const size_t colon = line.find(": ");
    if (line.find('-') < line.find(' ')) inside = line.find(folder) != std::string::npos;
    if (inside && colon != std::string::npos && line.starts_with("Rss:")) {
      bytes += std::stoul(line.substr(colon + 1)) * 1024;
    }
  }
  return bytes;
}

std::string g_log;
void keep_log(void*, npuseg::core::LogLevel, const char*, const char* message) { g_log += message; }

void test_memory(void**) {
  const Written written(kWideConfig, DType::kF32);
  size_t linear_elements = 0;
  size_t linear_scales = 0;
  size_t other_bytes = 0;
  for (const GemmaTensor& tensor : gemma_tensors(
           must(npuseg::checkpoint::parse_embeddinggemma2_config(kWideConfig, "config.json")))) {
    if (is_linear(tensor)) {
      linear_elements += tensor.elements();
      linear_scales += tensor.shape[0] * ((tensor.shape[1] + 63) / 64);
    } else {
      other_bytes += tensor.elements() * sizeof(float);
    }
  }
  const size_t file = linear_elements * sizeof(float) + other_bytes;
  {
    const GemmaPtr model = written.load(WeightForm::kAsStored);
    assert_true(resident_of(written.folder.path) >= file);
    assert_int_equal(model->weight_bytes(), file);
    assert_string_equal(model->dtype(), "F32");
  }
  for (const WeightForm form : {WeightForm::kBf16, WeightForm::kInt8}) {
    const bool bf16 = form == WeightForm::kBf16;
    const size_t copies =
        bf16 ? 2 * linear_elements : linear_elements + linear_scales * sizeof(float);
    const auto budget = std::make_shared<MemoryBudget>(SIZE_MAX);
    Model::Options options;
    options.form = form;
    options.budget = budget;
    options.log = {keep_log, nullptr, npuseg::core::LogLevel::kInfo};
    g_log.clear();
    Call call;
    GemmaPtr model = must(Model::load(written.folder.path, options, call));
    assert_non_null(std::strstr(g_log.c_str(), bf16 ? "in BF16 (copies of" : "in I8 (copies of"));
    assert_int_equal(model->weight_bytes(), copies + other_bytes);
    assert_string_equal(model->dtype(), bf16 ? "BF16" : "I8");
    // Each tensor begins at a cache line.
    assert_true(budget->used() >= copies && budget->used() < copies + 64 * 64);
    // Of the file remain norms, pages that tensors share, and what is mapped around them.
    const size_t mapped = resident_of(written.folder.path);
    print_message("%s: %zu of %zu bytes of the file resident, %zu copied\n", bf16 ? "bf16" : "int8",
                  mapped, file, budget->used());
    assert_true(mapped + budget->used() < (bf16 ? file * 6 / 10 : file * 4 / 10));
    model.reset();
    assert_int_equal(budget->used(), 0);
    // One byte too few.
    options.budget = std::make_shared<MemoryBudget>(budget->peak() - 1);
    const auto refused = Model::load(written.folder.path, options, call);
    assert_false(refused.ok());
    assert_int_equal(static_cast<int>(refused.status().code()),
                     static_cast<int>(Code::kLimitExceeded));
    assert_true(refused.status().message().find("weights in") != std::string::npos);
    options.budget = std::make_shared<MemoryBudget>(budget->peak());
    assert_true(Model::load(written.folder.path, options, call).ok());
  }
}

void test_cancel(void**) {
  const Written written(kWideConfig, DType::kF32);
  Call::Options stop;
  static uint64_t total;
  stop.progress = [](void*, uint32_t, uint64_t, uint64_t of) -> int32_t {
    total = of;
    return 1;
  };
  Model::Options options;
  options.form = WeightForm::kInt8;
  options.check_weights = false;
  options.budget = std::make_shared<MemoryBudget>(SIZE_MAX);
  Call call(stop);
  const auto refused = Model::load(written.folder.path, options, call);
  assert_false(refused.ok());
  assert_int_equal(static_cast<int>(refused.status().code()), static_cast<int>(Code::kCancelled));
  assert_true(total > 1);
  assert_int_equal(options.budget->used(), 0);
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(test_cosines_tiny),
      cmocka_unit_test(test_cosines_demo),
      cmocka_unit_test(test_bf16_is_the_converted_file),
      cmocka_unit_test(test_same_bits),
      cmocka_unit_test(test_not_finite),
      cmocka_unit_test(test_memory),
      cmocka_unit_test(test_cancel),
  };
  return cmocka_run_group_tests_name("embeddinggemma2 precision", tests, nullptr, nullptr);
}

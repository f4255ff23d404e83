// SPDX-License-Identifier: Apache-2.0
// Opening checkpoints that are not whole, and inputs that a model cannot take: a status that names
// file, tensor, values and remedy, never a wrong vector.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

// Behind all others.
#include "gemma_fixture.h"

namespace {

using namespace npuseg::test;
using namespace npuseg::embeddinggemma2;
using npuseg::core::Call;
using npuseg::core::Code;
using npuseg::core::DType;
using npuseg::core::Matrix;

constexpr const char* kConfig = R"({"model_type":"embedding_gemma2",
"image_token_id":7,"boi_token_id":5,"eoi_token_id":6,"audio_token_id":23,"boa_token_id":24,
"eoa_token_index":25,"video_token_id":26,"text_config":{"model_type":"embedding_gemma2_text",
"vocab_size":32,"hidden_size":16,"intermediate_size":32,"num_hidden_layers":2,
"num_attention_heads":2,"num_key_value_heads":1,"head_dim":8,"hidden_size_per_layer_input":8,
"embedding_dim":12,"sliding_window":4,"max_position_embeddings":64,"per_layer_config":{},
"layer_types":["sliding_attention","full_attention"]},
"vision_config":{"model_type":"gemma4_vision","hidden_size":32,"intermediate_size":64,
"num_hidden_layers":1,"num_attention_heads":2,"num_key_value_heads":2,"head_dim":16,
"patch_size":4,"pooling_kernel_size":2,"position_embedding_size":8}})";

// A folder with the whole model, whose tensors the test may change before they are written.
class Checkpoint {
 public:
  Checkpoint()
      : tensors(gemma_tensors(
            must(npuseg::checkpoint::parse_embeddinggemma2_config(kConfig, "config.json")))) {}

  GemmaTensor& find(const std::string& name) {
    const auto at = std::find_if(tensors.begin(), tensors.end(),
                                 [&](const GemmaTensor& t) { return t.name == name; });
    assert_true(at != tensors.end());
    return *at;
  }
  void remove(const std::string& name) {
    find(name).name.clear();
    std::erase_if(tensors, [](const GemmaTensor& t) { return t.name.empty(); });
  }
  npuseg::core::Result<GemmaPtr> load(const Model::Options& options = {},
                                      const GemmaRule& rule = stage_values) const {
    const Folder folder;
    std::ofstream(folder.path + "/config.json", std::ios::binary) << kConfig;
    assert_true(write_gemma_tensors(folder.path, tensors, DType::kF32, rule));
    Call call;
    return Model::load(folder.path, options, call);
  }

  std::vector<GemmaTensor> tensors;
};

template <class T>
void refused(const npuseg::core::Result<T>& result, Code code,
             std::initializer_list<const char*> words) {
  assert_false(result.ok());
  assert_int_equal(static_cast<int>(result.status().code()), static_cast<int>(code));
  for (const char* word : words) {
    if (result.status().message().find(word) == std::string::npos) {
      print_error("%s\nlacks: %s\n", result.status().message().c_str(), word);
      fail();
    }
  }
}

void test_missing(void**) {
  Checkpoint one;
  one.remove("language_model.layers.1.layer_scalar");
  refused(one.load(), Code::kCorruptData, {"language_model.layers.1.layer_scalar is missing"});
  Checkpoint many;
  std::erase_if(many.tensors,
                [](const GemmaTensor& t) { return t.name.starts_with("vision_tower."); });
  refused(many.load(), Code::kCorruptData,
          {"vision_tower.patch_embedder.input_proj.weight is missing", "and 12 more"});
  // Texts alone do not ask for the tower.
  Model::Options texts;
  texts.vision = false;
  const GemmaPtr model = must(many.load(texts));
  assert_false(model->config().vision.has_value());
}

void test_shape(void**) {
  Checkpoint checkpoint;
  checkpoint.find("language_model.layers.0.self_attn.q_proj.weight").shape = {8, 16};
  refused(checkpoint.load(), Code::kCorruptData,
          {"language_model.layers.0.self_attn.q_proj.weight", "[8, 16]", "[16, 16]"});
}

void test_not_finite(void**) {
  Checkpoint checkpoint;
  const auto damaged = [](const GemmaTensor& tensor) {
    auto values = stage_values(tensor);
    if (tensor.name == "language_model.layers.1.mlp.down_proj.weight") values[37] = NAN;
    return values;
  };
  refused(checkpoint.load({}, damaged), Code::kCorruptData,
          {"language_model.layers.1.mlp.down_proj.weight", "element 37"});
  // Unchecked, it shows in the stage that it spoils.
  Model::Options unchecked;
  unchecked.check_weights = false;
  const GemmaPtr model = must(checkpoint.load(unchecked, damaged));
  Call call;
  const std::vector<int64_t> ids{2, 9, 1};
  const std::vector<Sequence> inputs{{Part{ids, {}}}};
  refused(model->embed(call, inputs, nullptr), Code::kCorruptData, {"text encoder"});
}

std::string g_log;
void keep_log(void*, npuseg::core::LogLevel, const char*, const char* message) { g_log += message; }

// Audio is left alone without a word; what the config has no place for is named.
void test_surplus(void**) {
  Model::Options options;
  options.log = {keep_log, nullptr, npuseg::core::LogLevel::kWarn};
  Checkpoint audio;
  audio.tensors.push_back({"audio_tower.output_proj.weight", {4, 4}});
  audio.tensors.push_back({"embed_audio.embedding_projection.weight", {16, 4}});
  g_log.clear();
  const auto spoilt = [](const GemmaTensor& tensor) {
    auto values = stage_values(tensor);
    if (tensor.name.find("audio") != std::string::npos) values[0] = NAN;
    return values;
  };
  const GemmaPtr model = must(audio.load(options, spoilt));
  assert_string_equal(g_log.c_str(), "");
  assert_int_equal(model->weight_bytes(), must(Checkpoint().load())->weight_bytes());
  Checkpoint layer;
  layer.tensors.push_back({"language_model.layers.2.layer_scalar", {1}});
  must(layer.load(options));
  assert_non_null(std::strstr(g_log.c_str(), "language_model.layers.2.layer_scalar"));
}

void test_inputs(void**) {
  const GemmaPtr model = must(Checkpoint().load());
  Call call;
  const auto try_embed = [&](const Sequence& sequence) {
    const std::vector<int64_t> good{2, 1};
    const std::vector<Sequence> inputs{{Part{good, {}}}, sequence};
    return model->embed(call, inputs, nullptr);
  };
  refused(try_embed({}), Code::kInvalidArgument, {"input 1", "no tokens"});
  for (const int64_t id : {int64_t{-1}, int64_t{32}, INT64_MAX, INT64_MIN}) {
    const std::vector<int64_t> ids{2, id, 1};
    refused(try_embed({Part{ids, {}}}), Code::kInvalidArgument,
            {"input 1", std::to_string(id).c_str(), "32"});
  }
  const std::vector<int64_t> longest(64, 9);
  assert_true(try_embed({Part{longest, {}}}).ok());
  const std::vector<int64_t> too_long(65, 9);
  refused(try_embed({Part{too_long, {}}}), Code::kLimitExceeded, {"65 tokens", "64"});
  const std::vector<float> soft(2 * 17);
  refused(try_embed({Part{{}, {soft.data(), 2, 17, 17}}}), Code::kInvalidArgument,
          {"17 values", "16"});
  refused(try_embed({Part{longest, {soft.data(), 2, 16, 16}}}), Code::kInvalidArgument,
          {"two parts"});
  const Matrix none = must(model->embed(call, {}, nullptr));
  assert_int_equal(none.rows(), 0);
}

void test_patches(void**) {
  const GemmaPtr model = must(Checkpoint().load());
  Call call;
  const std::vector<float> values(100 * 48, 0.5f);
  const auto encode = [&](size_t rows, size_t cols, size_t width, size_t height) {
    return model->encode_picture(call, {{values.data(), rows, cols, cols}, width, height}, nullptr);
  };
  assert_true(encode(64, 48, 8, 8).ok());
  refused(encode(0, 48, 0, 4), Code::kInvalidArgument, {"0 x 4"});
  refused(encode(6, 48, 3, 2), Code::kInvalidArgument, {"3 x 2", "multiples of 2"});
  refused(encode(20, 48, 10, 2), Code::kInvalidArgument, {"10 x 2", "to 8"});
  refused(encode(15, 48, 4, 4), Code::kInvalidArgument, {"15 patches", "16 of 48"});
  refused(encode(16, 47, 4, 4), Code::kInvalidArgument, {"47 values"});
  Model::Options texts;
  texts.vision = false;
  const GemmaPtr blind = must(Checkpoint().load(texts));
  refused(blind->encode_picture(call, {{values.data(), 16, 48, 48}, 4, 4}, nullptr),
          Code::kUnsupported, {"without its vision part"});
}

// A placeholder without its picture is embedded like padding, as the reference does.
void test_placeholder(void**) {
  const GemmaPtr model = must(Checkpoint().load());
  Call call;
  const std::vector<int64_t> placeholder{2, 7, 23, 26, 1};
  const std::vector<int64_t> padding{2, 0, 0, 0, 1};
  const std::vector<Sequence> inputs{{Part{placeholder, {}}}, {Part{padding, {}}}};
  const Matrix got = must(model->embed(call, inputs, nullptr));
  assert_memory_equal(got.view().row(0), got.view().row(1), 12 * sizeof(float));
}

void test_cancel_and_memory(void**) {
  const GemmaPtr model = must(Checkpoint().load());
  Call::Options options;
  options.progress = [](void*, uint32_t, uint64_t, uint64_t) -> int32_t { return 1; };
  Call stopped(options);
  const std::vector<int64_t> ids(40, 9);
  const std::vector<Sequence> inputs(200, {Part{ids, {}}});
  refused(model->embed(stopped, inputs, nullptr), Code::kCancelled, {});
  Model::Options small;
  small.budget = std::make_shared<npuseg::core::MemoryBudget>(10000);
  const GemmaPtr tight = must(Checkpoint().load(small));
  // Weights are mapped, not copied.
  assert_int_equal(small.budget->peak(), 0);
  Call call;
  refused(tight->embed(call, inputs, nullptr), Code::kLimitExceeded, {});
  assert_int_equal(small.budget->used(), 0);
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(test_missing),     cmocka_unit_test(test_shape),
      cmocka_unit_test(test_not_finite),  cmocka_unit_test(test_surplus),
      cmocka_unit_test(test_inputs),      cmocka_unit_test(test_patches),
      cmocka_unit_test(test_placeholder), cmocka_unit_test(test_cancel_and_memory),
  };
  return cmocka_run_group_tests_name("embeddinggemma2 loading", tests, nullptr, nullptr);
}

// SPDX-License-Identifier: Apache-2.0
// The configuration files of EmbeddingGemma 2: defaults, overrides per layer, the files of
// sentence-transformers, refusals that name key and value, other models recognised.
#include "checkpoint/embeddinggemma2_config.h"

#include <filesystem>
#include <string>

#include "checkpoint/model_kind.h"
#include "cmocka_cpp.h"
#include "core/file.h"

namespace {

using npuseg::checkpoint::EmbeddingGemma2Config;
using npuseg::checkpoint::parse_embeddinggemma2_config;
using npuseg::checkpoint::read_embeddinggemma2_config;
using npuseg::checkpoint::read_embeddinggemma2_processor_config;
using npuseg::checkpoint::read_sentence_config;
using npuseg::core::Code;
using npuseg::core::Status;

const std::string kDemo = NPUSEG_SOURCE_DIR "/demo/embeddinggemma2";

void expect_message(const Status& status, const std::string& word) {
  assert_false(status.ok());
  if (status.message().find(word) == std::string::npos) {
    print_message("%s\nlacks %s\n", status.message().c_str(), word.c_str());
    assert_true(false);
  }
}

std::string with(const std::string& members) {
  return "{\"model_type\":\"embedding_gemma2\"" + (members.empty() ? "" : "," + members) + "}";
}
std::string with_text(const std::string& members) {
  return with("\"text_config\":{" + members + "}");
}
std::string with_vision(const std::string& members) {
  return with("\"vision_config\":{" + members + "}");
}

EmbeddingGemma2Config parsed(const std::string& json) {
  auto result = parse_embeddinggemma2_config(json, "config.json");
  if (!result.ok()) print_message("%s\n", result.status().message().c_str());
  assert_true(result.ok());
  return std::move(result).value();
}

void expect_refused(const std::string& json, const std::string& word) {
  const auto result = parse_embeddinggemma2_config(json, "config.json");
  expect_message(result.status(), word);
  expect_message(result.status(), "config.json");
}

// A folder that goes away with the object.
class Folder {
 public:
  Folder() {
    char path[] = "/tmp/npuseg-gemma-XXXXXX";
    assert_non_null(mkdtemp(path));
    path_ = path;
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() { std::filesystem::remove_all(path_); }

  void write(const std::string& name, const std::string& text) const {
    const std::filesystem::path file = std::filesystem::path(path_) / name;
    std::filesystem::create_directories(file.parent_path());
    const auto* bytes = reinterpret_cast<const unsigned char*>(text.data());
    assert_true(npuseg::core::write_file_atomically(file, {bytes, text.size()}).ok());
  }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

void test_defaults(void**) {
  for (const char* members :
       {"", "\"text_config\":null,\"vision_config\":null", "\"text_config\":{}",
        "\"text_config\":{\"layer_types\":null,\"rope_parameters\":null}"}) {
    const EmbeddingGemma2Config config = parsed(with(members));
    assert_false(config.vision.has_value());
    assert_false(config.has_audio);
    assert_int_equal(config.text.layers, 24);
    for (size_t i = 0; i < 24; ++i) {
      const bool full = i % 6 == 5;
      assert_int_equal(config.text.is_full[i], full);
      assert_int_equal(config.text.q_width(i), full ? 2048 : 1024);
      assert_int_equal(config.text.kv_width(i), 512);
      assert_true(config.text.attention(i).rope_theta == (full ? 1e6 : 1e4));
    }
    assert_int_equal(config.text.sliding_window, 512);
    assert_int_equal(config.image_token_id, 258880);
  }
  const EmbeddingGemma2Config both = parsed(with("\"vision_config\":{},\"audio_config\":{}"));
  assert_true(both.vision.has_value());
  assert_true(both.has_audio);
  assert_int_equal(both.vision->patch_values(), 768);
  assert_int_equal(both.vision->position_rows, 10240);
}

void test_demo(void**) {
  const auto result = read_embeddinggemma2_config(kDemo);
  assert_true(result.ok());
  const EmbeddingGemma2Config& config = result.value();
  assert_int_equal(config.text.hidden_size, 96);
  assert_int_equal(config.text.layers, 4);
  assert_int_equal(config.text.q_width(2), 128);
  assert_int_equal(config.text.q_width(3), 256);
  assert_int_equal(config.text.attention(3).kv_heads, 1);
  assert_int_equal(config.text.sliding_window, 16);
  assert_int_equal(config.vision->pooling, 2);
  assert_int_equal(config.eoa_token_id, 1022);
  assert_int_equal(config.image_token_id, 1019);
  const auto processor = read_embeddinggemma2_processor_config(kDemo, config);
  assert_true(processor.ok());
  assert_int_equal(processor.value().max_soft_tokens, 70);
  assert_int_equal(processor.value().patch_size, 8);
  const auto sentence = read_sentence_config(kDemo, config);
  assert_true(sentence.ok());
  assert_int_equal(sentence.value().prompts.size(), 20);
  assert_string_equal(sentence.value().prompts.front().name.c_str(), "BitextMining");
  assert_string_equal(sentence.value().find_prompt("Document")->text.c_str(),
                      "title: none | text: ");
  assert_null(sentence.value().find_prompt("document "));
  assert_true(sentence.value().default_prompt.empty());
  assert_int_equal(sentence.value().max_tokens, 8192);
  assert_true((sentence.value().dims == std::vector<size_t>{128, 64, 32}));
}

void test_overrides(void**) {
  const std::string ten = "\"num_hidden_layers\":12,\"num_attention_heads\":4,";
  // Keys may be padded; what an override does not name is the model's.
  EmbeddingGemma2Config config = parsed(
      with_text(ten + "\"per_layer_config\":{\"05\":{\"head_dim\":64},\"11\":{\"head_dim\":64}}"));
  assert_int_equal(config.text.full.head_dim, 64);
  assert_int_equal(config.text.full.kv_heads, 2);
  config = parsed(with_text(ten + "\"per_layer_config\":{}"));
  assert_int_equal(config.text.full.head_dim, 256);
  config = parsed(with_text(ten + "\"per_layer_config\":null"));
  assert_int_equal(config.text.full.head_dim, 256);
  config = parsed(with_text(ten + "\"global_head_dim\":128,\"num_global_key_value_heads\":4"));
  assert_int_equal(config.text.full.head_dim, 128);
  assert_int_equal(config.text.full.kv_heads, 4);
  assert_int_equal(config.text.sliding.head_dim, 256);
  // The last layer is full whatever the list says.
  config = parsed(with_text(
      "\"num_hidden_layers\":2,\"layer_types\":[\"sliding_attention\",\"sliding_attention\"]"));
  assert_false(config.text.is_full[0]);
  assert_true(config.text.is_full[1]);
  config = parsed(with_text("\"num_hidden_layers\":6,\"sliding_window_pattern\":3"));
  assert_true(config.text.is_full[2] && config.text.is_full[5] && !config.text.is_full[3]);
  expect_refused(with_text(ten + "\"per_layer_config\":{\"5\":{\"head_dim\":64}}"), "layer 5");
  expect_refused(with_text(ten + "\"per_layer_config\":{\"12\":{\"head_dim\":64}}"), "12");
  expect_refused(with_text(ten + "\"per_layer_config\":{\"5\":{},\"05\":{}}"), "05");
  expect_refused(with_text(ten + "\"per_layer_config\":{\"-1\":{}}"), "-1");
  expect_refused(with_text(ten + "\"per_layer_config\":{\"x\":{}}"), "x");
  expect_refused(with_text(ten + "\"per_layer_config\":{\"11\":{\"skip\":[\"mlp\"]}}"), "skip");
  expect_refused(with_text(ten + "\"per_layer_config\":{\"11\":3}"), "11");
  expect_refused(with_text(ten + "\"per_layer_config\":[]"), "per_layer_config");
}

void test_rope(void**) {
  const std::string two = "\"sliding_attention\":{\"rope_type\":\"default\",\"rope_theta\":5},";
  const EmbeddingGemma2Config config =
      parsed(with_text("\"rope_parameters\":{" + two +
                       "\"full_attention\":{\"type\":\"default\",\"rope_theta\":7.5}}"));
  assert_true(config.text.sliding.rope_theta == 5.0);
  assert_true(config.text.full.rope_theta == 7.5);
  expect_refused(with_text("\"rope_parameters\":{" + two + "\"full_attention\":null}"),
                 "full_attention");
  expect_refused(with_text("\"rope_parameters\":{}"), "sliding_attention");
  expect_refused(with_text("\"rope_parameters\":{" + two + "\"full_attention\":{}}"), "rope_theta");
  expect_refused(with_text("\"rope_parameters\":{" + two +
                           "\"full_attention\":{\"rope_type\":\"proportional\",\"rope_theta\":1,"
                           "\"partial_rotary_factor\":0.25}}"),
                 "proportional");
  expect_refused(
      with_text("\"rope_parameters\":{" + two + "\"full_attention\":{\"rope_theta\":1e300}}"),
      "1e+300");
  assert_true(parsed(with_vision("\"rope_parameters\":null")).vision->rope_theta == 100.0);
  assert_true(parsed(with_vision("\"rope_parameters\":{\"rope_type\":\"default\","
                                 "\"rope_theta\":3}"))
                  .vision->rope_theta == 3.0);
  expect_refused(with_vision("\"rope_parameters\":{\"rope_type\":\"yarn\"}"), "yarn");
}

void test_refusals(void**) {
  expect_refused("[]", "object");
  expect_refused("{\"model_type\":\"sam3\"}", "SAM 3");
  expect_refused("{\"model_type\":\"gemma3_text\"}", "EmbeddingGemma 1");
  expect_refused("{}", "model_type");
  expect_refused(with_text("\"hidden_size\":-4"), "hidden_size");
  expect_refused(with_text("\"hidden_size\":\"512\""), "hidden_size");
  expect_refused(with_text("\"hidden_size\":65537"), "65536");
  expect_refused(with_text("\"num_hidden_layers\":0"), "num_hidden_layers");
  expect_refused(with_text("\"num_hidden_layers\":100000000"), "num_hidden_layers");
  expect_refused(with_text("\"num_attention_heads\":3"), "num_key_value_heads");
  expect_refused(with_text("\"head_dim\":255"), "head_dim");
  expect_refused(with_text("\"head_dim\":65536"), "head_dim");
  expect_refused(with_text("\"attention_bias\":true"), "attention_bias");
  expect_refused(with_text("\"hidden_activation\":\"gelu\""), "hidden_activation");
  expect_refused(with_text("\"vocab_size\":1000000000"), "vocab_size");
  expect_refused(with_text("\"vocab_size\":4,\"pad_token_id\":4"), "pad_token_id");
  expect_refused(with_text("\"layer_types\":[\"full_attention\"]"), "layer_types");
  expect_refused(with_text("\"layer_types\":[\"linear_attention\"]"), "layer_types");
  expect_refused(with_text("\"layer_types\":7"), "layer_types");
  expect_refused(with_text("\"model_type\":\"gemma3_text\""), "gemma3_text");
  expect_refused(with("\"text_config\":7"), "text_config");
  expect_refused(with_vision("\"model_type\":\"siglip_vision_model\""), "siglip");
  expect_refused(with_vision("\"head_dim\":6"), "multiple of 4");
  expect_refused(with_vision("\"num_key_value_heads\":5"), "num_key_value_heads");
  expect_refused(with_vision("\"use_clipped_linears\":true"), "use_clipped_linears");
  expect_refused(with_vision("\"standardize\":true"), "standardize");
  expect_refused(with_vision("\"patch_size\":0"), "patch_size");
  expect_refused(with_vision("\"pooling_kernel_size\":100000"), "pooling_kernel_size");
  expect_refused(with("\"vision_config\":{},\"image_token_id\":262144"), "image_token_id");
  expect_refused(with("\"vision_config\":{},\"image_token_id\":null"), "image_token_id");
  expect_refused(with("\"vision_config\":{},\"boi_token_id\":258880"), "image_token_id");
  // Without vision these ids mean nothing.
  assert_int_equal(parsed(with("\"image_token_id\":null")).image_token_id, -1);
}

void test_processor(void**) {
  const EmbeddingGemma2Config config = parsed(with_vision(""));
  const Folder folder;
  assert_int_equal(
      read_embeddinggemma2_processor_config(folder.path(), config).value().max_soft_tokens, 280);
  folder.write("preprocessor_config.json", "{\"max_soft_tokens\":1120}");
  assert_int_equal(
      read_embeddinggemma2_processor_config(folder.path(), config).value().max_soft_tokens, 1120);
  const auto refused = [&](const std::string& members, const std::string& word) {
    folder.write("processor_config.json", "{\"image_processor\":{" + members + "}}");
    expect_message(read_embeddinggemma2_processor_config(folder.path(), config).status(), word);
  };
  refused("\"max_soft_tokens\":281", "281");
  refused("\"max_soft_tokens\":0", "max_soft_tokens");
  refused("\"patch_size\":14", "14");
  refused("\"pooling_kernel_size\":2", "pooling_kernel_size");
  refused("\"do_normalize\":true", "do_normalize");
  refused("\"do_resize\":false", "do_resize");
  refused("\"resample\":2", "bicubic");
  refused("\"rescale_factor\":0", "rescale_factor");
}

void test_sentence_files(void**) {
  const EmbeddingGemma2Config config = parsed(with(""));
  const Folder folder;
  const auto read = [&] { return read_sentence_config(folder.path(), config); };
  assert_true(read().ok());
  assert_true((read().value().dims == std::vector<size_t>{768, 512, 256, 128}));
  const std::string old = "sentence_transformers.models.";
  const auto modules = [&](std::initializer_list<const char*> names) {
    std::string text = "[";
    size_t at = 0;
    for (const char* name : names) {
      text += (at == 0 ? "" : ",") + std::string("{\"idx\":0,\"path\":\"") +
              (at == 0 ? "" : std::to_string(at) + "_" + name) + "\",\"type\":\"" + old + name +
              "\"}";
      ++at;
    }
    folder.write("modules.json", text + "]");
  };
  modules({"Transformer", "Pooling", "Normalize"});
  expect_message(read().status(), "1_Pooling");
  folder.write("1_Pooling/config.json",
               "{\"word_embedding_dimension\":768,\"pooling_mode_mean_tokens\":true,"
               "\"pooling_mode_cls_token\":false}");
  assert_true(read().ok());
  modules({"Transformer", "Pooling", "Dense", "Normalize"});
  expect_message(read().status(), "Dense");
  modules({"Transformer"});
  expect_message(read().status(), "Pooling");
  modules({"Transformer", "Pooling"});
  assert_true(read().ok());
  for (const char* text : {"{\"pooling_mode\":\"cls\"}", "{\"pooling_mode\":[\"mean\",\"max\"]}",
                           "{\"pooling_mode_cls_token\":true}", "{\"include_prompt\":false}",
                           "{\"embedding_dimension\":512}"}) {
    folder.write("1_Pooling/config.json", text);
    expect_message(read().status(), "1_Pooling");
  }
  folder.write("1_Pooling/config.json", "{\"pooling_mode\":[\"mean\"]}");
  assert_true(read().ok());
  folder.write(
      "modules.json",
      "[{\"path\":\"\",\"type\":\"a.Transformer\"},{\"path\":\"..\",\"type\":\"Pooling\"}]");
  expect_message(read().status(), "..");
  folder.write("modules.json", "[]");
  expect_message(read().status(), "Pooling");
  modules({"Transformer", "Pooling"});

  folder.write("tokenizer_config.json", "{\"model_max_length\":1000000000000000000000000000000}");
  assert_int_equal(read().value().max_tokens, 8192);
  folder.write("tokenizer_config.json", "{\"model_max_length\":2048}");
  assert_int_equal(read().value().max_tokens, 2048);
  folder.write("sentence_bert_config.json", "{\"max_seq_length\":512}");
  assert_int_equal(read().value().max_tokens, 512);
  folder.write("sentence_bert_config.json", "{\"max_seq_length\":1}");
  expect_message(read().status(), "max_seq_length");
  folder.write("sentence_bert_config.json", "{\"do_lower_case\":true}");
  expect_message(read().status(), "do_lower_case");
  folder.write("sentence_bert_config.json", "{\"max_seq_length\":null}");

  const char* prompts = "config_sentence_transformers.json";
  folder.write(prompts, "{\"prompts\":{\"q\":\"x \",\"q\":\"y\"}}");
  expect_message(read().status(), "twice");
  folder.write(prompts, "{\"prompts\":{\"q\":7}}");
  expect_message(read().status(), "prompts.q");
  folder.write(prompts, "{\"prompts\":{\"q\":\"x \"},\"default_prompt_name\":\"p\"}");
  expect_message(read().status(), "default_prompt_name");
  folder.write(prompts, "{\"prompts\":{\"q\":\"x \"},\"default_prompt_name\":\"q\"}");
  assert_string_equal(read().value().default_prompt.c_str(), "q");

  folder.write("config.json", with("\"matryoshka_dimensions\":[64,768,128]"));
  assert_true((read().value().dims == std::vector<size_t>{768, 128, 64}));
  folder.write("config.json", with("\"matryoshka_dimensions\":[0]"));
  expect_message(read().status(), "matryoshka_dimensions");
  folder.write("config.json", "{");
  expect_message(read().status(), "config.json");
}

void test_kind_and_tensors(void**) {
  using npuseg::checkpoint::ModelKind;
  using npuseg::checkpoint::probe_model_kind;
  assert_true(probe_model_kind(kDemo).value() == ModelKind::kEmbeddingGemma2);
  assert_true(probe_model_kind(NPUSEG_SOURCE_DIR "/demo/sam3").value() == ModelKind::kSam3);
  const Folder folder;
  expect_message(probe_model_kind(folder.path()).status(), "no config.json");
  folder.write("config.json", "{\"model_type\":\"gemma3_text\"}");
  const auto other = probe_model_kind(folder.path());
  expect_message(other.status(), "EmbeddingGemma 1");
  expect_message(other.status(), "google/embeddinggemma-2");
  assert_int_equal(static_cast<int>(other.status().code()), static_cast<int>(Code::kUnsupported));
  folder.write("config.json", "{\"model_type\":\"embedding_gemma2_text\"}");
  expect_message(probe_model_kind(folder.path()).status(), "a part of EmbeddingGemma 2");
  folder.write("config.json", "{\"model_type\":\"bert\"}");
  expect_message(probe_model_kind(folder.path()).status(), "bert");
  expect_message(probe_model_kind(folder.path() + "/none").status(), "no such folder");
  expect_message(probe_model_kind(folder.path() + "/config.json").status(), "is a file");

  const EmbeddingGemma2Config text = parsed(with(""));
  const EmbeddingGemma2Config both = parsed(with_vision(""));
  using npuseg::checkpoint::wants_tensor;
  assert_true(wants_tensor(text, "language_model.norm.weight"));
  assert_false(wants_tensor(text, "vision_tower.patch_embedder.input_proj.weight"));
  assert_true(wants_tensor(both, "vision_tower.patch_embedder.input_proj.weight"));
  assert_true(wants_tensor(both, "embed_vision.embedding_projection.weight"));
  assert_false(wants_tensor(both, "embed_audio.embedding_projection.weight"));
  assert_false(wants_tensor(both, "audio_tower.output_proj.bias"));
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(test_defaults),       cmocka_unit_test(test_demo),
      cmocka_unit_test(test_overrides),      cmocka_unit_test(test_rope),
      cmocka_unit_test(test_refusals),       cmocka_unit_test(test_processor),
      cmocka_unit_test(test_sentence_files), cmocka_unit_test(test_kind_and_tensors),
  };
  return cmocka_run_group_tests_name("embeddinggemma2 config", tests, nullptr, nullptr);
}

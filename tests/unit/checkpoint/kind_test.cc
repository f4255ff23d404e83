// SPDX-License-Identifier: Apache-2.0
// What a folder holds, from its config.json alone: our two models, models taken for them, damage.
#include <string>

#include "checkpoint/model_kind.h"
#include "checkpoint/sam3_config.h"
#include "folder.h"

namespace {

using npuseg::checkpoint::ModelKind;
using npuseg::checkpoint::parse_sam3_config;
using npuseg::checkpoint::probe_model_kind;
using npuseg::core::Code;
using npuseg::test::expect_status;
using npuseg::test::Folder;

void test_known(void**) {
  const struct {
    const char* text;
    ModelKind kind;
  } cases[] = {
      {"{\"model_type\":\"sam3\"}", ModelKind::kSam3},
      {"{\"model_type\":\"sam3_video\",\"detector_config\":{}}", ModelKind::kSam3},
      {"{\"model_type\":\"sam3_video\"}", ModelKind::kSam3},
      {"{\"detector_config\":{\"model_type\":\"sam3\"}}", ModelKind::kSam3},
      {"{\"model_type\":\"my_finetune\",\"detector_config\":{}}", ModelKind::kSam3},
      {"{\"model_type\":\"sam3\",\"detector_config\":null}", ModelKind::kSam3},
      {"{\"model_type\":\"embedding_gemma2\"}", ModelKind::kEmbeddingGemma2},
  };
  const Folder folder;
  for (const auto& one : cases) {
    folder.put("config.json", one.text);
    const auto kind = probe_model_kind(folder.path);
    if (!kind.ok() || kind.value() != one.kind) {
      print_error("%s: %s\n", one.text, kind.status().message().c_str());
      fail();
    }
  }
}

void test_others(void**) {
  const struct {
    std::string text;
    Code code;
    const char* word;
  } cases[] = {
      {"{\"model_type\":\"sam\"}", Code::kUnsupported, "Segment Anything 1"},
      {"{\"model_type\":\"sam2_video\"}", Code::kUnsupported, "SAM 2"},
      {"{\"model_type\":\"sam3_tracker_video\"}", Code::kUnsupported, "without its detector"},
      {"{\"model_type\":\"sam3_vit_model\"}", Code::kUnsupported, "without its detector"},
      {"{\"model_type\":\"edgetam\"}", Code::kUnsupported, "EdgeTAM"},
      {"{\"model_type\":\"clip_text_model\"}", Code::kUnsupported, "CLIP"},
      {"{\"model_type\":\"siglip2\"}", Code::kUnsupported, "SigLIP"},
      {"{\"model_type\":\"gemma3_text\"}", Code::kUnsupported, "EmbeddingGemma 1"},
      {"{\"model_type\":\"bert\"}", Code::kUnsupported, "bert"},
      {"{\"model_type\":\"\"}", Code::kUnsupported, "without model_type"},
      {"{\"model_type\":3}", Code::kUnsupported, "without model_type"},
      {"{\"model_type\":\"sam4\",\"detector_config\":7}", Code::kUnsupported, "sam4"},
      {"{}", Code::kUnsupported, "without model_type"},
      {"[]", Code::kUnsupported, "config.json"},
      {"null", Code::kUnsupported, "config.json"},
      {"", Code::kCorruptData, "config.json"},
      {"{\"model_type\":\"sam3\"", Code::kCorruptData, "config.json"},
      {"{\"model_type\":\"sam3\xFF\"}", Code::kCorruptData, "config.json"},
      {"\x89PNG\r\n", Code::kCorruptData, "config.json"},
      {std::string(100000, '['), Code::kCorruptData, "config.json"},
  };
  const Folder folder;
  for (const auto& one : cases) {
    folder.put("config.json", one.text);
    expect_status(one.text.substr(0, 60), probe_model_kind(folder.path).status(), one.code,
                  one.word);
  }
  folder.put("config.json", std::string((size_t{4} << 20) + 1, ' '));
  assert_false(probe_model_kind(folder.path).ok());
}

void test_no_config(void**) {
  const Folder folder;
  expect_status("empty folder", probe_model_kind(folder.path).status(), Code::kNotFound,
                "has no config.json");
  expect_status("no folder", probe_model_kind(folder.path + "/none").status(), Code::kNotFound,
                "no such folder");
  folder.put("model.safetensors", "x");
  expect_status("file", probe_model_kind(folder.path + "/model.safetensors").status(),
                Code::kInvalidArgument, "is a file");
  std::filesystem::create_directory(folder.path + "/config.json");
  assert_false(probe_model_kind(folder.path).ok());
}

// A null detector_config is none: the top level is the detector's config.
void test_null_detector(void**) {
  const auto config = parse_sam3_config(
      "{\"model_type\":\"sam3\",\"detector_config\":null,\"vision_config\":{\"backbone_config\":"
      "{\"image_size\":112}}}",
      "config.json");
  assert_true(config.ok());
  assert_int_equal(config.value().vit.image_size, 112);
  expect_status(
      "detector_config of another type",
      parse_sam3_config("{\"model_type\":\"sam3\",\"detector_config\":[]}", "config.json").status(),
      Code::kCorruptData, "detector_config");
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(test_known),
      cmocka_unit_test(test_others),
      cmocka_unit_test(test_no_config),
      cmocka_unit_test(test_null_detector),
  };
  return cmocka_run_group_tests_name("model kind", tests, nullptr, nullptr);
}

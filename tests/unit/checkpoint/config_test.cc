// SPDX-License-Identifier: Apache-2.0
// config.json of SAM 3: both shapes, defaults, precedence, refusals that name key and value.
#include <string>

#include "checkpoint/sam3_config.h"
#include "cmocka_cpp.h"

namespace {

using npuseg::checkpoint::HiddenAct;
using npuseg::checkpoint::parse_sam3_config;

void expect_refused(const std::string& json, const std::string& word) {
  const auto result = parse_sam3_config(json, "config.json");
  assert_false(result.ok());
  if (result.status().message().find(word) == std::string::npos) {
    print_message("%s\nlacks %s\n", result.status().message().c_str(), word.c_str());
    assert_true(false);
  }
}

std::string with(const std::string& members) { return "{\"model_type\":\"sam3\"," + members + "}"; }
std::string with_vit(const std::string& members) {
  return with("\"vision_config\":{\"backbone_config\":{" + members + "}}");
}

void test_both_shapes_and_defaults(void**) {
  for (const char* json :
       {"{\"model_type\":\"sam3\"}",
        "{\"model_type\":\"sam3_video\",\"detector_config\":{},\"tracker_config\""
        ":{\"x\":[1]},\"unknown\":null}"}) {
    const auto result = parse_sam3_config(json, "config.json");
    assert_true(result.ok());
    assert_int_equal(result.value().vit.grid(), 72);
    assert_int_equal(result.value().mask_side(), 288);
    assert_int_equal(result.value().text.positions, 32);
    assert_true(result.value().text.act == HiddenAct::kGelu);
  }
}

void test_present_text_config_has_clip_defaults(void**) {
  const auto result = parse_sam3_config(with("\"text_config\":{}"), "config.json");
  assert_true(result.ok());
  assert_int_equal(result.value().text.hidden_size, 512);
  assert_int_equal(result.value().text.intermediate_size, 2048);
  assert_int_equal(result.value().text.layers, 12);
  assert_int_equal(result.value().text.heads, 8);
  assert_int_equal(result.value().text.positions, 77);
  assert_true(result.value().text.act == HiddenAct::kQuickGelu);
}

void test_rope_precedence(void**) {
  const auto both = parse_sam3_config(
      with_vit("\"rope_theta\":5.0,\"rope_parameters\":{\"rope_type\":\"axial\",\"rope_theta\":7}"),
      "config.json");
  assert_true(both.ok());
  assert_true(both.value().vit.rope_theta == 7.0);
  const auto flat = parse_sam3_config(with_vit("\"rope_theta\":5.0"), "config.json");
  assert_true(flat.ok());
  assert_true(flat.value().vit.rope_theta == 5.0);
  expect_refused(with_vit("\"rope_parameters\":{\"rope_type\":\"yarn\"}"), "yarn");
}

void test_image_size_and_globals(void**) {
  const auto list = parse_sam3_config(
      with_vit("\"image_size\":[112,112],\"global_attn_indexes\":null"), "config.json");
  assert_true(list.ok());
  assert_int_equal(list.value().vit.grid(), 8);
  assert_int_equal(list.value().vit.global_layers.size(), 4);
  expect_refused(with_vit("\"image_size\":[112,126]"), "image_size");
  expect_refused(with_vit("\"image_size\":113"), "patch_size");
}

void test_refusals(void**) {
  expect_refused("[]", "config.json");
  expect_refused("{\"model_type\":\"bert\"}", "bert");
  expect_refused(with_vit("\"hidden_size\":\"1024\""), "hidden_size");
  expect_refused(with_vit("\"hidden_size\":-4"), "hidden_size");
  expect_refused(with_vit("\"hidden_size\":1e300"), "hidden_size");
  expect_refused(with_vit("\"hidden_size\":1000000000"), "hidden_size");
  expect_refused(with_vit("\"num_attention_heads\":0"), "num_attention_heads");
  expect_refused(with_vit("\"num_attention_heads\":3"), "num_attention_heads");
  expect_refused(with_vit("\"hidden_size\":96"), "multiple of 4");
  expect_refused(with_vit("\"hidden_act\":\"mish\""), "mish");
  expect_refused(with_vit("\"num_hidden_layers\":100000000"), "num_hidden_layers");
  expect_refused(with("\"vision_config\":{\"scale_factors\":[3.0,1.0]}"), "scale_factors");
  expect_refused(with("\"vision_config\":{\"scale_factors\":[1.0]}"), "scale_factors");
  expect_refused(with("\"vision_config\":{\"fpn_hidden_size\":128}"), "128");
  expect_refused(with("\"vision_config\":7"), "vision_config");
  expect_refused(with("\"mask_decoder_config\":{\"num_upsampling_stages\":1}"),
                 "num_upsampling_stages");
  expect_refused(std::string(100000, '['), "config.json");
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(test_both_shapes_and_defaults),
      cmocka_unit_test(test_present_text_config_has_clip_defaults),
      cmocka_unit_test(test_rope_precedence),
      cmocka_unit_test(test_image_size_and_globals),
      cmocka_unit_test(test_refusals),
  };
  return cmocka_run_group_tests_name("sam3 config", tests, nullptr, nullptr);
}

// SPDX-License-Identifier: Apache-2.0
// processor_config.json and preprocessor_config.json: nested and flat, missing keys keep the
// defaults of the reference's class, what this library does not do is refused by name.
#include <string>

#include "checkpoint/sam3_config.h"
#include "folder.h"

namespace {

using npuseg::checkpoint::read_sam3_processor_config;
using npuseg::checkpoint::Sam3ProcessorConfig;
using npuseg::core::Code;
using npuseg::test::expect_status;
using npuseg::test::Folder;

constexpr size_t kSide = 112;
constexpr const char* kNested = "processor_config.json";
constexpr const char* kFlat = "preprocessor_config.json";

Sam3ProcessorConfig read(const char* what, const Folder& folder) {
  const auto result = read_sam3_processor_config(folder.path, kSide);
  if (!result.ok()) {
    print_error("%s: %s\n", what, result.status().message().c_str());
    fail();
  }
  assert_int_equal(result.value().width, kSide);
  assert_int_equal(result.value().height, kSide);
  return result.value();
}

void expect_defaults(const char* what, const Sam3ProcessorConfig& config) {
  bool same = config.rescale_factor == 1.0 / 255.0;
  for (size_t c = 0; c < 3; ++c) {
    same = same && config.mean[c] == 0.5f && config.std[c] == 0.5f;
  }
  if (!same) {
    print_error("%s: not the defaults\n", what);
    fail();
  }
}

void test_defaults(void**) {
  expect_defaults("no file", read("no file", Folder()));
  const char* texts[] = {
      "{}",
      "{\"image_processor\":{}}",
      "{\"image_processor\":null}",
      "{\"processor_class\":\"Sam3Processor\",\"target_size\":1008,\"video_processor\":"
      "{\"do_resize\":false},\"image_processor\":{\"image_processor_type\":"
      "\"Sam3ImageProcessorFast\",\"mask_size\":{\"height\":0},\"unknown\":[]}}",
      "{\"image_processor\":{\"size\":null,\"image_mean\":null,\"image_std\":null,"
      "\"do_resize\":null,\"resample\":null,\"rescale_factor\":null}}",
      "{\"image_processor\":{\"size\":{\"height\":112}}}",
      "{\"image_processor\":{\"do_resize\":true,\"do_rescale\":true,\"do_normalize\":true,"
      "\"do_convert_rgb\":true,\"do_pad\":false,\"do_center_crop\":false,\"resample\":2,"
      "\"size\":{\"height\":112,\"width\":112},\"image_mean\":[0.5,0.5,0.5],"
      "\"image_std\":[0.5,0.5,0.5],\"rescale_factor\":0.00392156862745098}}",
  };
  for (const char* text : texts) {
    const Folder folder;
    folder.put(kNested, text);
    expect_defaults(text, read(text, folder));
  }
}

void test_values(void**) {
  const std::string members =
      "\"image_mean\":[0.485,0.456,0],\"image_std\":0.25,\"rescale_factor\":1";
  const struct {
    const char* file;
    std::string text;
  } cases[] = {
      {kNested, "{\"image_processor\":{" + members + "}}"},
      {kNested, "{" + members + "}"},
      {kFlat, "{" + members + "}"},
  };
  for (const auto& one : cases) {
    const Folder folder;
    folder.put(one.file, one.text);
    const Sam3ProcessorConfig config = read(one.text.c_str(), folder);
    assert_true(config.mean[0] == 0.485f && config.mean[1] == 0.456f && config.mean[2] == 0.0f);
    assert_true(config.std[0] == 0.25f && config.std[1] == 0.25f && config.std[2] == 0.25f);
    assert_true(config.rescale_factor == 1.0);
  }
}

// As in the reference, the file of the processor goes before that of the image processor.
void test_precedence(void**) {
  const Folder folder;
  folder.put(kFlat, "{\"do_resize\":false}");
  folder.put(kNested, "{\"image_processor\":{}}");
  expect_defaults("both files", read("both files", folder));
  folder.remove(kNested);
  expect_status("flat file", read_sam3_processor_config(folder.path, kSide).status(),
                Code::kUnsupported, kFlat);
}

void test_refusals(void**) {
  const struct {
    const char* members;
    Code code;
    const char* word;
  } cases[] = {
      {"\"size\":{\"height\":0,\"width\":0}", Code::kUnsupported, "size.width"},
      {"\"size\":{\"height\":0,\"width\":112}", Code::kUnsupported, "size.height"},
      {"\"size\":{\"height\":-1,\"width\":112}", Code::kCorruptData, "size.height"},
      {"\"size\":{\"height\":112,\"width\":112.5}", Code::kCorruptData, "size.width"},
      {"\"size\":{\"height\":\"112\",\"width\":112}", Code::kCorruptData, "size.height"},
      {"\"size\":{\"height\":112,\"width\":18446744073709551615}", Code::kUnsupported,
       "size.width"},
      {"\"size\":{\"height\":112,\"width\":126}", Code::kUnsupported, "126 x 112"},
      {"\"size\":{\"height\":1008,\"width\":1008}", Code::kUnsupported, "112 x 112"},
      {"\"size\":112", Code::kCorruptData, "size"},
      {"\"size\":[112,112]", Code::kCorruptData, "size"},
      {"\"do_resize\":false", Code::kUnsupported, "do_resize"},
      {"\"do_rescale\":false", Code::kUnsupported, "do_rescale"},
      {"\"do_normalize\":false", Code::kUnsupported, "do_normalize"},
      {"\"do_convert_rgb\":false", Code::kUnsupported, "do_convert_rgb"},
      {"\"do_pad\":true", Code::kUnsupported, "do_pad"},
      {"\"do_center_crop\":true", Code::kUnsupported, "do_center_crop"},
      {"\"do_resize\":1", Code::kCorruptData, "do_resize"},
      {"\"do_resize\":\"true\"", Code::kCorruptData, "do_resize"},
      {"\"resample\":3", Code::kUnsupported, "resample"},
      {"\"resample\":\"bilinear\"", Code::kCorruptData, "resample"},
      {"\"rescale_factor\":0", Code::kUnsupported, "rescale_factor"},
      {"\"rescale_factor\":\"1/255\"", Code::kCorruptData, "rescale_factor"},
      {"\"image_mean\":[0.5,0.5]", Code::kCorruptData, "image_mean"},
      {"\"image_mean\":[0.5,0.5,0.5,0.5]", Code::kCorruptData, "image_mean"},
      {"\"image_mean\":[0.5,0.5,\"0.5\"]", Code::kCorruptData, "image_mean"},
      {"\"image_mean\":\"0.5\"", Code::kCorruptData, "image_mean"},
      {"\"image_mean\":{}", Code::kCorruptData, "image_mean"},
      {"\"image_mean\":[0.5,0.5,1e30]", Code::kCorruptData, "image_mean"},
      {"\"image_std\":[0.5,0,0.5]", Code::kCorruptData, "image_std"},
      {"\"image_std\":[0.5,-0.5,0.5]", Code::kCorruptData, "image_std"},
      {"\"image_std\":0", Code::kCorruptData, "image_std"},
  };
  const Folder folder;
  for (const auto& one : cases) {
    folder.put(kNested, std::string("{\"image_processor\":{") + one.members + "}}");
    expect_status(one.members, read_sam3_processor_config(folder.path, kSide).status(), one.code,
                  one.word);
  }
  for (const char* text : {"[]", "7", "", "{\"image_processor\":", "{\"image_processor\":[]}",
                           "{\"image_processor\":\"Sam3ImageProcessor\"}"}) {
    folder.put(kNested, text);
    expect_status(text, read_sam3_processor_config(folder.path, kSide).status(), Code::kCorruptData,
                  kNested);
  }
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(test_defaults),
      cmocka_unit_test(test_values),
      cmocka_unit_test(test_precedence),
      cmocka_unit_test(test_refusals),
  };
  return cmocka_run_group_tests_name("processor config", tests, nullptr, nullptr);
}

// SPDX-License-Identifier: Apache-2.0
// Known ids of the public CLIP vocabulary (golden/clip_cases.json; all equal to transformers 5.24).
//
// Skips unless NPUSEG_CLIP_TOKENIZER names a directory with that vocabulary, for instance one made
// by tests/oracle/text_public_vocab.py.
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "cmocka_cpp.h"
#include "core/json.h"
#include "text/clip_tokenizer.h"

namespace {

using npuseg::core::JsonDocument;
using npuseg::core::JsonValue;
using npuseg::core::Status;
using npuseg::text::ClipTokenizer;

const ClipTokenizer* tokenizer = nullptr;

void test_known_ids(void**) {
  const auto cases = JsonDocument::load(NPUSEG_SOURCE_DIR "/tests/unit/text/golden/clip_cases.json",
                                        size_t{1} << 20);
  assert_true(cases.ok());
  size_t count = 0;
  size_t wrong = 0;
  assert_true(cases.value()
                  .root()
                  .for_each_element([&](const JsonValue& row) -> Status {
                    std::string text;
                    std::vector<int64_t> wanted{tokenizer->bos_id()};
                    static_cast<void>(row.for_each_element([&](const JsonValue& part) -> Status {
                      std::string_view value;
                      if (part.get(&value)) text = value;
                      return part.for_each_element([&](const JsonValue& id) -> Status {
                        wanted.push_back(0);
                        assert_true(id.get(&wanted.back()));
                        return {};
                      });
                    }));
                    wanted.push_back(tokenizer->eos_id());
                    const auto ids = tokenizer->encode(text);
                    ++count;
                    if (ids.ok() && ids.value() == wanted) return {};
                    print_message("other ids for: %s\n", text.c_str());
                    ++wrong;
                    return {};
                  })
                  .ok());
  assert_int_equal(count, 149);
  assert_int_equal(wrong, 0);
}

void test_special_ids(void**) {
  assert_int_equal(tokenizer->vocab_size(), 49408);
  assert_int_equal(tokenizer->bos_id(), 49406);
  assert_int_equal(tokenizer->eos_id(), 49407);
  assert_int_equal(tokenizer->pad_id(), 49407);
}

}  // namespace

int main() {
  const char* directory = std::getenv("NPUSEG_CLIP_TOKENIZER");
  if (directory == nullptr) {
    std::printf("skipped: NPUSEG_CLIP_TOKENIZER is not set\n");
    return 77;
  }
  const auto loaded = ClipTokenizer::load(directory);
  if (!loaded.ok()) {
    std::fprintf(stderr, "%s\n", loaded.status().message().c_str());
    return 1;
  }
  tokenizer = &loaded.value();
  const CMUnitTest tests[] = {cmocka_unit_test(test_known_ids), cmocka_unit_test(test_special_ids)};
  return cmocka_run_group_tests_name("text clip cases", tests, nullptr, nullptr);
}

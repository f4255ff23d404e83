// SPDX-License-Identifier: Apache-2.0
// Inputs of EmbeddingGemma 2 as sequences of ids: the layouts of the reference, placeholders in the
// caller's texts, limits. golden/gemma_inputs.txt is made by tests/oracle/gemma_inputs.py.
#include "text/gemma_input.h"

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "core/threads.h"
// Behind all others.
#include "cmocka_cpp.h"

namespace {

using npuseg::core::Code;
using npuseg::core::Status;
using npuseg::text::ComposedInput;
using npuseg::text::ComposeOptions;
using npuseg::text::GemmaTokenizer;
using npuseg::text::InputPart;
using npuseg::text::MediaTokens;
using Parts = std::vector<InputPart>;

const GemmaTokenizer& tokenizer() {
  static const auto loaded = GemmaTokenizer::load(NPUSEG_SOURCE_DIR "/demo/embeddinggemma2");
  assert_true(loaded.ok());
  return loaded.value();
}

npuseg::core::Result<ComposedInput> composed(const std::string& prompt, const Parts& parts,
                                             const ComposeOptions& options = {}) {
  const MediaTokens media = MediaTokens::find(tokenizer(), 1019, 1017, 1021, 1020, 1023);
  return npuseg::text::compose_input(tokenizer(), media, prompt, parts, options);
}

std::string decoded(const std::string& hex) {
  std::string out;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    out.push_back(static_cast<char>(std::stoul(hex.substr(i, 2), nullptr, 16)));
  }
  return out;
}

// Lines: number of parts; prompt and parts (t and the text, or p and the soft tokens), texts in
// hexadecimal behind an x; "ids" and the ids, or "refused".
void test_reference(void**) {
  std::ifstream file(NPUSEG_SOURCE_DIR "/tests/unit/text/golden/gemma_inputs.txt");
  assert_true(file.good());
  size_t cases = 0;
  for (std::string text; std::getline(file, text); ++cases) {
    std::istringstream line(text);
    size_t count = 0;
    std::string prompt;
    line >> count >> prompt;
    std::vector<std::string> texts(count);
    Parts parts(count);
    for (size_t i = 0; i < count; ++i) {
      std::string kind;
      std::string value;
      line >> kind >> value;
      if (kind == "p") {
        parts[i].soft_tokens = std::stoul(value);
      } else {
        texts[i] = decoded(value.substr(1));
        parts[i].text = texts[i];
      }
    }
    std::string verdict;
    line >> verdict;
    const auto result = composed(decoded(prompt.substr(1)), parts);
    if (result.ok() != (verdict == "ids")) print_message("%s\n", text.c_str());
    assert_int_equal(result.ok(), verdict == "ids");
    if (!result.ok()) continue;
    std::vector<int64_t> wanted;
    for (int64_t id = 0; line >> id;) wanted.push_back(id);
    if (result.value().ids != wanted) print_message("%s\n", text.c_str());
    assert_true(result.value().ids == wanted);
    for (const ComposedInput::Run& run : result.value().pictures) {
      for (size_t i = 0; i < run.count; ++i) assert_int_equal(wanted[run.begin + i], 1019);
    }
  }
  assert_true(cases >= 30);
}

void expect(const Status& status, Code code, const std::string& word) {
  assert_int_equal(static_cast<int>(status.code()), static_cast<int>(code));
  assert_true(status.message().find(word) != std::string::npos);
}

void test_limits(void**) {
  const std::string text = "two blue stars on a grey background";
  const size_t whole = composed("", {{text, 0}}).value().total;
  ComposeOptions options;
  options.max_tokens = whole;
  assert_false(composed("", {{text, 0}}, options).value().truncated);
  options.max_tokens = 6;
  expect(composed("", {{text, 0}}, options).status(), Code::kLimitExceeded, std::to_string(whole));
  options.truncate = true;
  const ComposedInput cut = composed("", {{text, 0}}, options).value();
  assert_true(cut.truncated);
  assert_int_equal(cut.total, whole);
  assert_int_equal(cut.ids.size(), 6);
  assert_int_equal(cut.ids.front(), 2);
  assert_int_equal(cut.ids.back(), 1);
  // A picture is never cut; a text behind one may be.
  options.max_tokens = 70;
  assert_true(composed("", {{"", 64}, {text, 0}}, options).value().truncated);
  expect(composed("", {{text, 0}, {"", 64}}, options).status(), Code::kLimitExceeded, "pictures");
}

void test_refused_texts(void**) {
  expect(composed("", {{"a <|image|>", 0}}).status(), Code::kInvalidArgument, "<|image|>");
  expect(composed("", {{"<|audio|>", 0}, {"", 4}}).status(), Code::kInvalidArgument, "<|audio|>");
  expect(composed("", {{"a\xFF", 0}}).status(), Code::kInvalidArgument, "byte 1");
  ComposeOptions options;
  options.replace_invalid = true;
  assert_true(composed("", {{"a\xFF", 0}}, options).value().ids ==
              composed("", {{"a\xEF\xBF\xBD", 0}}).value().ids);
  MediaTokens none;
  const Parts picture{{"", 4}};
  const auto result = npuseg::text::compose_input(tokenizer(), none, "", picture, {});
  expect(result.status(), Code::kUnsupported, "vision");
}

// Stops a call at its third report.
int32_t stop_third(void* user, uint32_t, uint64_t, uint64_t) {
  return ++*static_cast<int*>(user) >= 3 ? 1 : 0;
}

// One word of 32 MB, which takes far longer than three reports; and many words.
void test_stopped(void**) {
  for (const char* unit : {"abcdefgh", "ab cd\n"}) {
    std::string text;
    while (text.size() < (size_t{32} << 20)) text += unit;
    int reports = 0;
    npuseg::core::Call::Options call_options;
    call_options.progress = stop_third;
    call_options.user = &reports;
    npuseg::core::Call call(call_options);
    ComposeOptions options;
    options.call = &call;
    options.truncate = true;
    expect(composed("", {{text, 0}}, options).status(), Code::kCancelled, "");
    assert_int_equal(reports, 3);
  }
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(test_reference),
      cmocka_unit_test(test_limits),
      cmocka_unit_test(test_refused_texts),
      cmocka_unit_test(test_stopped),
  };
  return cmocka_run_group_tests_name("gemma input", tests, nullptr, nullptr);
}

// SPDX-License-Identifier: Apache-2.0
// Tokenizer files: both kinds, flags and names of tokenizer_config.json, refusals; prompt lengths.
#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "cmocka_cpp.h"
#include "core/file.h"
#include "text/clip_tokenizer.h"

namespace {

using npuseg::core::Code;
using npuseg::text::ClipTokenizer;

// a, b and their word ends, "ab</w>", specials: ids 0 to 6.
const char* const kVocab =
    R"({"a":0,"b":1,"a</w>":2,"b</w>":3,"ab</w>":4,"<|startoftext|>":5,"<|endoftext|>":6})";
const char* const kMerges = R"([["a","b</w>"]])";

std::string json(const std::string& vocab, const std::string& merges,
                 const std::string& rest = "") {
  return R"({"model":{"type":"BPE","vocab":)" + vocab + R"(,"merges":)" + merges + "}" + rest + "}";
}

void expect_ids(const ClipTokenizer& tokenizer, const std::string& text,
                const std::vector<int64_t>& ids) {
  const auto result = tokenizer.encode(text);
  assert_true(result.ok());
  assert_true(result.value() == ids);
}

void expect_refused(const std::string& text, Code code, const std::string& word,
                    const std::string& config = "") {
  const auto result = ClipTokenizer::parse(text, config, "the/file.json");
  assert_false(result.ok());
  const std::string& message = result.status().message();
  assert_int_equal(static_cast<int>(result.status().code()), static_cast<int>(code));
  if (message.find(word) == std::string::npos || message.find("the/file.json") == message.npos) {
    print_message("%s\nlacks %s or the file\n", message.c_str(), word.c_str());
    assert_true(false);
  }
}

void test_small_vocabulary(void**) {
  for (const char* merges : {kMerges, R"(["a b</w>"])"}) {
    const auto tokenizer = ClipTokenizer::parse(json(kVocab, merges), "", "x");
    assert_true(tokenizer.ok());
    assert_int_equal(tokenizer.value().vocab_size(), 7);
    assert_int_equal(tokenizer.value().pad_id(), 6);
    expect_ids(tokenizer.value(), "ab AB aab", {5, 4, 4, 0, 4, 6});
    // A byte without a symbol is the unknown token, which is the end token.
    expect_ids(tokenizer.value(), "ac", {5, 0, 6, 6});
    expect_ids(tokenizer.value(), "", {5, 6});
    // Without a list of added tokens both specials are found in the raw text.
    expect_ids(tokenizer.value(), "a<|endoftext|>b<|startoftext|>", {5, 2, 6, 3, 5, 6});
  }
}

void test_config_flags_and_names(void**) {
  const std::string text = json(kVocab, kMerges);
  // Transformers writes 10^30 for a length without limit.
  const std::string config =
      R"({"model_max_length":1000000000000000019884624838656,"pad_token":{"content":"a"},)"
      R"("added_tokens_decoder":{"5":{"content":"<|startoftext|>","normalized":true},)"
      R"("6":{"content":"<|endoftext|>","normalized":false}}})";
  const auto tokenizer = ClipTokenizer::parse(text, config, "x");
  assert_true(tokenizer.ok());
  assert_int_equal(tokenizer.value().pad_id(), 0);
  expect_ids(tokenizer.value(), "<|StartOfText|>a<|endoftext|>", {5, 5, 2, 6, 6});
  const auto renamed = ClipTokenizer::parse(text, R"({"bos_token":"b","eos_token":"a"})", "x");
  assert_true(renamed.ok());
  // Start and end token are then found in text, too.
  expect_ids(renamed.value(), "bb ab", {1, 1, 1, 0, 1, 0});
}

void test_post_processors(void**) {
  const std::string roberta =
      R"(,"post_processor":{"type":"RobertaProcessing","sep":["b",1],"cls":["a",0]})";
  const auto first = ClipTokenizer::parse(json(kVocab, kMerges, roberta), "", "x");
  assert_true(first.ok());
  expect_ids(first.value(), "ab", {0, 0, 1, 1});
  const std::string of_template =
      R"(,"post_processor":{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"a"}},)"
      R"({"Sequence":{"id":"A"}},{"SpecialToken":{"id":"b"}}]})";
  const auto second = ClipTokenizer::parse(json(kVocab, kMerges, of_template), "", "x");
  assert_true(second.ok());
  expect_ids(second.value(), "ab", {0, 0, 1, 1});
  expect_refused(json(kVocab, kMerges, R"(,"post_processor":{"type":"Other"})"), Code::kUnsupported,
                 "Other");
  expect_refused(json(kVocab, kMerges,
                      R"(,"post_processor":{"type":"RobertaProcessing","sep":["b",1],)"
                      R"("cls":["a",7]})"),
                 Code::kCorruptData, "id 7");
}

void test_refusals(void**) {
  const Code corrupt = Code::kCorruptData;
  expect_refused("", corrupt, "cannot parse");
  expect_refused("[]", corrupt, "not an object");
  expect_refused("{}", corrupt, "no vocabulary");
  expect_refused(R"({"model":{"type":"WordPiece"}})", Code::kUnsupported, "BPE");
  expect_refused(json("[]", kMerges), corrupt, "no vocabulary");
  expect_refused(json(kVocab, "{}"), corrupt, "no merges");
  expect_refused(json(kVocab, R"(["ab"])"), corrupt, "one space");
  expect_refused(json(kVocab, R"([["a"]])"), corrupt, "two strings");
  expect_refused(json(kVocab, R"([["a","b</w>","a"]])"), corrupt, "two strings");
  expect_refused(json(kVocab, R"([["a",1]])"), corrupt, "not of strings");
  expect_refused(json(kVocab, R"([["a","a"]])"), corrupt, "merge 0");
  expect_refused(json(R"({"a":0,"a":1})", "[]"), corrupt, "twice");
  expect_refused(json(R"({"a":0,"b":0})", "[]"), corrupt, "another token");
  expect_refused(json(R"({"a":-1})", "[]"), corrupt, "no usable id");
  expect_refused(json(R"({"a":99999999})", "[]"), corrupt, "no usable id");
  expect_refused(json(R"({"a":18446744073709551616})", "[]"), corrupt, "no usable id");
  expect_refused(json(R"({"":0})", "[]"), corrupt, "empty token");
  expect_refused(json(R"({"a":0,"b":5})", "[]"), corrupt, "id 5");
  expect_refused(json(R"({"a":0})", "[]"), corrupt, "<|startoftext|>");
  const auto added = [](const std::string& token) {
    return json(kVocab, kMerges, R"(,"added_tokens":[)" + token + "]");
  };
  expect_refused(added(R"({"id":7})"), corrupt, "without id or content");
  expect_refused(added(R"({"id":7,"content":"a"})"), corrupt, "id 7");
  expect_refused(added(R"({"id":9,"content":"x"})"), corrupt, "id 9");
  expect_refused(added(R"({"id":1,"content":"x"})"), corrupt, "another token");
  expect_refused(added(R"({"id":7,"content":"x","lstrip":true})"), Code::kUnsupported, "lstrip");
  expect_refused(json(kVocab, kMerges), corrupt, "added token",
                 R"({"added_tokens_decoder":{"x":{"content":"a"}}})");
  expect_refused(json(kVocab, kMerges), corrupt, "cannot parse", "{");
}

void test_vocab_and_merges_files(void**) {
  char path[] = "/tmp/npuseg-text-XXXXXX";
  assert_non_null(mkdtemp(path));
  const std::string folder = path;
  const auto write = [&](const char* name, const std::string& text) {
    const auto* bytes = reinterpret_cast<const unsigned char*>(text.data());
    assert_true(npuseg::core::write_file_atomically(npuseg::core::join_path(folder, name),
                                                    {bytes, text.size()})
                    .ok());
  };
  const auto none = ClipTokenizer::load(folder);
  assert_false(none.ok());
  assert_int_equal(static_cast<int>(none.status().code()), static_cast<int>(Code::kNotFound));
  write("vocab.json", kVocab);
  write("merges.txt", "#version: 0.2\r\na b</w>\r\n\n");
  const auto tokenizer = ClipTokenizer::load(folder);
  assert_true(tokenizer.ok());
  expect_ids(tokenizer.value(), "ab", {5, 4, 6});
  write("merges.txt", "a b</w>\na x\n");
  assert_false(ClipTokenizer::load(folder).ok());
  for (const char* name : {"vocab.json", "merges.txt"}) {
    assert_int_equal(unlink(npuseg::core::join_path(folder, name).c_str()), 0);
  }
  assert_int_equal(rmdir(path), 0);
}

void test_prompt_lengths(void**) {
  const auto loaded = ClipTokenizer::parse(json(kVocab, kMerges), "", "x");
  assert_true(loaded.ok());
  const ClipTokenizer& tokenizer = loaded.value();
  for (const size_t words : std::vector<size_t>{0, 1, 29, 30, 31, 75, 5000}) {
    std::string text;
    for (size_t i = 0; i < words; ++i) text += "ab ";
    const auto whole = tokenizer.encode_prompt(text, 32, false);
    const auto cut = tokenizer.encode_prompt(text, 32, true);
    assert_true(cut.ok());
    assert_int_equal(cut.value().total, words + 2);
    assert_int_equal(cut.value().truncated, words > 30);
    assert_int_equal(cut.value().ids.size(), words > 30 ? 32 : words + 2);
    assert_int_equal(cut.value().ids.front(), 5);
    assert_int_equal(cut.value().ids.back(), 6);
    assert_int_equal(whole.ok(), words <= 30);
    if (whole.ok()) continue;
    assert_int_equal(static_cast<int>(whole.status().code()),
                     static_cast<int>(Code::kLimitExceeded));
    const std::string count = std::to_string(words + 2);
    assert_true(whole.status().message().find("too long: " + count) != std::string::npos);
  }
}

void test_invalid_utf8_is_an_argument_error(void**) {
  const auto tokenizer = ClipTokenizer::parse(json(kVocab, kMerges), "", "x");
  assert_true(tokenizer.ok());
  const auto result = tokenizer.value().encode("ab\xFF");
  assert_false(result.ok());
  assert_int_equal(static_cast<int>(result.status().code()),
                   static_cast<int>(Code::kInvalidArgument));
  assert_true(result.status().message().find("byte 2") != std::string::npos);
}

// Quadratic steps would take minutes here.
void test_long_texts_end(void**) {
  const auto tokenizer = ClipTokenizer::parse(json(kVocab, kMerges), "", "x");
  assert_true(tokenizer.ok());
  constexpr size_t kCount = 200000;
  std::string specials;
  for (size_t i = 0; i < kCount; ++i) specials += "<|endoftext|>";
  const auto many = tokenizer.value().encode(specials);
  assert_true(many.ok());
  assert_int_equal(many.value().size(), kCount + 2);
  const auto word = tokenizer.value().encode(std::string(5 * kCount, 'a') + "b");
  assert_true(word.ok());
  assert_int_equal(word.value().size(), 5 * kCount + 2);
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(test_small_vocabulary),
      cmocka_unit_test(test_config_flags_and_names),
      cmocka_unit_test(test_post_processors),
      cmocka_unit_test(test_refusals),
      cmocka_unit_test(test_vocab_and_merges_files),
      cmocka_unit_test(test_prompt_lengths),
      cmocka_unit_test(test_invalid_utf8_is_an_argument_error),
      cmocka_unit_test(test_long_texts_end),
  };
  return cmocka_run_group_tests_name("text clip load", tests, nullptr, nullptr);
}

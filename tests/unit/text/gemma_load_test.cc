// SPDX-License-Identifier: Apache-2.0
// Gemma tokenizer files in all legal spellings, damaged and hostile ones; texts at the border:
// invalid UTF-8, very long words, special strings.
#include <cstdio>
#include <string>
#include <vector>

#include "cmocka_cpp.h"
#include "text/gemma_tokenizer.h"

namespace {

using npuseg::core::Code;
using npuseg::core::Status;
using npuseg::text::GemmaTokenizer;
using Ids = std::vector<int64_t>;

const std::string kDemo = NPUSEG_SOURCE_DIR "/demo/embeddinggemma2";

// Parts of a file that tests change.
struct File {
  std::string vocab =
      R"("<bos>":0,"<eos>":1,"<unk>":2,"a":3,"b":4,"ab":5,"\u2581":6,"\u2581a":7,"aa":8,)"
      R"("\ud83d\ude00":9,"\u2581ab":10,"<|x|>":11,"\"":12)";
  std::string merges = R"(["a","b"],["\u2581","a"],["a","a"],["\u2581a","b"],["\u2581","ab"])";
  std::string normalizer = R"({"type":"Replace","pattern":{"String":" "},"content":"\u2581"})";
  std::string splitter =
      R"({"type":"Split","pattern":{"String":" "},"behavior":"MergedWithPrevious","invert":false})";
  std::string post =
      R"({"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"<bos>","type_id":0}},)"
      R"({"Sequence":{"id":"A","type_id":0}},{"SpecialToken":{"id":"<eos>","type_id":0}}],)"
      R"("special_tokens":{"<bos>":{"ids":[0]},"<eos>":{"ids":[1]}}})";
  std::string added = R"({"id":0,"content":"<bos>"},{"id":11,"content":"<|x|>"})";
  std::string model = R"("type":"BPE","unk_token":"<unk>","fuse_unk":true,"byte_fallback":true)";
  bool merges_first = false;
  std::string extra;

  [[nodiscard]] std::string text() const {
    const std::string v = "\"vocab\":{" + vocab + "}";
    const std::string m = "\"merges\":[" + merges + "]";
    return "{\"added_tokens\":[" + added + "],\"normalizer\":" + normalizer +
           ",\"pre_tokenizer\":" + splitter + ",\"post_processor\":" + post + extra +
           ",\"model\":{" + (merges_first ? m + " , " + v : v + "\n,\t" + m) + "," + model + "}}";
  }
};

Ids encoded(const File& file, const std::string& text, const std::string& config = "") {
  const auto tokenizer = GemmaTokenizer::parse(file.text(), config, "tokenizer.json");
  if (!tokenizer.ok()) print_message("%s\n", tokenizer.status().message().c_str());
  assert_true(tokenizer.ok());
  const auto ids = tokenizer.value().encode(text);
  assert_true(ids.ok());
  return ids.value();
}

void expect_refused(const File& file, Code code, const std::string& word) {
  const auto result = GemmaTokenizer::parse(file.text(), "", "tokenizer.json");
  assert_false(result.ok());
  if (result.status().message().find(word) == std::string::npos ||
      result.status().message().find("tokenizer.json") == std::string::npos) {
    print_message("%s\nlacks %s\n", result.status().message().c_str(), word.c_str());
    assert_true(false);
  }
  assert_int_equal(static_cast<int>(result.status().code()), static_cast<int>(code));
}

void test_spellings(void**) {
  File file;
  const Ids wanted{0, 3, 3, 10, 9, 12, 1};
  file.merges = R"(["a","b"],["\u2581","a"],["\u2581a","b"],["\u2581","ab"])";
  assert_true(encoded(file, "aa ab\xF0\x9F\x98\x80\"") == wanted);
  file.merges_first = true;
  assert_true(encoded(file, "aa ab\xF0\x9F\x98\x80\"") == wanted);
  file.merges = "\"#version: 0.2\", \"a b\",\"\u2581 a\",\r\n\t\"\\u2581a b\",\"\u2581 ab\"";
  assert_true(encoded(file, "aa ab\xF0\x9F\x98\x80\"") == wanted);
  file.merges = "";
  assert_true((encoded(file, "ab") == Ids{0, 3, 4, 1}));
  // Of equal merges the last one counts: "ab" is formed before "aa" only where it stands first.
  file = File();
  assert_true((encoded(file, "aab") == Ids{0, 3, 5, 1}));
  file.merges += R"(,["a","b"])";
  assert_true((encoded(file, "aab") == Ids{0, 8, 4, 1}));
  file.normalizer = R"({"type":"Sequence","normalizers":[)" + file.normalizer + "]}";
  file.splitter = "null";
  assert_true((encoded(file, " ab") == Ids{0, 10, 1}));
}

void test_specials(void**) {
  File file;
  assert_true((encoded(file, "<bos>a") == Ids{0, 3}));
  assert_true((encoded(file, "a<bos>") == Ids{0, 3, 0, 1}));
  assert_true((encoded(file, "<|x|><|x|") == Ids{0, 11, 2, 1}));
  assert_true((encoded(file, "") == Ids{0, 1}));
  // What the vocabulary lacks: one unknown token for a run of characters.
  assert_true((encoded(file, "xyza") == Ids{0, 2, 3, 1}));
  // A token that tokenizer_config.json names is looked for as well.
  assert_true((encoded(file, "a<unk>a") == Ids{0, 3, 2, 3, 1}));
  assert_true((encoded(file, "<eos>") == Ids{0, 2, 1}));
  assert_true(
      (encoded(file, "<eos>", R"({"eos_token":"<eos>","none_token":null})") == Ids{0, 1, 1}));
  const auto tokenizer = GemmaTokenizer::load(kDemo);
  assert_true(tokenizer.ok());
  assert_int_equal(tokenizer.value().vocab_size(), 1024);
  assert_int_equal(tokenizer.value().added_id("<|image|>"), 1019);
  assert_int_equal(tokenizer.value().added_id("<|image"), -1);
  assert_string_equal(std::string(tokenizer.value().added_content(1017)).c_str(), "<|image>");
  assert_true(tokenizer.value().added_content(600).empty());
  assert_true(tokenizer.value().prefix() == Ids{2});
  assert_true(tokenizer.value().suffix() == Ids{1});
}

// A merge of a byte token reaches over a place where the text would else be cut.
void test_merged_bytes(void**) {
  File file;
  file.vocab = R"("<bos>":0,"<eos>":1,"<unk>":2,"a":3,"\u2581":4,"<|x|>":5,"<0x0A>a":6)";
  int64_t id = 7;
  int64_t newline = 0;
  for (int byte = 0; byte < 256; ++byte) {
    char name[16];
    std::snprintf(name, sizeof(name), "<0x%02X>", static_cast<unsigned>(byte));
    if (byte == '\n') newline = id;
    file.vocab += ",\"" + std::string(name) + "\":" + std::to_string(id++);
  }
  file.added = R"({"id":0,"content":"<bos>"},{"id":5,"content":"<|x|>"})";
  file.merges = R"(["<0x0A>","a"])";
  assert_true((encoded(file, "a\na\n") == Ids{0, 3, 6, newline, 1}));
  file.merges = "";
  assert_true((encoded(file, "a\na\n") == Ids{0, 3, newline, 3, newline, 1}));
}

void test_invalid_text(void**) {
  const auto tokenizer = GemmaTokenizer::load(kDemo);
  assert_true(tokenizer.ok());
  for (const char* text : {"ab\xFF", "ab\xED\xA0\x80", "ab\xC3", "ab\xC0\x80"}) {
    const auto refused = tokenizer.value().encode(text);
    assert_int_equal(static_cast<int>(refused.status().code()),
                     static_cast<int>(Code::kInvalidArgument));
    assert_true(refused.status().message().find("byte 2") != std::string::npos);
  }
  const auto replaced = tokenizer.value().encode("ab\xE2\x96.\xFF", true);
  assert_true(replaced.ok());
  assert_true(replaced.value() == tokenizer.value().encode("ab\xEF\xBF\xBD.\xEF\xBF\xBD").value());
  const auto zero = tokenizer.value().encode(std::string_view("a\0b", 3));
  assert_true(zero.ok());
  assert_true(zero.value() != tokenizer.value().encode("ab").value());
}

// Long words must not take quadratic time; this would run for hours.
void test_long_words(void**) {
  const auto tokenizer = GemmaTokenizer::load(kDemo);
  assert_true(tokenizer.ok());
  const auto letters = tokenizer.value().encode(std::string(2000000, 'e'));
  assert_true(letters.ok());
  assert_true(letters.value().size() > 2);
  const auto lines = [&](size_t count) {
    std::string text;
    for (size_t i = 0; i < count; ++i) text += "two blue stars on a grey background\n";
    const auto ids = tokenizer.value().encode(text);
    assert_true(ids.ok());
    return ids.value().size();
  };
  assert_int_equal(lines(50000), lines(2) + (lines(3) - lines(2)) * 49998);
  const auto brackets = tokenizer.value().encode(std::string(2000000, '<'));
  assert_true(brackets.ok());
}

void test_refusals(void**) {
  const auto change = [](auto member, const std::string& text, Code code, const std::string& word) {
    File file;
    file.*member = text;
    expect_refused(file, code, word);
  };
  const Code corrupt = Code::kCorruptData;
  const Code unsupported = Code::kUnsupported;
  change(&File::vocab, "", corrupt, "empty");
  change(&File::vocab, R"("a":0,"a":1)", corrupt, "twice");
  change(&File::vocab, R"("a":0,"b":0)", corrupt, "id 0");
  change(&File::vocab, R"("a":99999999)", corrupt, "out of range");
  change(&File::vocab, R"("a":1000000000)", corrupt, "no id");
  change(&File::vocab, R"("a":-1)", corrupt, "no id");
  change(&File::vocab, R"("a":"x")", corrupt, "no id");
  change(&File::vocab, R"("":0)", corrupt, "empty");
  change(&File::vocab, "\"\xFF\":0", corrupt, "UTF-8");
  change(&File::vocab, R"("\ud800":0)", corrupt, "string");
  change(&File::vocab, "\"a\n\":0", corrupt, "string");
  change(&File::vocab, R"("<bos>":0,"<eos>":1,"<unk>":2,"a":40)", corrupt, "part");
  change(&File::merges, R"(["a"])", corrupt, "second");
  change(&File::merges, R"(["a","b","a"])", corrupt, "two parts");
  change(&File::merges, R"(["a","zz"])", corrupt, "zz");
  change(&File::merges, R"(["b","a"])", corrupt, "gives a token");
  change(&File::merges, R"("ab")", corrupt, "one space");
  change(&File::merges, R"("a  b")", corrupt, "one space");
  change(&File::merges, "7", corrupt, "string");
  change(&File::merges, R"(["a","b"],)", corrupt, "string");
  change(&File::merges, R"(["a","b"] ["a","b"])", corrupt, "go on");
  change(&File::normalizer, R"({"type":"NFC"})", unsupported, "NFC");
  change(&File::normalizer, R"({"type":"Replace","pattern":{"String":"a"},"content":"b"})",
         unsupported, "Replace");
  change(&File::normalizer, R"({"type":"Replace","pattern":{"String":" "},"content":"xy"})",
         unsupported, "one other character");
  change(&File::normalizer, "null", unsupported, "Split");
  change(&File::splitter, R"({"type":"ByteLevel"})", unsupported, "ByteLevel");
  change(&File::model, R"("type":"Unigram")", unsupported, "BPE");
  change(&File::model, R"("dropout":0.1)", unsupported, "dropout");
  change(&File::model, R"("ignore_merges":true)", unsupported, "ignore_merges");
  change(&File::model, R"("end_of_word_suffix":"</w>")", unsupported, "end_of_word_suffix");
  change(&File::model, R"("unk_token":"<none>")", corrupt, "<none>");
  change(&File::model, R"("vocab":{})", corrupt, "vocab twice");
  change(&File::model, R"("merges":[])", corrupt, "merges twice");
  change(&File::model, R"("type":BPE)", corrupt, "tokenizer.json");
  change(&File::post, "null", unsupported, "post-processor");
  change(&File::post, R"({"type":"ByteLevel"})", unsupported, "post-processor");
  change(&File::post, R"({"type":"TemplateProcessing","single":[{"Sequence":{"id":"A"}}]})",
         unsupported, "start token");
  change(&File::added, R"({"id":0,"content":"<bos>","lstrip":true})", unsupported, "lstrip");
  change(&File::added, R"({"id":3,"content":"<bos>"})", corrupt, "<bos>");
  change(&File::added, R"({"id":20,"content":"new"})", corrupt, "new");
  change(&File::added, R"({"id":0,"content":""})", corrupt, "added token");
  change(&File::added, R"({"id":13,"content":")" + std::string(2000, 'x') + "\"}", unsupported,
         "1024");
  change(&File::extra, R"(,"truncation":{"max_length":8})", unsupported, "truncation");
  change(&File::extra, R"(,"model":{"vocab":{"a":0},"merges":[]})", corrupt, "two models");
  // Every cut of a good file is refused and none is read past its end.
  const std::string whole = File().text();
  for (size_t size = 0; size < whole.size(); ++size) {
    const std::string cut = whole.substr(0, size);
    assert_false(GemmaTokenizer::parse(cut, "", "cut").ok());
  }
  assert_false(GemmaTokenizer::parse(whole + "x", "", "more").ok());
  const auto pointer =
      GemmaTokenizer::parse("version https://git-lfs.github.com/spec/v1\n", "", "tokenizer.json");
  assert_true(pointer.status().message().find("git lfs pull") != std::string::npos);
  assert_int_equal(static_cast<int>(GemmaTokenizer::load(kDemo + "/samples").status().code()),
                   static_cast<int>(Code::kNotFound));
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(test_merged_bytes), cmocka_unit_test(test_spellings),
      cmocka_unit_test(test_specials),     cmocka_unit_test(test_invalid_text),
      cmocka_unit_test(test_long_words),   cmocka_unit_test(test_refusals),
  };
  return cmocka_run_group_tests_name("gemma load", tests, nullptr, nullptr);
}

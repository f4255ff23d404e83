// SPDX-License-Identifier: Apache-2.0
// The Gemma tokenizer from a bundle's lists: ids of spec iron-bundle-embeddinggemma2.md, 25.2, on
// its toy vocabulary; repeated and missing strings; lists that lead out of range.
#include <cstdio>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "cmocka_cpp.h"
#include "text/gemma_tokenizer.h"

namespace {

using npuseg::core::Code;
using npuseg::text::GemmaTokenizer;
using npuseg::text::TokenLists;
using Ids = std::vector<int64_t>;

const std::string kBlank = "\xe2\x96\x81";

struct Toy {
  Toy() {
    tokens = {"<pad>", "<eos>", "<bos>", "<unk>"};
    for (int byte = 0; byte < 256; ++byte) {
      char name[8];
      std::snprintf(name, sizeof name, "<0x%02X>", static_cast<unsigned>(byte));
      tokens.emplace_back(name);
    }
    for (char c = 33; c < 127; ++c) tokens.emplace_back(1, c);
    tokens.insert(tokens.end(), {kBlank, "\n", "\t", "\xc3\xa9", "\xe4\xb8\xad"});
    const std::pair<std::string, std::string> pairs[] = {
        {kBlank, "t"}, {kBlank + "t", "h"}, {kBlank + "th", "e"}, {"a", "a"}, {"aa", "a"},
        {"e", "r"},    {kBlank, kBlank},    {"\n", "\n"},         {"i", "n"}, {"in", "g"},
        {"c", "a"},    {"ca", "t"},         {kBlank, "cat"},      {"o", "n"}, {"<0xF0>", "<0x9F>"}};
    for (const auto& [left, right] : pairs) {
      merges.insert(merges.end(), {id_of(left), id_of(right), id_of(left + right)});
    }
    for (const char* token : {"<bos>", "<eos>", "<mask>", "<|image|>", "<|image>", "<image|>",
                              "[multimodal]", "<mas"}) {
      added.emplace_back(static_cast<size_t>(id_of(token)), token);
    }
  }

  int32_t id_of(const std::string& token) {
    for (size_t id = 0; id < tokens.size(); ++id) {
      if (tokens[id] == token) return static_cast<int32_t>(id);
    }
    tokens.push_back(token);
    return static_cast<int32_t>(tokens.size() - 1);
  }

  void join() {
    bytes.clear();
    offsets = {0};
    for (const std::string& token : tokens) {
      bytes += token;
      offsets.push_back(static_cast<int32_t>(bytes.size()));
    }
  }

  [[nodiscard]] npuseg::core::Result<GemmaTokenizer> build() const {
    return GemmaTokenizer::from_lists({bytes, offsets, merges, added, 2, 1}, "toy");
  }

  [[nodiscard]] Ids encode(const std::string& text) const {
    const auto tokenizer = build();
    if (!tokenizer.ok()) print_message("%s\n", tokenizer.status().message().c_str());
    assert_true(tokenizer.ok());
    const auto ids = tokenizer.value().encode(text);
    assert_true(ids.ok());
    return ids.value();
  }

  void refused(const std::string& word) const {
    const auto tokenizer = build();
    assert_false(tokenizer.ok());
    assert_int_equal(static_cast<int>(tokenizer.status().code()),
                     static_cast<int>(Code::kCorruptData));
    if (tokenizer.status().message().find(word) == std::string::npos) {
      print_error("%s lacks %s\n", tokenizer.status().message().c_str(), word.c_str());
      fail();
    }
  }

  std::vector<std::string> tokens;
  std::string bytes;
  std::vector<int32_t> offsets;
  std::vector<int32_t> merges;
  std::vector<std::pair<size_t, std::string>> added;
};

Toy toy() {
  Toy made;
  made.join();
  return made;
}

void expect_ids(const Toy& made, const std::string& text, const Ids& wanted) {
  const Ids found = made.encode(text);
  if (found != wanted) print_error("of %s\n", text.c_str());
  assert_true(found == wanted);
}

void test_golden_ids(void**) {
  const Toy made = toy();
  expect_ids(made, "the cat", {2, 343, 331, 328, 371, 1});
  expect_ids(made, "task: search result | query: the cat",
             {2,   343, 324, 342, 334, 285, 354, 342, 328, 324, 341, 326, 331, 354, 341, 328,
              342, 344, 335, 343, 354, 351, 354, 340, 344, 364, 348, 285, 361, 371, 1});
  expect_ids(made, "hello aaaa <mask> x\xc3\xa9\xf0\x9f\x8e\x89 \n\n  aaaaaaa",
             {2,   331, 328, 335, 335, 338, 354, 362, 362, 354, 374, 354,
              347, 357, 373, 146, 141, 354, 366, 365, 362, 362, 363, 1});
  expect_ids(made, "", {2, 1});
  expect_ids(made, "<bos>cat<eos>", {2, 370, 1});
  expect_ids(made, "a<|image|>b<mas", {2, 324, 375, 325, 379, 1});
  expect_ids(made, "<image|><|image>", {2, 377, 376, 1});
  expect_ids(made, "thething", {2, 343, 331, 328, 343, 331, 368, 1});
  expect_ids(made, "aaaaa", {2, 362, 363, 1});
  expect_ids(made, kBlank + "the the", {2, 361, 361, 1});
  expect_ids(made, "caterring on", {2, 370, 364, 341, 368, 354, 372, 1});
}

// Of equal strings the last id, of equal pairs the first merge; ids without a string.
void test_repeats(void**) {
  Toy made;
  const int32_t a = made.id_of("a");
  const int32_t b = made.id_of("b");
  const int32_t ab = made.id_of("ab");
  made.tokens.emplace_back("");
  made.tokens.emplace_back("b");
  const auto last_b = static_cast<int32_t>(made.tokens.size() - 1);
  made.merges.insert(made.merges.end(), {a, last_b, ab, a, last_b, b});
  made.join();
  expect_ids(made, "b", {2, last_b, 1});
  expect_ids(made, "ab", {2, ab, 1});
}

// Merges whose results spell something else still join what the lists say, also across places
// where words are cut for speed.
void test_merges_that_respell(void**) {
  Toy made;
  const int32_t newline = made.id_of("\n");
  const int32_t x = made.id_of("x");
  made.merges.insert(made.merges.end(), {newline, x, made.id_of("q")});
  made.join();
  expect_ids(made, "\nx", {2, made.id_of("q"), 1});
}

void test_refusals(void**) {
  Toy made = toy();
  made.offsets[7] = 1 << 20;
  made.refused("token 6 ");
  made = toy();
  made.offsets[7] = -1;
  made.refused("token 6 ");
  made = toy();
  made.offsets = {0};
  made.refused("empty");
  made = toy();
  made.merges[5] = 100000;
  made.refused("merge 1 ");
  made = toy();
  made.merges[3] = -1;
  made.refused("merge 1 ");
  made = toy();
  made.tokens[20] = "\xff";
  made.join();
  made.refused("token 20 is not UTF-8");
  made = toy();
  made.tokens[4 + 0x41] = "<0x041>";
  made.join();
  made.refused("<0x41>");
  made = toy();
  made.added.emplace_back(100000, "<far>");
  made.refused("<far>");
  made = toy();
  made.added.emplace_back(3, "");
  made.refused("added");
  made = toy();
  const auto far = GemmaTokenizer::from_lists(
      {made.bytes, made.offsets, made.merges, made.added, 2, 100000}, "toy");
  assert_false(far.ok());
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(test_golden_ids),
      cmocka_unit_test(test_repeats),
      cmocka_unit_test(test_merges_that_respell),
      cmocka_unit_test(test_refusals),
  };
  return cmocka_run_group_tests_name("gemma lists", tests, nullptr, nullptr);
}

// SPDX-License-Identifier: Apache-2.0
// Any bytes as a text for a Gemma tokenizer: refused exactly when they are no UTF-8, else the ids
// that merging step by step over the whole text gives, without any cut or heap.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/status.h"
#include "text/gemma_tokenizer.h"
#include "text/utf8.h"

namespace {

using npuseg::text::GemmaTokenizer;
using Ids = std::vector<int64_t>;

// Single characters come first. Tokens join newlines with letters and spaces with what precedes.
const std::vector<std::string> kTokens{"a",
                                       "b",
                                       "c",
                                       ">",
                                       "</",
                                       "\xE2\x96\x81",
                                       "\n",
                                       "\t",
                                       "<",
                                       "\xF0\x9F\x98\x80",
                                       "ab",
                                       "abc",
                                       "aa",
                                       "aaaa",
                                       "\n\n",
                                       "\t\t",
                                       "\xE2\x96\x81"
                                       "a",
                                       "\xE2\x96\x81\xE2\x96\x81",
                                       ">\xE2\x96\x81",
                                       ">\xE2\x96\x81"
                                       "a",
                                       "bc",
                                       "ca",
                                       "\n"
                                       "b"};
struct Rule {
  size_t left;
  size_t right;
  size_t result;
};
const std::vector<Rule> kRules{{0, 1, 10}, {10, 2, 11}, {0, 0, 12},  {12, 12, 13}, {6, 6, 14},
                               {7, 7, 15}, {5, 0, 16},  {5, 5, 17},  {3, 5, 18},   {18, 0, 19},
                               {1, 2, 20}, {2, 0, 21},  {0, 20, 11}, {6, 1, 22}};
const int64_t kFirstByte = static_cast<int64_t>(kTokens.size());
const int64_t kBos = kFirstByte + 256;

std::string quoted(const std::string& token) {
  std::string out = "\"";
  for (const char c : token) {
    if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else {
      out.push_back(c);
    }
  }
  return out + "\"";
}

GemmaTokenizer make_tokenizer() {
  std::string vocab;
  std::string merges;
  size_t id = 0;
  for (const std::string& token : kTokens)
    vocab += quoted(token) + ":" + std::to_string(id++) + ",";
  for (unsigned byte = 0; byte < 256; ++byte) {
    vocab += npuseg::core::format("\"<0x%02X>\":%zu,", byte, id++);
  }
  for (const Rule& rule : kRules) {
    merges += (merges.empty() ? "[" : ",[") + quoted(kTokens[rule.left]) + "," +
              quoted(kTokens[rule.right]) + "]";
  }
  const std::string bos = std::to_string(id);
  const std::string eos = std::to_string(id + 1);
  const std::string json =
      R"({"normalizer":{"type":"Replace","pattern":{"String":" "},"content":"\u2581"},)"
      R"("added_tokens":[{"id":)" +
      bos +
      R"(,"content":"<bos>"}],"post_processor":)"
      R"({"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"<bos>"}},)"
      R"({"Sequence":{"id":"A"}},{"SpecialToken":{"id":"<eos>"}}],"special_tokens":)"
      R"({"<bos>":{"ids":[)" +
      bos + R"(]},"<eos>":{"ids":[)" + eos + R"(]}}},"model":{"byte_fallback":true,"vocab":{)" +
      vocab + R"("<bos>":)" + bos + R"(,"<eos>":)" + eos + R"(},"merges":[)" + merges + "]}}";
  auto tokenizer = GemmaTokenizer::parse(json, "", "fuzz");
  if (!tokenizer.ok()) __builtin_trap();
  return std::move(tokenizer).value();
}

void merge_plainly(Ids symbols, Ids* out) {
  for (;;) {
    size_t best = kRules.size();
    size_t place = 0;
    for (size_t i = 0; i + 1 < symbols.size(); ++i) {
      for (size_t r = 0; r < best; ++r) {
        if (symbols[i] == static_cast<int64_t>(kRules[r].left) &&
            symbols[i + 1] == static_cast<int64_t>(kRules[r].right)) {
          best = r;
          place = i;
        }
      }
    }
    if (best == kRules.size()) break;
    symbols[place] = static_cast<int64_t>(kRules[best].result);
    symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(place) + 1);
  }
  out->insert(out->end(), symbols.begin(), symbols.end());
}

Ids encode_plainly(std::string_view text) {
  const bool framed = !text.starts_with("<bos>");
  Ids out;
  if (framed) out.push_back(kBos);
  Ids symbols;
  for (size_t at = 0; at < text.size();) {
    if (text.substr(at).starts_with("<bos>")) {
      merge_plainly(symbols, &out);
      symbols.clear();
      out.push_back(kBos);
      at += 5;
      continue;
    }
    size_t end = at;
    npuseg::text::next_code_point(text, &end);
    std::string character(text.substr(at, end - at));
    if (character == " ") character = "\xE2\x96\x81";
    bool known = false;
    for (size_t id = 0; id < 10 && !known; ++id) {
      known = kTokens[id] == character;
      if (known) symbols.push_back(static_cast<int64_t>(id));
    }
    for (const char byte : known ? std::string() : character) {
      symbols.push_back(kFirstByte + static_cast<unsigned char>(byte));
    }
    at = end;
  }
  merge_plainly(symbols, &out);
  if (framed) out.push_back(kBos + 1);
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const GemmaTokenizer tokenizer = make_tokenizer();
  constexpr size_t kMost = 300;  // the plain way takes quadratic time
  const std::string_view text(reinterpret_cast<const char*>(data), size < kMost ? size : kMost);
  const auto ids = tokenizer.encode(text);
  const bool valid = npuseg::text::find_invalid_utf8(text) == text.size();
  if (ids.ok() != valid) __builtin_trap();
  const auto replaced = tokenizer.encode(text, true);
  if (!replaced.ok()) __builtin_trap();
  if (valid && replaced.value() != ids.value()) __builtin_trap();
  const std::string whole = npuseg::text::replace_invalid_utf8(text);
  if (replaced.value() != encode_plainly(whole)) __builtin_trap();
  return 0;
}

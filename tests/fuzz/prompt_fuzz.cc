// SPDX-License-Identifier: Apache-2.0
// Any bytes as a prompt: refused exactly when they are no UTF-8, and cut as asked.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "text/clip_tokenizer.h"
#include "text/utf8.h"

namespace {

using npuseg::text::ClipTokenizer;

// Letters with and without word end, few merges, start token found in normalised text.
ClipTokenizer make_tokenizer() {
  std::string vocab;
  int next = 0;
  for (char c = 'a'; c <= 'z'; ++c) {
    for (const char* end : {"", "</w>"}) {
      vocab += "\"" + std::string(1, c) + end + "\":" + std::to_string(next++) + ",";
    }
  }
  vocab += R"("ca":52,"cat</w>":53,"th":54,"the</w>":55,"<|startoftext|>":56,"<|endoftext|>":57)";
  const std::string json = R"({"model":{"vocab":{)" + vocab +
                           R"(},"merges":["c a","t h","ca t</w>","th e</w>"]},"added_tokens":[)"
                           R"({"id":56,"content":"<|startoftext|>","normalized":true},)"
                           R"({"id":57,"content":"<|endoftext|>","normalized":false}]})";
  auto tokenizer = ClipTokenizer::parse(json, "", "fuzz");
  if (!tokenizer.ok()) __builtin_trap();
  return std::move(tokenizer).value();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const ClipTokenizer tokenizer = make_tokenizer();
  constexpr size_t kMost = 32;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto prompt = tokenizer.encode_prompt(text, kMost, true);
  const bool valid = npuseg::text::find_invalid_utf8(text) == text.size();
  if (prompt.ok() != valid) __builtin_trap();
  if (!valid) return 0;
  const auto& ids = prompt.value().ids;
  if (ids.size() < 2 || ids.size() > kMost || ids.front() != 56 || ids.back() != 57) {
    __builtin_trap();
  }
  for (const int64_t id : ids) {
    if (id < 0 || static_cast<size_t>(id) >= tokenizer.vocab_size()) __builtin_trap();
  }
  return 0;
}

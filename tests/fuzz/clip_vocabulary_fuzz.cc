// SPDX-License-Identifier: Apache-2.0
// Any texts as vocab.json, merges.txt and tokenizer_config.json, with a NUL byte between them: how
// bundles keep a CLIP tokenizer. What loads must give ids inside its vocabulary.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "text/clip_tokenizer.h"

namespace {

std::string_view take(std::string_view* text) {
  const size_t nul = text->find('\0');
  const std::string_view part = text->substr(0, nul);
  *text = nul == std::string_view::npos ? std::string_view() : text->substr(nul + 1);
  return part;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  const std::string_view vocab = take(&rest);
  const std::string_view merges = take(&rest);
  const auto tokenizer = npuseg::text::ClipTokenizer::parse_lists(vocab, merges, rest, "fuzz");
  if (!tokenizer.ok()) return 0;
  const auto ids = tokenizer.value().encode("A photo, of 2 cats\xC3\xA9 <|endoftext|> don't");
  if (!ids.ok()) __builtin_trap();
  for (const int64_t id : ids.value()) {
    if (id < 0 || static_cast<size_t>(id) >= tokenizer.value().vocab_size()) __builtin_trap();
  }
  return 0;
}

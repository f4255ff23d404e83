// SPDX-License-Identifier: Apache-2.0
// Any text as tokenizer.json; behind a NUL byte, if there is one, tokenizer_config.json. What loads
// must give ids inside its vocabulary.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "text/clip_tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const size_t nul = text.find('\0');
  const std::string_view config =
      nul == std::string_view::npos ? std::string_view() : text.substr(nul + 1);
  const auto tokenizer = npuseg::text::ClipTokenizer::parse(text.substr(0, nul), config, "fuzz");
  if (!tokenizer.ok()) return 0;
  const auto ids = tokenizer.value().encode("A photo, of 2 cats\xC3\xA9 <|endoftext|> don't");
  if (!ids.ok()) __builtin_trap();
  for (const int64_t id : ids.value()) {
    if (id < 0 || static_cast<size_t>(id) >= tokenizer.value().vocab_size()) __builtin_trap();
  }
  return 0;
}

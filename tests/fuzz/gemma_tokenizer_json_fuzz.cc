// SPDX-License-Identifier: Apache-2.0
// Any text as tokenizer.json of a Gemma tokenizer; behind a NUL byte, if there is one,
// tokenizer_config.json. What loads must give ids inside its vocabulary.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "text/gemma_tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const size_t nul = text.find('\0');
  const std::string_view config =
      nul == std::string_view::npos ? std::string_view() : text.substr(nul + 1);
  const auto tokenizer = npuseg::text::GemmaTokenizer::parse(text.substr(0, nul), config, "fuzz");
  if (!tokenizer.ok()) return 0;
  for (const std::string_view prompt : {"a photo, of 2 cats\xC3\xA9 <|image|>\n\n ab aab <bos>",
                                        "<bos>aab", "", "  \xE2\x96\x81"}) {
    const auto ids = tokenizer.value().encode(prompt);
    if (!ids.ok()) __builtin_trap();
    for (const int64_t id : ids.value()) {
      if (id < 0 || static_cast<size_t>(id) >= tokenizer.value().vocab_size()) __builtin_trap();
    }
  }
  return 0;
}

// SPDX-License-Identifier: Apache-2.0
// Any lists as the tokenizer of a bundle of EmbeddingGemma 2. What loads must give ids inside its
// vocabulary. The input, little-endian: uint16 numbers of offsets, merges and added tokens, uint16
// start and end id; the offsets, three int32 a merge, and of every added token its id as uint16 and
// a byte of which its content is made; the rest is the strings.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/gemma_tokenizer.h"

namespace {

class Reader {
 public:
  Reader(const uint8_t* data, size_t size) : at_(data), left_(size) {}

  // Zeros behind the end.
  template <class T>
  T take() {
    T value{};
    const size_t bytes = left_ < sizeof value ? left_ : sizeof value;
    if (bytes != 0) std::memcpy(&value, at_, bytes);
    at_ += bytes;
    left_ -= bytes;
    return value;
  }
  // As many as there are.
  std::vector<int32_t> take_words(size_t count) {
    std::vector<int32_t> words;
    while (words.size() < count && left_ >= sizeof(int32_t)) words.push_back(take<int32_t>());
    return words;
  }
  [[nodiscard]] std::string_view rest() const {
    return {reinterpret_cast<const char*>(at_), left_};
  }

 private:
  const uint8_t* at_;
  size_t left_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Reader reader(data, size);
  const size_t offsets = reader.take<uint16_t>();
  const size_t merges = reader.take<uint16_t>();
  const size_t added = reader.take<uint16_t>() % 64;
  npuseg::text::TokenLists lists;
  lists.start = reader.take<uint16_t>();
  lists.end = reader.take<uint16_t>();
  const std::vector<int32_t> offset_words = reader.take_words(offsets);
  const std::vector<int32_t> merge_words = reader.take_words(3 * merges);
  std::vector<std::pair<size_t, std::string>> contents;
  for (size_t i = 0; i < added; ++i) {
    const size_t id = reader.take<uint16_t>();
    const auto letter = static_cast<char>(reader.take<uint8_t>());
    contents.emplace_back(id, std::string("<|") + letter + "|>");
  }
  lists.offsets = offset_words;
  lists.merges = merge_words;
  lists.added = contents;
  lists.bytes = reader.rest();
  const auto tokenizer = npuseg::text::GemmaTokenizer::from_lists(lists, "fuzz");
  if (!tokenizer.ok()) return 0;
  for (const std::string_view text :
       {"a photo, of 2 cats\xC3\xA9 <|i|>\n\n ab aab <|b|>", "<|b|>aab", "", "  \xE2\x96\x81"}) {
    const auto ids = tokenizer.value().encode(text);
    if (!ids.ok()) __builtin_trap();
    for (const int64_t id : ids.value()) {
      if (id < 0 || static_cast<size_t>(id) >= tokenizer.value().vocab_size()) __builtin_trap();
    }
  }
  return 0;
}

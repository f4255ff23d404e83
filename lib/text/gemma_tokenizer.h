// SPDX-License-Identifier: Apache-2.0
// The Gemma tokenizer of EmbeddingGemma 2: spaces become U+2581, all text between two added tokens
// is one word for byte pair encoding, unknown characters fall back to their bytes (transformers
// GemmaTokenizer; spec embeddinggemma2-model.md 6, imaging-and-tokenizers.md 11).
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/status.h"
#include "text/added_tokens.h"
#include "text/pair_table.h"

namespace npuseg::core {
class Call;
}  // namespace npuseg::core

namespace npuseg::text {

// Immutable after load; any number of threads may use one.
// A tokenizer as lists, of which the caller keeps the memory: how a bundle stores one (spec
// iron-bundle-embeddinggemma2.md, 14). Its rules are the released model's.
struct TokenLists {
  std::string_view bytes;            // the strings of all tokens
  std::span<const int32_t> offsets;  // token i is bytes offsets[i] .. offsets[i + 1]
  std::span<const int32_t> merges;   // (left, right, result) by rank, the lowest first
  std::span<const std::pair<size_t, std::string>> added;  // id, content
  uint32_t start = 0;
  uint32_t end = 0;
};

class GemmaTokenizer {
 public:
  // tokenizer.json; tokenizer_config.json where present. Every rule is read from the files; rules
  // that are not implemented are UNSUPPORTED, by name.
  static core::Result<GemmaTokenizer> load(const std::string& directory);
  // From texts in memory; config may be empty. `where` names them in messages.
  static core::Result<GemmaTokenizer> parse(std::string_view tokenizer_json,
                                            std::string_view tokenizer_config_json,
                                            const std::string& where);
  // An id without a string is never produced. Of equal strings the last id counts, of equal pairs
  // the first merge. CORRUPT_DATA: offsets or ids out of range, a string that is no UTF-8, a
  // missing byte token.
  static core::Result<GemmaTokenizer> from_lists(const TokenLists& lists, const std::string& where);

  // prefix() + ids of the text + suffix(); of a text that begins with the start token's own
  // spelling, the ids alone, as the reference does. Strings of added tokens in the text become
  // their ids. Invalid UTF-8 is INVALID_ARGUMENT with its byte offset, or U+FFFD when asked.
  [[nodiscard]] core::Result<std::vector<int64_t>> encode(std::string_view text,
                                                          bool replace_invalid = false) const;
  // Ids of valid UTF-8, appended, without prefix and suffix. `call` may stop it.
  [[nodiscard]] core::Status encode_plain(std::string_view text, std::vector<int64_t>* ids,
                                          core::Call* call = nullptr) const;

  // What goes around every input: start and end token.
  [[nodiscard]] const std::vector<int64_t>& prefix() const { return prefix_; }
  [[nodiscard]] const std::vector<int64_t>& suffix() const { return suffix_; }
  // Does the text spell the start token first?
  [[nodiscard]] bool begins_with_start(std::string_view text) const {
    return !start_.empty() && text.starts_with(start_);
  }

  // -1 when no added token has this content.
  [[nodiscard]] int64_t added_id(std::string_view content) const;
  // Empty when the id is no added token's.
  [[nodiscard]] std::string_view added_content(int64_t id) const;

  [[nodiscard]] size_t vocab_size() const { return vocab_size_; }  // highest id + 1
  [[nodiscard]] size_t memory_bytes() const;                       // of the tables

 private:
  friend class GemmaTokenizerBuilder;
  static constexpr uint32_t kNone = UINT32_MAX;
  static constexpr size_t kPageSize = 256;  // code points

  // Ids of single characters, 256 to a page; pages without any share the first one.
  struct Characters {
    std::vector<uint16_t> page_of = std::vector<uint16_t>(0x110000 / kPageSize, 0);
    std::vector<uint32_t> ids = std::vector<uint32_t>(kPageSize, kNone);

    void set(char32_t c, uint32_t id);
    [[nodiscard]] uint32_t find(char32_t c) const {
      return ids[size_t{page_of[c / kPageSize]} * kPageSize + c % kPageSize];
    }
  };

  // Where a word may be cut without changing any id, since no token spans the place.
  struct Cuts {
    bool on = false;                       // only when no character can be unknown
    bool newline = false;                  // no token mixes newlines with others
    bool tab = false;                      // likewise
    std::vector<char32_t> before_space{};  // characters that some token has before a space
    [[nodiscard]] bool between(char32_t left, char32_t right, char32_t space) const;
  };

  struct Work;
  void encode_words(std::string_view text, Work* work, std::vector<int64_t>* ids) const;
  void append_character(char32_t c, Work* work) const;
  void flush(Work* work, std::vector<int64_t>* ids) const;
  void merge_short(Work* work) const;
  void merge_long(Work* work) const;

  AddedTokens raw_added_;         // found in the raw text
  AddedTokens normalized_added_;  // found where spaces are replaced
  std::map<std::string, uint32_t, std::less<>> added_;
  Characters characters_;
  PairTable merges_;
  Cuts cuts_;
  char32_t space_ = ' ';  // what U+0020 becomes
  bool byte_fallback_ = false;
  bool fuse_unknown_ = false;
  uint32_t unknown_ = kNone;
  uint32_t byte_ids_[256];  // kNone where the vocabulary has none
  std::vector<int64_t> prefix_;
  std::vector<int64_t> suffix_;
  std::string start_;
  size_t vocab_size_ = 0;
};

}  // namespace npuseg::text

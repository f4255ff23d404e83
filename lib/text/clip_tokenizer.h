// SPDX-License-Identifier: Apache-2.0
// The CLIP tokenizer of SAM 3 (transformers CLIPTokenizer; spec imaging-and-tokenizers.md 10).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/status.h"
#include "text/bpe.h"

namespace npuseg::text {

// A prompt fitted to a model's positions.
struct Prompt {
  std::vector<int64_t> ids;  // BOS ... EOS, no padding
  size_t total = 0;          // tokens before anything was cut
  bool truncated = false;
};

// Immutable after load; any number of threads may use one.
class ClipTokenizer {
 public:
  // tokenizer.json, else vocab.json + merges.txt; tokenizer_config.json where present. As in the
  // reference class, normaliser and splitter are CLIP's whatever the file says.
  static core::Result<ClipTokenizer> load(const std::string& directory);
  // From texts in memory; config may be empty. `where` names them in messages.
  static core::Result<ClipTokenizer> parse(std::string_view tokenizer_json,
                                           std::string_view tokenizer_config_json,
                                           const std::string& where);

  static core::Result<ClipTokenizer> parse_lists(std::string_view vocab_json,
                                                 std::string_view merges_txt,
                                                 std::string_view tokenizer_config_json,
                                                 const std::string& where);

  // BOS ... EOS. Invalid UTF-8 is INVALID_ARGUMENT with its byte offset.
  [[nodiscard]] core::Result<std::vector<int64_t>> encode(std::string_view text) const;

  // encode, then: more than max_tokens are LIMIT_EXCEEDED with the count, or cut to the first
  // max_tokens - 1 and EOS.
  [[nodiscard]] core::Result<Prompt> encode_prompt(std::string_view text, size_t max_tokens,
                                                   bool truncate) const;

  [[nodiscard]] int64_t bos_id() const { return bos_; }
  [[nodiscard]] int64_t eos_id() const { return eos_; }
  [[nodiscard]] int64_t pad_id() const { return pad_; }
  [[nodiscard]] size_t vocab_size() const { return vocab_size_; }  // highest id + 1

 private:
  friend class ClipTokenizerBuilder;

  struct AddedToken {
    std::string content;  // normalised where `normalized`
    uint32_t id = 0;
  };

  void encode_words(std::string_view normalized, std::vector<int64_t>* ids) const;
  void encode_word(std::string_view word, std::vector<int64_t>* ids) const;
  core::Status encode_piece(std::string_view raw, std::vector<int64_t>* ids) const;

  std::vector<AddedToken> raw_added_;         // found in the raw text
  std::vector<AddedToken> normalized_added_;  // found in normalised pieces
  uint32_t byte_id_[256] = {};
  uint32_t last_byte_id_[256] = {};  // with the end-of-word suffix
  MergeTable merges_;
  int64_t bos_ = 0;
  int64_t eos_ = 0;
  int64_t pad_ = 0;
  size_t vocab_size_ = 0;
};

}  // namespace npuseg::text

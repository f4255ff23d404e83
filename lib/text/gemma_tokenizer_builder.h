// SPDX-License-Identifier: Apache-2.0
// Collects what the files of a Gemma tokenizer say, then builds the tables.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "core/json.h"
#include "core/status.h"
#include "text/gemma_tokenizer.h"
#include "text/json_scanner.h"
#include "text/token_pool.h"

namespace npuseg::text {

// A token in a message: short, and valid UTF-8 whatever the file holds.
std::string shown(std::string_view token);

class GemmaTokenizerBuilder {
 public:
  explicit GemmaTokenizerBuilder(std::string where) : where_(std::move(where)) {}

  core::Status read_tokenizer(std::string_view json);
  core::Status read_config(const core::JsonValue& root);
  core::Status read_lists(const TokenLists& lists);
  core::Result<GemmaTokenizer> finish();

 private:
  core::Status broken(const std::string& why) const {
    return core::Status(core::Code::kCorruptData,
                        "cannot use tokenizer: " + where_ + ": " + why + "; get the file again");
  }
  core::Status unsupported(const std::string& what) const {
    return core::Status(core::Code::kUnsupported,
                        "cannot use tokenizer: " + where_ + ": " + what +
                            "; use the tokenizer of an EmbeddingGemma 2 model");
  }

  core::Status scan_root(JsonScanner* scanner, std::string* rest);
  core::Status scan_model(JsonScanner* scanner, std::string* rest);
  core::Status scan_vocab(JsonScanner* scanner, size_t file_size);
  core::Status scan_merges(JsonScanner* scanner);
  // False when there is no string, or one with a wrong escape.
  static bool take_string(JsonScanner* scanner, std::string* scratch, std::string_view* out) {
    bool escaped = false;
    if (!scanner->take_string(out, &escaped)) return false;
    return !escaped || unescape(scratch, out);
  }
  static bool unescape(std::string* scratch, std::string_view* out);
  [[nodiscard]] core::Status fault(const JsonScanner& scanner) const {
    return broken(core::format("byte %zu: a string was expected", scanner.position()));
  }
  core::Status read_rules(const core::JsonValue& root);
  core::Status read_normalizer(const core::JsonValue& normalizer);
  core::Status read_pre_tokenizer(const core::JsonValue& splitter);
  core::Status read_model(const core::JsonValue& model);
  core::Status read_post_processor(const core::JsonValue& processor);
  core::Status read_template_token(const core::JsonValue& piece, const core::JsonValue& specials,
                                   std::vector<int64_t>* out);
  core::Status add_token(uint64_t id, const core::JsonValue& token);
  core::Status add_named(const core::JsonValue& name);
  core::Status read_listed_tokens(const TokenLists& lists);
  core::Status read_listed_merges(const TokenLists& lists);
  core::Status read_listed_added(const TokenLists& lists);
  core::Status check_ids();
  void read_characters();
  [[nodiscard]] bool merges_use_bytes() const;
  void read_cuts();

  // Merges whose parts are being looked for: left, right, left, right ...
  core::Status resolve(TokenPool::Search* parts, size_t count);

  std::string where_;
  TokenPool pool_;
  std::vector<PairMerge> merges_;
  uint32_t last_result_ = 0;
  std::string joined_;
  bool replaces_space_ = false;
  bool ids_may_lack_ = false;  // not every id has a string of its own
  bool merges_join_ = true;    // the result of each spells its two parts
  GemmaTokenizer out_;
};

}  // namespace npuseg::text

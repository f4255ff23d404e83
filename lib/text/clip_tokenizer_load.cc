// SPDX-License-Identifier: Apache-2.0
// Reading the CLIP tokenizer's files into tables of ids.
#include <algorithm>
#include <map>
#include <optional>
#include <unordered_map>

#include "core/file.h"
#include "core/json.h"
#include "text/clip_tokenizer.h"
#include "text/unicode.h"
#include "text/utf8.h"

namespace npuseg::text {

using core::Code;
using core::JsonDocument;
using core::JsonValue;
using core::Result;
using core::Status;

namespace {

constexpr size_t kMaxFileBytes = size_t{256} << 20;
constexpr uint64_t kMaxId = uint64_t{1} << 24;
constexpr const char* kBos = "<|startoftext|>";
constexpr const char* kEos = "<|endoftext|>";
constexpr std::string_view kSuffix = "</w>";

// The printable stand-in of a byte in byte-level vocabularies.
char32_t symbol_of(unsigned byte) {
  const auto plain = [](unsigned b) {
    return (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
  };
  if (plain(byte)) return byte;
  char32_t shifted = 0x100;
  for (unsigned b = 0; b < byte; ++b) {
    if (!plain(b)) ++shifted;
  }
  return shifted;
}

// A token name in tokenizer_config.json: a string, or an object with its content.
bool token_name(const JsonValue& value, std::string_view* out) {
  return value.get(out) || value["content"].get(out);
}

struct Added {
  std::string content;
  bool normalized = false;
};

}  // namespace

class ClipTokenizerBuilder {
 public:
  explicit ClipTokenizerBuilder(std::string where) : where_(std::move(where)) {}

  Status add_vocab(const JsonValue& vocab) {
    if (!vocab.is_object()) return broken("has no vocabulary object");
    vocab_.reserve(vocab.size());
    return vocab.for_each_member([&](std::string_view token, const JsonValue& value) -> Status {
      uint64_t id = 0;
      if (!value.get(&id) || id > kMaxId) {
        return broken("vocabulary entry \"" + std::string(token) + "\" has no usable id");
      }
      if (token.empty()) return broken("vocabulary has an empty token");
      if (!vocab_.emplace(token, static_cast<uint32_t>(id)).second) {
        return broken("vocabulary entry \"" + std::string(token) + "\" is there twice");
      }
      note_id(static_cast<uint32_t>(id));
      return {};
    });
  }

  Status add_merge(std::string_view left, std::string_view right) {
    joined_.assign(left).append(right);
    const auto a = vocab_.find(left);
    const auto b = vocab_.find(right);
    const auto joined = vocab_.find(joined_);
    if (a == vocab_.end() || b == vocab_.end() || joined == vocab_.end()) {
      return broken(
          core::format("merge %zu: \"%s\" or \"%s\" or what they give is not in the "
                       "vocabulary",
                       ranks_.size(), std::string(left).c_str(), std::string(right).c_str()));
    }
    ranks_.push_back({a->second, b->second, joined->second});
    return {};
  }

  Status add_merges(const JsonValue& merges) {
    if (!merges.is_array()) return broken("has no merges array");
    return merges.for_each_element([&](const JsonValue& merge) -> Status {
      std::string_view text;
      if (merge.get(&text)) return add_merge_line(text);
      std::string_view parts[2];
      size_t count = 0;
      NPUSEG_RETURN_IF_ERROR(merge.for_each_element([&](const JsonValue& part) -> Status {
        if (!part.get(&parts[count < 2 ? count : 1])) {
          return broken("has a merge that is not of strings");
        }
        ++count;
        return {};
      }));
      if (count != 2) return broken("has a merge that is not of two strings");
      return add_merge(parts[0], parts[1]);
    });
  }

  Status add_merge_line(std::string_view line) {
    const size_t space = line.find(' ');
    if (space == std::string_view::npos || line.find(' ', space + 1) != std::string_view::npos) {
      return broken("merge \"" + std::string(line) + "\" is not two tokens with one space");
    }
    return add_merge(line.substr(0, space), line.substr(space + 1));
  }

  Status add_token(uint64_t id, const JsonValue& token) {
    std::string_view content;
    if (id > kMaxId || !token["content"].get(&content) || content.empty()) {
      return broken("has an added token without id or content");
    }
    for (const char* flag : {"lstrip", "rstrip", "single_word"}) {
      bool on = false;
      if (token[flag].get(&on) && on) {
        return Status(Code::kUnsupported, "cannot use tokenizer: " + where_ + ": added token \"" +
                                              std::string(content) + "\" sets " + flag +
                                              ", which CLIP tokenizers do not; use the model's own "
                                              "files");
      }
    }
    bool normalized = false;
    token["normalized"].get(&normalized);
    added_[static_cast<uint32_t>(id)] = {std::string(content), normalized};
    note_id(static_cast<uint32_t>(id));
    return {};
  }

  Status read_tokenizer(const JsonValue& root) {
    if (!root.is_object()) return broken("is not an object");
    const JsonValue model = root["model"];
    std::string_view type = "BPE";
    if (model["type"].exists() && (!model["type"].get(&type) || type != "BPE")) {
      return Status(Code::kUnsupported, "cannot use tokenizer: " + where_ +
                                            ": model type is not "
                                            "BPE; use the tokenizer of a SAM 3 model");
    }
    NPUSEG_RETURN_IF_ERROR(add_vocab(model["vocab"]));
    NPUSEG_RETURN_IF_ERROR(add_merges(model["merges"]));
    NPUSEG_RETURN_IF_ERROR(
        root["added_tokens"].for_each_element([&](const JsonValue& token) -> Status {
          uint64_t id = UINT64_MAX;
          token["id"].get(&id);
          return add_token(id, token);
        }));
    return read_post_processor(root["post_processor"]);
  }

  Status read_config(const JsonValue& root) {
    NPUSEG_RETURN_IF_ERROR(root["added_tokens_decoder"].for_each_member(
        [&](std::string_view key, const JsonValue& token) -> Status {
          uint64_t id = 0;
          if (key.empty() || key.size() > 9)
            return broken("has an added token with id " + std::string(key));
          for (const char c : key) {
            if (c < '0' || c > '9') return broken("has an added token with id " + std::string(key));
            id = id * 10 + static_cast<uint64_t>(c - '0');
          }
          return add_token(id, token);
        }));
    // The reference takes the names here before what the post-processor says.
    const auto named = [&](const char* key, std::optional<uint32_t>* id) {
      std::string_view name;
      if (!token_name(root[key], &name)) return;
      if (const std::optional<uint32_t> found = id_of(name)) *id = found;
    };
    named("bos_token", &bos_);
    named("eos_token", &eos_);
    named("pad_token", &pad_);
    return {};
  }

  // While the documents read from are alive.
  Result<ClipTokenizer> finish() {
    NPUSEG_RETURN_IF_ERROR(check_ids());
    ClipTokenizer out;
    const std::optional<uint32_t> bos = bos_ ? bos_ : id_of(kBos);
    const std::optional<uint32_t> eos = eos_ ? eos_ : id_of(kEos);
    if (!bos || !eos) {
      return broken(std::string("has neither ") + kBos + " and " + kEos +
                    " nor other start and end");
    }
    for (const uint32_t id : {*bos, *eos, pad_.value_or(*eos)}) {
      if (id >= vocab_size_) {
        return broken(
            core::format("start, end or padding token has id %u of %zu", id, vocab_size_));
      }
    }
    out.bos_ = *bos;
    out.eos_ = *eos;
    out.pad_ = pad_ ? *pad_ : *eos;
    out.vocab_size_ = vocab_size_;
    // What the vocabulary lacks is the unknown token, which is the end token in CLIP.
    for (unsigned b = 0; b < 256; ++b) {
      std::string symbol;
      append_utf8(symbol_of(b), &symbol);
      out.byte_id_[b] = id_of(symbol).value_or(*eos);
      out.last_byte_id_[b] = id_of(symbol + std::string(kSuffix)).value_or(*eos);
    }
    // Without a list of added tokens the reference class adds its own, found in the raw text.
    for (const uint32_t id : {*bos, *eos}) {
      if (added_.find(id) != added_.end()) continue;
      for (const auto& [token, token_id] : vocab_) {
        if (token_id == id) added_[id] = {std::string(token), false};
      }
    }
    out.merges_.reserve(ranks_.size());
    for (size_t rank = 0; rank < ranks_.size(); ++rank) {
      const auto& [left, right, id] = ranks_[rank];
      out.merges_.add(left, right, {static_cast<uint32_t>(rank), id});
    }
    for (const auto& [id, token] : added_) {
      if (!token.normalized) {
        out.raw_added_.push_back({token.content, id});
        continue;
      }
      std::string lowered;
      NPUSEG_ASSIGN_OR_RETURN(const std::string composed, to_nfc(token.content));
      for (size_t at = 0; at < composed.size();) {
        append_lower(next_code_point(composed, &at), &lowered);
      }
      out.normalized_added_.push_back({lowered, id});
    }
    return out;
  }

  Status broken(const std::string& why) const {
    return Status(Code::kCorruptData,
                  "cannot use tokenizer: " + where_ + ": " + why + "; get the file again");
  }

 private:
  // Every id from 0 has one token; an added token that is in the vocabulary has its id there.
  [[nodiscard]] Status check_ids() {
    const size_t most = vocab_.size() + added_.size();
    if (vocab_size_ > most) {
      return broken(core::format("id %zu is behind the %zu tokens it has", vocab_size_ - 1, most));
    }
    std::vector<bool> taken(vocab_size_, false);
    size_t count = 0;
    const auto take = [&](std::string_view token, uint32_t id) -> Status {
      if (taken[id]) {
        return broken(core::format("id %u of \"%s\" belongs to another token too", id,
                                   std::string(token).c_str()));
      }
      taken[id] = true;
      ++count;
      return {};
    };
    for (const auto& [token, id] : vocab_) NPUSEG_RETURN_IF_ERROR(take(token, id));
    for (const auto& [id, added] : added_) {
      const auto [at, is_new] = vocab_.emplace(added.content, id);
      if (is_new) {
        NPUSEG_RETURN_IF_ERROR(take(added.content, id));
      } else if (at->second != id) {
        return broken(core::format("added token \"%s\" has id %u and id %u", added.content.c_str(),
                                   id, at->second));
      }
    }
    if (count != vocab_size_) {
      return broken(core::format("has %zu tokens for ids up to %zu", count, vocab_size_ - 1));
    }
    return {};
  }

  void note_id(uint32_t id) { vocab_size_ = std::max<size_t>(vocab_size_, size_t{id} + 1); }

  [[nodiscard]] std::optional<uint32_t> id_of(std::string_view token) const {
    for (const auto& [id, added] : added_) {
      if (added.content == token) return id;
    }
    const auto at = vocab_.find(token);
    if (at == vocab_.end()) return std::nullopt;
    return at->second;
  }

  // Where start and end token come from: the Roberta form names them, the template form lists them.
  Status read_post_processor(const JsonValue& processor) {
    if (!processor.exists() || processor.is_null()) return {};
    std::string_view type;
    if (!processor["type"].get(&type)) return broken("has a post-processor without type");
    if (type == "RobertaProcessing" || type == "BertProcessing") {
      bos_ = pair_id(processor["cls"]);
      eos_ = pair_id(processor["sep"]);
      if (!bos_ || !eos_) return broken("has a post-processor without start and end token");
      return {};
    }
    if (type != "TemplateProcessing") {
      return Status(Code::kUnsupported, "cannot use tokenizer: " + where_ + ": post-processor " +
                                            std::string(type) +
                                            " is unknown; use the model's own "
                                            "files");
    }
    bool text_seen = false;
    size_t before = 0;
    size_t behind = 0;
    NPUSEG_RETURN_IF_ERROR(
        processor["single"].for_each_element([&](const JsonValue& piece) -> Status {
          if (piece["Sequence"].exists()) {
            text_seen = true;
            return {};
          }
          std::string_view name;
          if (!piece["SpecialToken"]["id"].get(&name))
            return broken("has an unknown template piece");
          (text_seen ? eos_ : bos_) = id_of(name);
          ++(text_seen ? behind : before);
          return {};
        }));
    if (!text_seen || before != 1 || behind != 1 || !bos_ || !eos_) {
      return Status(Code::kUnsupported,
                    "cannot use tokenizer: " + where_ +
                        ": its template is not "
                        "start token, text, end token; use the model's own files");
    }
    return {};
  }

  static std::optional<uint32_t> pair_id(const JsonValue& pair) {
    std::optional<uint32_t> id;
    size_t index = 0;
    const Status read = pair.for_each_element([&](const JsonValue& part) -> Status {
      uint64_t value = 0;
      if (index++ == 1 && part.get(&value) && value <= kMaxId) id = static_cast<uint32_t>(value);
      return {};
    });
    return read.ok() ? id : std::nullopt;
  }

  struct Ranked {
    uint32_t left;
    uint32_t right;
    uint32_t id;
  };

  std::string where_;
  std::unordered_map<std::string_view, uint32_t> vocab_;  // names live in the document
  std::string joined_;
  std::vector<Ranked> ranks_;
  std::map<uint32_t, Added> added_;
  std::optional<uint32_t> bos_;
  std::optional<uint32_t> eos_;
  std::optional<uint32_t> pad_;
  size_t vocab_size_ = 0;
};

Result<ClipTokenizer> ClipTokenizer::parse(std::string_view tokenizer_json,
                                           std::string_view tokenizer_config_json,
                                           const std::string& where) {
  ClipTokenizerBuilder builder(where);
  NPUSEG_ASSIGN_OR_RETURN(const JsonDocument document, JsonDocument::parse(tokenizer_json, where));
  NPUSEG_RETURN_IF_ERROR(builder.read_tokenizer(document.root()));
  if (!tokenizer_config_json.empty()) {
    NPUSEG_ASSIGN_OR_RETURN(
        const JsonDocument config,
        JsonDocument::parse(tokenizer_config_json, where + " (tokenizer_config.json)"));
    NPUSEG_RETURN_IF_ERROR(builder.read_config(config.root()));
  }
  return builder.finish();
}

Result<ClipTokenizer> ClipTokenizer::parse_lists(std::string_view vocab_json,
                                                 std::string_view merges_txt,
                                                 std::string_view tokenizer_config_json,
                                                 const std::string& where) {
  ClipTokenizerBuilder builder(where);
  NPUSEG_ASSIGN_OR_RETURN(const JsonDocument vocab, JsonDocument::parse(vocab_json, where));
  NPUSEG_RETURN_IF_ERROR(builder.add_vocab(vocab.root()));
  for (size_t at = 0; at < merges_txt.size();) {
    const size_t end = std::min(merges_txt.find('\n', at), merges_txt.size());
    std::string_view line = merges_txt.substr(at, end - at);
    if (line.ends_with('\r')) line.remove_suffix(1);
    const bool heading = at == 0 && line.starts_with("#version");
    if (!heading && !line.empty()) NPUSEG_RETURN_IF_ERROR(builder.add_merge_line(line));
    at = end + 1;
  }
  if (!tokenizer_config_json.empty()) {
    NPUSEG_ASSIGN_OR_RETURN(
        const JsonDocument config,
        JsonDocument::parse(tokenizer_config_json, where + " (tokenizer_config.json)"));
    NPUSEG_RETURN_IF_ERROR(builder.read_config(config.root()));
  }
  return builder.finish();
}

Result<ClipTokenizer> ClipTokenizer::load(const std::string& directory) {
  const std::string path = core::join_path(directory, "tokenizer.json");
  const std::string config_path = core::join_path(directory, "tokenizer_config.json");
  std::string config;
  if (core::file_exists(config_path)) {
    NPUSEG_ASSIGN_OR_RETURN(config, core::read_file(config_path, kMaxFileBytes));
  }
  if (core::file_exists(path)) {
    NPUSEG_ASSIGN_OR_RETURN(const std::string text, core::read_file(path, kMaxFileBytes));
    return parse(text, config, path);
  }
  const std::string vocab_path = core::join_path(directory, "vocab.json");
  const std::string merges_path = core::join_path(directory, "merges.txt");
  if (!core::file_exists(vocab_path) || !core::file_exists(merges_path)) {
    return Status(Code::kNotFound,
                  "cannot open tokenizer: " + directory +
                      ": has neither tokenizer.json nor vocab.json and merges.txt; "
                      "add the model's tokenizer files");
  }
  NPUSEG_ASSIGN_OR_RETURN(const std::string vocab, core::read_file(vocab_path, kMaxFileBytes));
  NPUSEG_ASSIGN_OR_RETURN(const std::string merges, core::read_file(merges_path, kMaxFileBytes));
  return parse_lists(vocab, merges, config, vocab_path);
}

}  // namespace npuseg::text

// SPDX-License-Identifier: Apache-2.0
// The rules of a tokenizer.json and the tokens that its companion names. What is not implemented is
// refused by name, never ignored.
#include <algorithm>

#include "text/gemma_tokenizer_builder.h"
#include "text/utf8.h"

namespace npuseg::text {

using core::Code;
using core::format;
using core::JsonValue;
using core::Status;

namespace {
constexpr size_t kMaxIds = size_t{1} << 24;
constexpr size_t kMaxTemplate = 16;  // tokens on each side of a text
}  // namespace

Status GemmaTokenizerBuilder::read_normalizer(const JsonValue& value) {
  if (!value.exists() || value.is_null()) return {};
  std::string_view type;
  value["type"].get(&type);
  if (type == "Sequence") {
    const JsonValue parts = value["normalizers"];
    if (parts.size() > 1) return unsupported("it has more than one normalizer");
    return parts.for_each_element([&](const JsonValue& only) -> Status {
      std::string_view inner;
      only["type"].get(&inner);
      if (inner == "Sequence") return unsupported("it has nested normalizers");
      return read_normalizer(only);
    });
  }
  std::string_view pattern;
  std::string_view content;
  if (type != "Replace" || !value["pattern"]["String"].get(&pattern) || pattern != " " ||
      !value["content"].get(&content)) {
    return unsupported("normalizer " + shown(type) +
                       " is not the replacement of U+0020 by one character");
  }
  size_t end = 0;
  char32_t c = 0;
  if (!content.empty()) c = next_code_point(content, &end);
  if (end == 0 || end != content.size() || c == ' ') {
    return unsupported("its normalizer does not replace U+0020 by one other character");
  }
  out_.space_ = c;
  replaces_space_ = true;
  return {};
}

// The only splitter there is looks for spaces, of which the normalizer leaves none.
Status GemmaTokenizerBuilder::read_pre_tokenizer(const JsonValue& value) {
  if (!value.exists() || value.is_null()) return {};
  std::string_view type;
  std::string_view pattern;
  bool invert = false;
  value["type"].get(&type);
  value["invert"].get(&invert);
  if (type != "Split" || !value["pattern"]["String"].get(&pattern) || pattern != " " || invert ||
      !replaces_space_) {
    return unsupported("pre-tokenizer " + shown(type) +
                       " is not the split at U+0020 behind its replacement");
  }
  return {};
}

Status GemmaTokenizerBuilder::read_model(const JsonValue& model) {
  std::string_view text;
  if (model["type"].exists() && (!model["type"].get(&text) || text != "BPE")) {
    return unsupported("its model is not of type BPE");
  }
  double dropout = 0.0;
  if (model["dropout"].get(&dropout) && dropout != 0.0) {
    return unsupported("its model sets dropout");
  }
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    if (model[key].get(&text) && !text.empty()) {
      return unsupported(std::string("its model sets ") + key);
    }
  }
  bool ignore_merges = false;
  if (model["ignore_merges"].get(&ignore_merges) && ignore_merges) {
    return unsupported("its model sets ignore_merges");
  }
  model["byte_fallback"].get(&out_.byte_fallback_);
  model["fuse_unk"].get(&out_.fuse_unknown_);
  for (unsigned byte = 0; byte < 256; ++byte) {
    out_.byte_ids_[byte] = pool_.find(format("<0x%02X>", byte));
  }
  if (model["unk_token"].get(&text)) {
    out_.unknown_ = pool_.find(text);
    if (out_.unknown_ == TokenPool::kNone) {
      return broken("its unknown token " + shown(text) + " is not in the vocabulary");
    }
  }
  return {};
}

Status GemmaTokenizerBuilder::read_template_token(const JsonValue& piece, const JsonValue& specials,
                                                  std::vector<int64_t>* out) {
  std::string_view name;
  if (!piece["SpecialToken"]["id"].get(&name)) {
    return unsupported("its template has an unknown piece");
  }
  size_t count = 0;
  NPUSEG_RETURN_IF_ERROR(
      specials[name]["ids"].for_each_element([&](const JsonValue& value) -> Status {
        uint64_t id = 0;
        if (!value.get(&id) || id >= pool_.id_limit()) {
          return broken("its template token " + shown(name) + " has a wrong id");
        }
        if (out->size() == kMaxTemplate) return unsupported("its template is too long");
        out->push_back(static_cast<int64_t>(id));
        ++count;
        return {};
      }));
  if (count == 0) return broken("its template token " + shown(name) + " has no id");
  if (out == &out_.prefix_ && out_.start_.empty()) out_.start_ = name;
  return {};
}

Status GemmaTokenizerBuilder::read_post_processor(const JsonValue& processor) {
  std::string_view type;
  if (!processor["type"].get(&type) || type != "TemplateProcessing") {
    return unsupported("its post-processor is not a template");
  }
  bool text_seen = false;
  NPUSEG_RETURN_IF_ERROR(
      processor["single"].for_each_element([&](const JsonValue& piece) -> Status {
        if (piece["Sequence"].exists()) {
          if (text_seen) return unsupported("its template has the text twice");
          text_seen = true;
          return {};
        }
        return read_template_token(piece, processor["special_tokens"],
                                   text_seen ? &out_.suffix_ : &out_.prefix_);
      }));
  if (!text_seen || out_.prefix_.empty() || out_.suffix_.empty()) {
    return unsupported("its template is not start token, text, end token");
  }
  return {};
}

Status GemmaTokenizerBuilder::add_token(uint64_t id, const JsonValue& token) {
  std::string_view content;
  if (id >= kMaxIds || !token["content"].get(&content) || content.empty()) {
    return broken("has an added token without id or content");
  }
  if (content.size() > AddedTokens::kMaxBytes) {
    return unsupported(format("added token %s... has %zu bytes, at most %zu are supported",
                              shown(content).c_str(), content.size(), AddedTokens::kMaxBytes));
  }
  for (const char* flag : {"lstrip", "rstrip", "single_word"}) {
    bool on = false;
    if (token[flag].get(&on) && on) {
      return unsupported("added token " + shown(content) + " sets " + flag);
    }
  }
  bool normalized = false;
  token["normalized"].get(&normalized);
  const auto wanted = static_cast<uint32_t>(id);
  const auto known = out_.added_.find(content);
  if (known != out_.added_.end()) {
    if (known->second == wanted) return {};
    return broken(format("added token %s has id %u and id %u", shown(content).c_str(),
                         known->second, wanted));
  }
  const uint32_t in_vocab = pool_.find(content);
  if (in_vocab != TokenPool::kNone && in_vocab != wanted) {
    return broken(
        format("added token %s has id %u and id %u", shown(content).c_str(), in_vocab, wanted));
  }
  if (in_vocab == TokenPool::kNone) {
    if (wanted < pool_.id_limit() || wanted > pool_.id_limit() + out_.added_.size()) {
      return broken(format("added token %s has id %u, which is not its own or leaves a gap",
                           shown(content).c_str(), wanted));
    }
  }
  out_.vocab_size_ = std::max<size_t>(out_.vocab_size_, size_t{wanted} + 1);
  out_.added_.emplace(content, wanted);
  if (!normalized) {
    if (!out_.raw_added_.add(content, wanted)) return broken("has an added token twice");
    return {};
  }
  std::string replaced;
  for (const char byte : content) {
    if (byte == ' ') {
      append_utf8(out_.space_, &replaced);
    } else {
      replaced.push_back(byte);
    }
  }
  if (!out_.normalized_added_.add(replaced, wanted)) return broken("has an added token twice");
  return {};
}

Status GemmaTokenizerBuilder::read_rules(const JsonValue& root) {
  for (const char* key : {"truncation", "padding"}) {
    if (root[key].exists() && !root[key].is_null()) {
      return unsupported(std::string("it sets ") + key);
    }
  }
  NPUSEG_RETURN_IF_ERROR(read_normalizer(root["normalizer"]));
  NPUSEG_RETURN_IF_ERROR(read_pre_tokenizer(root["pre_tokenizer"]));
  NPUSEG_RETURN_IF_ERROR(read_model(root["model"]));
  out_.vocab_size_ = pool_.id_limit();
  NPUSEG_RETURN_IF_ERROR(
      root["added_tokens"].for_each_element([&](const JsonValue& token) -> Status {
        uint64_t id = UINT64_MAX;
        token["id"].get(&id);
        return add_token(id, token);
      }));
  return read_post_processor(root["post_processor"]);
}

// A token that the configuration names is an added token too, if the vocabulary has it.
Status GemmaTokenizerBuilder::add_named(const JsonValue& name) {
  std::string_view content;
  if (!name.get(&content) && !name["content"].get(&content)) return {};
  if (content.empty() || content.size() > AddedTokens::kMaxBytes) return {};
  const uint32_t id = pool_.find(content);
  if (id == TokenPool::kNone || out_.added_.find(content) != out_.added_.end()) return {};
  out_.added_.emplace(content, id);
  if (!out_.raw_added_.add(content, id)) return broken("has an added token twice");
  return {};
}

Status GemmaTokenizerBuilder::read_config(const JsonValue& root) {
  NPUSEG_RETURN_IF_ERROR(root["added_tokens_decoder"].for_each_member(
      [&](std::string_view key, const JsonValue& token) -> Status {
        uint64_t id = key.empty() || key.size() > 9 ? UINT64_MAX : 0;
        for (const char c : key) {
          if (c < '0' || c > '9') id = UINT64_MAX;
          if (id != UINT64_MAX) id = id * 10 + static_cast<uint64_t>(c - '0');
        }
        return add_token(id, token);
      }));
  const auto named = [this](const JsonValue& name) { return add_named(name); };
  const auto walk = [&](std::string_view key, const JsonValue& value) -> Status {
    if (key.ends_with("_token")) return add_named(value);
    if (key != "extra_special_tokens" && key != "additional_special_tokens" &&
        key != "model_specific_special_tokens") {
      return {};
    }
    if (value.is_array()) return value.for_each_element(named);
    return value.for_each_member(
        [&](std::string_view, const JsonValue& name) { return named(name); });
  };
  NPUSEG_RETURN_IF_ERROR(root.for_each_member(walk));
  // What the reference looks for at the start of a text.
  std::string_view start;
  if (root["bos_token"].get(&start) || root["bos_token"]["content"].get(&start)) {
    out_.start_ = start;
  }
  return {};
}

}  // namespace npuseg::text

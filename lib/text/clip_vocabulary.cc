// SPDX-License-Identifier: Apache-2.0
#include "text/clip_vocabulary.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "core/file.h"
#include "core/json.h"

namespace npuseg::text {

using core::Code;
using core::JsonDocument;
using core::JsonValue;
using core::Result;
using core::Status;

namespace {

constexpr size_t kMaxFileBytes = size_t{256} << 20;

void append_quoted(std::string_view text, std::string* out) {
  out->push_back('"');
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out->push_back('\\');
      out->push_back(c);
    } else if (static_cast<unsigned char>(c) < 0x20) {
      *out += core::format("\\u%04x", static_cast<unsigned>(static_cast<unsigned char>(c)));
    } else {
      out->push_back(c);
    }
  }
  out->push_back('"');
}

Status broken(const std::string& where, const char* what) {
  return Status(Code::kCorruptData,
                "cannot use tokenizer: " + where + ": " + what + "; use the model's own files");
}

// A merge is one string of two symbols, or a list of them.
Status append_merge(const std::string& where, const JsonValue& merge, std::string* out) {
  std::string_view pair;
  if (merge.get(&pair)) {
    *out += std::string(pair) + "\n";
    return {};
  }
  std::vector<std::string_view> symbols;
  NPUSEG_RETURN_IF_ERROR(merge.for_each_element([&](const JsonValue& symbol) -> Status {
    std::string_view text;
    if (!symbol.get(&text)) return broken(where, "has a merge that is not text");
    symbols.push_back(text);
    return {};
  }));
  if (symbols.size() != 2) return broken(where, "has a merge that is not of two symbols");
  *out += std::string(symbols[0]) + " " + std::string(symbols[1]) + "\n";
  return {};
}

}  // namespace

Result<ClipVocabularyFiles> clip_vocabulary_files(const std::string& directory) {
  ClipVocabularyFiles files;
  const std::string path = core::join_path(directory, "tokenizer.json");
  if (!core::file_exists(path)) {
    NPUSEG_ASSIGN_OR_RETURN(
        files.vocab, core::read_file(core::join_path(directory, "vocab.json"), kMaxFileBytes));
    NPUSEG_ASSIGN_OR_RETURN(
        files.merges, core::read_file(core::join_path(directory, "merges.txt"), kMaxFileBytes));
    return files;
  }
  NPUSEG_ASSIGN_OR_RETURN(const JsonDocument document, JsonDocument::load(path, kMaxFileBytes));
  const JsonValue root = document.root();
  std::map<std::string, uint64_t, std::less<>> ids;
  NPUSEG_RETURN_IF_ERROR(root["model"]["vocab"].for_each_member(
      [&](std::string_view token, const JsonValue& value) -> Status {
        uint64_t id = 0;
        if (!value.get(&id)) return broken(path, "has a vocabulary entry without id");
        ids.emplace(token, id);
        return {};
      }));
  NPUSEG_RETURN_IF_ERROR(
      root["added_tokens"].for_each_element([&](const JsonValue& added) -> Status {
        std::string_view token;
        uint64_t id = 0;
        if (!added["content"].get(&token) || !added["id"].get(&id)) {
          return broken(path, "has an added token without content or id");
        }
        ids.emplace(token, id);
        return {};
      }));
  std::vector<std::pair<uint64_t, std::string_view>> in_order;
  in_order.reserve(ids.size());
  for (const auto& [token, id] : ids) in_order.emplace_back(id, token);
  std::sort(in_order.begin(), in_order.end());
  for (const auto& [id, token] : in_order) {
    files.vocab += files.vocab.empty() ? "{" : ",\n";
    append_quoted(token, &files.vocab);
    files.vocab += ":" + std::to_string(id);
  }
  files.vocab += "}\n";
  files.merges = "#version: 0.2\n";
  NPUSEG_RETURN_IF_ERROR(root["model"]["merges"].for_each_element(
      [&](const JsonValue& merge) -> Status { return append_merge(path, merge, &files.merges); }));
  return files;
}

}  // namespace npuseg::text

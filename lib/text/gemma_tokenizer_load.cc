// SPDX-License-Identifier: Apache-2.0
// Reading tokenizer.json of a Gemma tokenizer. Vocabulary and merges, nearly all of its 32 MB, are
// walked in place; the rest goes through the strict JSON reader.
#include <algorithm>
#include <functional>
#include <optional>

#include "core/file.h"
#include "core/json.h"
#include "text/gemma_tokenizer_builder.h"
#include "text/utf8.h"

namespace npuseg::text {

using core::Code;
using core::format;
using core::JsonDocument;
using core::JsonValue;
using core::Result;
using core::Status;

namespace {

constexpr size_t kMaxFileBytes = size_t{256} << 20;
constexpr size_t kMaxConfigBytes = size_t{16} << 20;
constexpr size_t kMaxIds = size_t{1} << 24;
constexpr size_t kMaxBeforeSpace = 256;  // characters; more are not worth looking through
// "":0, is the shortest entry of a vocabulary.
constexpr size_t kLeastEntryBytes = 5;
constexpr size_t kLikelyMergeBytes = 16;

bool is_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

}  // namespace

std::string shown(std::string_view token) {
  return "\"" + replace_invalid_utf8(token.substr(0, 60)) + "\"";
}

bool GemmaTokenizerBuilder::unescape(std::string* scratch, std::string_view* out) {
  scratch->clear();
  if (!unescape_json(*out, scratch)) return false;
  *out = *scratch;
  return true;
}

Status GemmaTokenizerBuilder::scan_vocab(JsonScanner* scanner, size_t file_size) {
  const size_t max_ids = std::min(kMaxIds, file_size / kLeastEntryBytes + 1);
  if (!scanner->take('{')) return broken("its vocabulary is not an object");
  if (scanner->take('}')) return broken("its vocabulary is empty");
  std::string scratch;
  do {
    std::string_view token;
    uint32_t id = 0;
    if (!take_string(scanner, &scratch, &token)) return fault(*scanner);
    if (!scanner->take(':') || !scanner->take_number(&id)) {
      return broken("token " + shown(token) + " has no id");
    }
    if (token.empty()) return broken(format("the token with id %u is empty", id));
    if (!is_ascii(token) && find_invalid_utf8(token) != token.size()) {
      return broken("token " + shown(token) + " is not valid UTF-8");
    }
    if (!pool_.add(token, id, max_ids)) {
      return broken(format("id %u of ", id) + shown(token) +
                    " is out of range or belongs to another token too");
    }
  } while (scanner->take(','));
  if (!scanner->take('}')) {
    return broken(format("byte %zu: its vocabulary does not go on", scanner->position()));
  }
  const uint32_t twice = pool_.index();
  if (twice != TokenPool::kNone) {
    return broken("token " + shown(pool_.token(twice)) + " is in its vocabulary twice");
  }
  return {};
}

Status GemmaTokenizerBuilder::resolve(TokenPool::Search* parts, size_t count) {
  pool_.finish(parts, count);
  for (size_t i = 0; i < count; i += 2) {
    const std::string_view left = parts[i].token;
    const std::string_view right = parts[i + 1].token;
    PairMerge merge{parts[i].id, parts[i + 1].id, 0};
    if (merge.left == TokenPool::kNone || merge.right == TokenPool::kNone) {
      return broken("merge " + shown(left) + " " + shown(right) +
                    " has a part that is not in the vocabulary");
    }
    const auto is_joined = [&](uint32_t id) {
      const std::string_view token = pool_.token(id);
      return token.size() == left.size() + right.size() && token.starts_with(left) &&
             token.ends_with(right);
    };
    // Files list the merges that give one token together and in the order of these.
    const uint32_t after = last_result_ + 1;
    if (is_joined(last_result_)) {
      merge.result = last_result_;
    } else if (after < pool_.id_limit() && is_joined(after)) {
      merge.result = after;
    } else {
      joined_.assign(left).append(right);
      merge.result = pool_.find(joined_);
    }
    if (merge.result == TokenPool::kNone) {
      return broken("merge " + shown(left) + " " + shown(right) +
                    " gives a token that is not in the vocabulary");
    }
    last_result_ = merge.result;
    merges_.push_back(merge);
  }
  return {};
}

Status GemmaTokenizerBuilder::scan_merges(JsonScanner* scanner) {
  if (!scanner->take('[')) return broken("its merges are not a list");
  if (scanner->take(']')) return {};
  // Room for the shortest merges that are likely; memory that is not touched costs nothing.
  merges_.reserve(std::min((scanner->text().size() - scanner->position()) / kLikelyMergeBytes,
                           PairTable::kMaxMerges));
  constexpr size_t kBlock = 32;  // searches under way
  TokenPool::Search block[kBlock];
  size_t waiting = 0;
  const char* const file_begin = scanner->text().data();
  const char* const file_end = file_begin + scanner->text().size();
  const auto in_file = [&](std::string_view part) {
    return std::greater_equal<>()(part.data(), file_begin) && std::less<>()(part.data(), file_end);
  };
  std::string scratch[2];
  do {
    std::string_view left;
    std::string_view right;
    if (scanner->peek() == '[') {
      static_cast<void>(scanner->take('['));
      if (!take_string(scanner, &scratch[0], &left)) return fault(*scanner);
      if (!scanner->take(',')) return broken("merge " + shown(left) + " has no second part");
      if (!take_string(scanner, &scratch[1], &right)) return fault(*scanner);
      if (!scanner->take(']')) return broken("merge " + shown(left) + " has more than two parts");
    } else {
      std::string_view both;
      if (!take_string(scanner, &scratch[0], &both)) return fault(*scanner);
      if (both.starts_with("#version")) continue;
      const size_t space = both.find(' ');
      if (space == std::string_view::npos || both.find(' ', space + 1) != std::string_view::npos) {
        return broken("merge " + shown(both) + " is not two tokens with one space");
      }
      left = both.substr(0, space);
      right = both.substr(space + 1);
    }
    if (merges_.size() + waiting / 2 == PairTable::kMaxMerges) {
      return unsupported(format("it has more than %zu merges", PairTable::kMaxMerges));
    }
    // Strings with escapes live in the scratch memory only until the next ones.
    const bool scratched = !in_file(left) || !in_file(right);
    const bool readable = !scratched && file_end - right.data() >= 8;
    block[waiting++] = pool_.begin(left, readable);
    block[waiting++] = pool_.begin(right, readable);
    if (waiting == kBlock || scratched) {
      NPUSEG_RETURN_IF_ERROR(resolve(block, waiting));
      waiting = 0;
    }
  } while (scanner->take(','));
  if (!scanner->take(']')) {
    return broken(format("byte %zu: its merges do not go on", scanner->position()));
  }
  return resolve(block, waiting);
}

Status GemmaTokenizerBuilder::scan_model(JsonScanner* scanner, std::string* rest) {
  const std::string_view file = scanner->text();
  if (!scanner->take('{')) return broken("its model is not an object");
  std::optional<size_t> merges_at;
  bool vocab_seen = false;
  bool merges_done = false;
  size_t copied = scanner->position();
  rest->push_back('{');
  if (scanner->peek() != '}') {
    do {
      std::string scratch;
      std::string_view key;
      if (!take_string(scanner, &scratch, &key)) return fault(*scanner);
      if (!scanner->take(':')) return broken("its model has a key without value");
      const bool is_vocab = key == "vocab";
      const bool is_merges = key == "merges";
      if (!is_vocab && !is_merges) {
        if (!scanner->skip_value()) return broken("its model does not end");
        continue;
      }
      if (is_vocab ? vocab_seen : merges_at.has_value()) {
        return broken("its model has " + std::string(key) + " twice");
      }
      rest->append(file.substr(copied, scanner->position() - copied)).append("null");
      if (is_vocab) {
        vocab_seen = true;
        NPUSEG_RETURN_IF_ERROR(scan_vocab(scanner, file.size()));
      } else {
        merges_at = scanner->position();
        merges_done = vocab_seen;
        if (merges_done) {
          NPUSEG_RETURN_IF_ERROR(scan_merges(scanner));
        } else if (!scanner->skip_value()) {
          return broken("its merges do not end");
        }
      }
      copied = scanner->position();
    } while (scanner->take(','));
  }
  if (!scanner->take('}')) return broken("its model does not end");
  rest->append(file.substr(copied, scanner->position() - copied));
  if (!vocab_seen || !merges_at) return broken("its model lacks vocab or merges");
  if (merges_done) return {};
  // Merges before the vocabulary: their place was kept.
  JsonScanner again(file);
  again.move_to(*merges_at);
  return scan_merges(&again);
}

Status GemmaTokenizerBuilder::scan_root(JsonScanner* scanner, std::string* rest) {
  const std::string_view file = scanner->text();
  if (!scanner->take('{')) {
    if (core::is_lfs_pointer(file)) {
      return Status(Code::kCorruptData,
                    "cannot use tokenizer: " + where_ +
                        ": this is a git-lfs pointer; run 'git lfs pull' to get the real file");
    }
    return broken("is not a JSON object");
  }
  bool model_seen = false;
  size_t copied = 0;
  if (scanner->peek() != '}') {
    do {
      std::string scratch;
      std::string_view key;
      if (!take_string(scanner, &scratch, &key)) return fault(*scanner);
      if (!scanner->take(':')) return broken("has a key without value");
      if (key != "model" || scanner->peek() != '{') {
        if (!scanner->skip_value()) return broken("is cut short");
        continue;
      }
      if (model_seen) return broken("has two models");
      model_seen = true;
      rest->append(file.substr(copied, scanner->position() - copied));
      NPUSEG_RETURN_IF_ERROR(scan_model(scanner, rest));
      copied = scanner->position();
    } while (scanner->take(','));
  }
  if (!model_seen) return broken("has no model");
  rest->append(file.substr(copied));
  return {};
}

Status GemmaTokenizerBuilder::read_tokenizer(std::string_view json) {
  JsonScanner scanner(json);
  std::string rest;
  NPUSEG_RETURN_IF_ERROR(scan_root(&scanner, &rest));
  NPUSEG_ASSIGN_OR_RETURN(const JsonDocument document, JsonDocument::parse(rest, where_));
  return read_rules(document.root());
}

Status GemmaTokenizerBuilder::check_ids() {
  if (ids_may_lack_) return {};
  size_t count = pool_.count();
  for (const auto& [content, id] : out_.added_) count += id >= pool_.id_limit() ? 1 : 0;
  if (count != out_.vocab_size_) {
    return broken(format("has %zu tokens for ids up to %zu", count, out_.vocab_size_ - 1));
  }
  return {};
}

void GemmaTokenizerBuilder::read_characters() {
  for (size_t id = 0; id < pool_.id_limit(); ++id) {
    const std::string_view token = pool_.token(static_cast<uint32_t>(id));
    if (token.empty() || token.size() > 4) continue;
    size_t end = 0;
    const char32_t c = next_code_point(token, &end);
    if (end == token.size()) out_.characters_.set(c, static_cast<uint32_t>(id));
  }
}

// Byte tokens stand for characters that their spelling does not show.
bool GemmaTokenizerBuilder::merges_use_bytes() const {
  const auto& ids = out_.byte_ids_;
  const auto [low, high] = std::minmax_element(std::begin(ids), std::end(ids));
  const auto is_byte = [&, first = *low, last = *high](uint32_t id) {
    return id >= first && id <= last &&
           std::find(std::begin(ids), std::end(ids), id) != std::end(ids);
  };
  return std::any_of(merges_.begin(), merges_.end(), [&](const PairMerge& merge) {
    return is_byte(merge.left) || is_byte(merge.right);
  });
}

// Looks for tokens that join what the cuts would part. All of the vocabulary counts, whether or not
// merges lead to a token.
void GemmaTokenizerBuilder::read_cuts() {
  GemmaTokenizer::Cuts& cuts = out_.cuts_;
  cuts.on = out_.byte_fallback_ && std::find(std::begin(out_.byte_ids_), std::end(out_.byte_ids_),
                                             TokenPool::kNone) == std::end(out_.byte_ids_);
  if (!cuts.on || !merges_join_ || merges_use_bytes()) {
    cuts.on = false;
    return;
  }
  const auto stands_alone = [&](char c) {
    for (size_t id = 0; id < pool_.id_limit(); ++id) {
      const std::string_view token = pool_.token(static_cast<uint32_t>(id));
      const bool has = token.find(c) != std::string_view::npos;
      if (has && token.find_first_not_of(c) != std::string_view::npos) return false;
    }
    return true;
  };
  cuts.newline = stands_alone('\n');
  cuts.tab = stands_alone('\t');
  std::string space;
  append_utf8(out_.space_, &space);
  for (size_t id = 0; id < pool_.id_limit(); ++id) {
    const std::string_view token = pool_.token(static_cast<uint32_t>(id));
    size_t at = token.find(space, 1);
    while (at != std::string_view::npos) {
      size_t left_at = at - 1;
      while (left_at != 0 && (static_cast<unsigned char>(token[left_at]) & 0xC0) == 0x80) --left_at;
      const char32_t left = next_code_point(token, &left_at);
      std::vector<char32_t>& known = cuts.before_space;
      if (left != out_.space_ && std::find(known.begin(), known.end(), left) == known.end()) {
        known.push_back(left);
        if (known.size() > kMaxBeforeSpace) {
          cuts.on = false;
          return;
        }
      }
      at = token.find(space, at + space.size());
    }
  }
}

Result<GemmaTokenizer> GemmaTokenizerBuilder::finish() {
  NPUSEG_RETURN_IF_ERROR(check_ids());
  read_characters();
  read_cuts();
  if (!out_.merges_.build(std::move(merges_))) {
    return broken("its merges are made to slow down the reader");
  }
  return std::move(out_);
}

Result<GemmaTokenizer> GemmaTokenizer::parse(std::string_view tokenizer_json,
                                             std::string_view tokenizer_config_json,
                                             const std::string& where) {
  GemmaTokenizerBuilder builder(where);
  NPUSEG_RETURN_IF_ERROR(builder.read_tokenizer(tokenizer_json));
  if (!tokenizer_config_json.empty()) {
    NPUSEG_ASSIGN_OR_RETURN(
        const JsonDocument config,
        JsonDocument::parse(tokenizer_config_json, where + " (tokenizer_config.json)"));
    NPUSEG_RETURN_IF_ERROR(builder.read_config(config.root()));
  }
  return builder.finish();
}

Result<GemmaTokenizer> GemmaTokenizer::load(const std::string& directory) {
  const std::string path = core::join_path(directory, "tokenizer.json");
  if (!core::file_exists(path)) {
    return Status(Code::kNotFound, "cannot open tokenizer: " + directory +
                                       ": has no tokenizer.json; add the model's tokenizer files");
  }
  std::string config;
  const std::string config_path = core::join_path(directory, "tokenizer_config.json");
  if (core::file_exists(config_path)) {
    NPUSEG_ASSIGN_OR_RETURN(config, core::read_file(config_path, kMaxConfigBytes));
  }
  NPUSEG_ASSIGN_OR_RETURN(const core::MappedFile file, core::MappedFile::open(path));
  if (file.bytes().size() > kMaxFileBytes) {
    return Status(Code::kLimitExceeded,
                  format("cannot open tokenizer: %s: has %zu bytes, at most %zu are read; check "
                         "the file",
                         path.c_str(), file.bytes().size(), kMaxFileBytes));
  }
  return parse({reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()}, config,
               path);
}

}  // namespace npuseg::text

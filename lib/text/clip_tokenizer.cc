// SPDX-License-Identifier: Apache-2.0
#include "text/clip_tokenizer.h"

#include <algorithm>

#include "text/unicode.h"
#include "text/utf8.h"

namespace npuseg::text {

using core::Code;
using core::Result;
using core::Status;

namespace {

Result<std::string> normalize(std::string_view text) {
  NPUSEG_ASSIGN_OR_RETURN(const std::string composed, to_nfc(text));
  std::string out;
  out.reserve(composed.size());
  bool in_space = false;
  for (size_t at = 0; at < composed.size();) {
    const char32_t c = next_code_point(composed, &at);
    if (classify(c) == CharClass::kSpace) {
      if (!in_space) out.push_back(' ');
      in_space = true;
    } else {
      in_space = false;
      append_lower(c, &out);
    }
  }
  return out;
}

// Length of the contraction at the start of `text`, 0 when there is none. Order as in the pattern.
size_t contraction_length(std::string_view text) {
  for (const std::string_view end : {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"}) {
    if (text.starts_with(end)) return end.size();
  }
  return 0;
}

// End of the run of one class that starts at `from`.
size_t run_end(std::string_view text, size_t from, CharClass wanted) {
  size_t at = from;
  while (at < text.size()) {
    size_t behind = at;
    if (classify(next_code_point(text, &behind)) != wanted) break;
    at = behind;
  }
  return at;
}

struct Cut {
  size_t at = std::string_view::npos;
  size_t length = 0;
  uint32_t id = 0;
};

// Finds added tokens from left to right, the longest of those that start at the same place. Where
// each token comes next is kept, so that a text is searched once per token.
template <class Tokens>
class AddedFinder {
 public:
  AddedFinder(std::string_view text, const Tokens& tokens) : text_(text), tokens_(tokens) {
    next_.reserve(tokens.size());
    for (const auto& token : tokens) next_.push_back(text.find(token.content));
  }

  // The first at or behind `from`; length 0 when there is none.
  Cut next(size_t from) {
    Cut best;
    for (size_t i = 0; i < next_.size(); ++i) {
      const std::string& content = tokens_[i].content;
      if (next_[i] < from) next_[i] = text_.find(content, from);
      if (next_[i] == std::string_view::npos) continue;
      if (next_[i] < best.at || (next_[i] == best.at && content.size() > best.length)) {
        best = {next_[i], content.size(), tokens_[i].id};
      }
    }
    return best;
  }

 private:
  std::string_view text_;
  const Tokens& tokens_;
  std::vector<size_t> next_;
};

}  // namespace

void ClipTokenizer::encode_word(std::string_view word, std::vector<int64_t>* ids) const {
  std::vector<uint32_t> symbols;
  symbols.reserve(word.size());
  for (const char c : word) symbols.push_back(byte_id_[static_cast<unsigned char>(c)]);
  symbols.back() = last_byte_id_[static_cast<unsigned char>(word.back())];
  merges_.apply(&symbols);
  ids->insert(ids->end(), symbols.begin(), symbols.end());
}

void ClipTokenizer::encode_words(std::string_view text, std::vector<int64_t>* ids) const {
  size_t at = 0;
  while (at < text.size()) {
    const std::string_view rest = text.substr(at);
    // The special strings are alternatives of the pattern; the byte-level step then cuts what was
    // no added token into three words.
    for (const std::string_view special : {"<|startoftext|>", "<|endoftext|>"}) {
      if (rest.starts_with(special)) {
        encode_word("<|", ids);
        encode_word(special.substr(2, special.size() - 4), ids);
        encode_word("|>", ids);
        at += special.size();
        break;
      }
    }
    if (text.data() + at != rest.data()) continue;
    if (const size_t length = contraction_length(rest); length != 0) {
      encode_word(rest.substr(0, length), ids);
      at += length;
      continue;
    }
    size_t behind = at;
    const CharClass first = classify(next_code_point(text, &behind));
    if (first == CharClass::kSpace) {
      at = behind;
      continue;
    }
    const size_t end = first == CharClass::kNumber ? behind : run_end(text, at, first);
    encode_word(text.substr(at, end - at), ids);
    at = end;
  }
}

Status ClipTokenizer::encode_piece(std::string_view raw, std::vector<int64_t>* ids) const {
  NPUSEG_ASSIGN_OR_RETURN(const std::string normalized, normalize(raw));
  const std::string_view text = normalized;
  AddedFinder finder(text, normalized_added_);
  size_t at = 0;
  while (at < text.size()) {
    const Cut cut = finder.next(at);
    if (cut.length == 0) break;
    encode_words(text.substr(at, cut.at - at), ids);
    ids->push_back(cut.id);
    at = cut.at + cut.length;
  }
  encode_words(text.substr(at), ids);
  return {};
}

Result<std::vector<int64_t>> ClipTokenizer::encode(std::string_view text) const {
  const size_t bad = find_invalid_utf8(text);
  if (bad != text.size()) {
    return Status(
        Code::kInvalidArgument,
        core::format("cannot read prompt: byte %zu: not valid UTF-8; pass UTF-8 text", bad));
  }
  std::vector<int64_t> ids{bos_};
  AddedFinder finder(text, raw_added_);
  size_t at = 0;
  while (at < text.size()) {
    const Cut cut = finder.next(at);
    if (cut.length == 0) break;
    NPUSEG_RETURN_IF_ERROR(encode_piece(text.substr(at, cut.at - at), &ids));
    ids.push_back(cut.id);
    at = cut.at + cut.length;
  }
  NPUSEG_RETURN_IF_ERROR(encode_piece(text.substr(at), &ids));
  ids.push_back(eos_);
  return ids;
}

Result<Prompt> ClipTokenizer::encode_prompt(std::string_view text, size_t max_tokens,
                                            bool truncate) const {
  Prompt prompt;
  NPUSEG_ASSIGN_OR_RETURN(prompt.ids, encode(text));
  prompt.total = prompt.ids.size();
  if (prompt.total <= max_tokens) return prompt;
  if (!truncate) {
    return Status(
        Code::kLimitExceeded,
        core::format("prompt too long: %zu tokens, the model takes at most %zu; shorten it "
                     "or ask for truncation",
                     prompt.total, max_tokens));
  }
  prompt.ids.resize(max_tokens);
  prompt.ids.back() = eos_;
  prompt.truncated = true;
  return prompt;
}

}  // namespace npuseg::text

// SPDX-License-Identifier: Apache-2.0
#include "text/gemma_tokenizer.h"

#include <algorithm>
#include <functional>

#include "core/threads.h"
#include "text/utf8.h"

namespace npuseg::text {

using core::Code;
using core::Result;
using core::Status;

namespace {
// Longer words are merged by a heap; up to here, looking through all pairs is faster.
constexpr size_t kShortWord = 24;
constexpr size_t kMaxTextBytes = UINT32_MAX - 1;
}  // namespace

// One word, and memory that words use again.
struct GemmaTokenizer::Work {
  std::vector<uint32_t> symbols;
  bool unknown_pending = false;
  std::vector<uint32_t> ranks;  // of the pair that begins at each symbol
  std::vector<uint32_t> next;
  std::vector<uint32_t> before;
  std::vector<uint64_t> heap;  // rank << 32 | place of the left symbol
  core::Call* call = nullptr;
  uint32_t steps = 0;

  // One more character or merge; true when the call was stopped.
  bool stopped() {
    constexpr uint32_t kStepsBetweenPolls = 4096;
    if (call == nullptr) return false;
    if (++steps % kStepsBetweenPolls == 0) call->poll();
    return call->stopped();
  }
};

void GemmaTokenizer::Characters::set(char32_t c, uint32_t id) {
  uint16_t& page = page_of[c / kPageSize];
  if (page == 0) {
    page = static_cast<uint16_t>(ids.size() / kPageSize);
    ids.resize(ids.size() + kPageSize, kNone);
  }
  ids[size_t{page} * kPageSize + c % kPageSize] = id;
}

bool GemmaTokenizer::Cuts::between(char32_t left, char32_t right, char32_t space) const {
  if (right == space && left != space) {
    return std::find(before_space.begin(), before_space.end(), left) == before_space.end();
  }
  if (newline && (left == '\n') != (right == '\n')) return true;
  return tab && (left == '\t') != (right == '\t');
}

// Symbols of a character: its own, those of its bytes, or the unknown token. The last is held back
// until a known character comes, also behind byte tokens, as in the reference.
void GemmaTokenizer::append_character(char32_t c, Work* work) const {
  const uint32_t id = characters_.find(c);
  if (id != kNone) {
    if (work->unknown_pending) work->symbols.push_back(unknown_);
    work->unknown_pending = false;
    work->symbols.push_back(id);
    return;
  }
  if (byte_fallback_) {
    std::string bytes;
    append_utf8(c, &bytes);
    const size_t size = work->symbols.size();
    for (const char byte : bytes) {
      work->symbols.push_back(byte_ids_[static_cast<unsigned char>(byte)]);
    }
    if (std::find(work->symbols.begin() + static_cast<std::ptrdiff_t>(size), work->symbols.end(),
                  kNone) == work->symbols.end()) {
      return;
    }
    work->symbols.resize(size);
  }
  if (unknown_ == kNone) return;
  if (work->unknown_pending && !fuse_unknown_) work->symbols.push_back(unknown_);
  work->unknown_pending = true;
}

void GemmaTokenizer::merge_short(Work* work) const {
  std::vector<uint32_t>& symbols = work->symbols;
  std::vector<uint32_t>& ranks = work->ranks;
  ranks.resize(symbols.size() - 1);
  for (size_t i = 0; i < ranks.size(); ++i) ranks[i] = merges_.find(symbols[i], symbols[i + 1]);
  while (!ranks.empty()) {
    const auto best = std::min_element(ranks.begin(), ranks.end());
    if (*best == kNone) break;
    const auto at = best - ranks.begin();
    const auto place = static_cast<size_t>(at);
    symbols[place] = merges_.result(*best);
    symbols.erase(symbols.begin() + at + 1);
    ranks.erase(best);
    if (place != 0) ranks[place - 1] = merges_.find(symbols[place - 1], symbols[place]);
    if (place != ranks.size()) ranks[place] = merges_.find(symbols[place], symbols[place + 1]);
  }
}

void GemmaTokenizer::merge_long(Work* work) const {
  std::vector<uint32_t>& symbols = work->symbols;
  std::vector<uint32_t>& next = work->next;
  std::vector<uint32_t>& before = work->before;
  std::vector<uint64_t>& heap = work->heap;
  const auto count = static_cast<uint32_t>(symbols.size());
  next.resize(count);
  before.resize(count);
  heap.clear();
  const auto candidate = [&](uint32_t left) {
    const uint32_t rank = merges_.find(symbols[left], symbols[next[left]]);
    return rank == kNone ? UINT64_MAX : uint64_t{rank} << 32 | left;
  };
  for (uint32_t i = 0; i < count; ++i) {
    next[i] = i + 1 < count ? i + 1 : kNone;
    before[i] = i - 1;  // kNone for the first
  }
  for (uint32_t i = 0; i + 1 < count; ++i) {
    const uint64_t entry = candidate(i);
    if (entry != UINT64_MAX) heap.push_back(entry);
  }
  std::make_heap(heap.begin(), heap.end(), std::greater<>());
  const auto push = [&](uint32_t left) {
    if (left == kNone || next[left] == kNone) return;
    const uint64_t entry = candidate(left);
    if (entry == UINT64_MAX) return;
    heap.push_back(entry);
    std::push_heap(heap.begin(), heap.end(), std::greater<>());
  };
  while (!heap.empty() && !work->stopped()) {
    const uint64_t entry = heap.front();
    std::pop_heap(heap.begin(), heap.end(), std::greater<>());
    heap.pop_back();
    const auto left = static_cast<uint32_t>(entry);
    // Stale entries: the left symbol was swallowed, or the pair is another one by now. A pair's
    // string only grows, so the same rank means the same pair.
    if (symbols[left] == kNone || next[left] == kNone || candidate(left) != entry) continue;
    const uint32_t right = next[left];
    symbols[left] = merges_.result(static_cast<uint32_t>(entry >> 32));
    symbols[right] = kNone;
    next[left] = next[right];
    if (next[left] != kNone) before[next[left]] = left;
    push(before[left]);
    push(left);
  }
  symbols.erase(std::remove(symbols.begin(), symbols.end(), kNone), symbols.end());
}

void GemmaTokenizer::flush(Work* work, std::vector<int64_t>* ids) const {
  if (work->unknown_pending) work->symbols.push_back(unknown_);
  work->unknown_pending = false;
  if (work->symbols.size() > kShortWord) {
    merge_long(work);
  } else if (work->symbols.size() > 1) {
    merge_short(work);
  }
  ids->insert(ids->end(), work->symbols.begin(), work->symbols.end());
  work->symbols.clear();
}

void GemmaTokenizer::encode_words(std::string_view text, Work* work,
                                  std::vector<int64_t>* ids) const {
  char32_t left = 0;
  for (size_t at = 0; at < text.size() && !work->stopped();) {
    char32_t c = next_code_point(text, &at);
    if (c == ' ') c = space_;
    if (cuts_.on && !work->symbols.empty() && cuts_.between(left, c, space_)) flush(work, ids);
    append_character(c, work);
    left = c;
  }
  flush(work, ids);
}

Status GemmaTokenizer::encode_plain(std::string_view text, std::vector<int64_t>* ids,
                                    core::Call* call) const {
  if (text.size() > kMaxTextBytes) {
    return Status(Code::kLimitExceeded, "cannot read text: it has more than 4 GiB; cut it");
  }
  Work work;
  work.call = call;
  const auto encode_piece = [&](std::string_view piece) {
    if (normalized_added_.empty()) return encode_words(piece, &work, ids);
    std::string replaced;
    for (const char byte : piece) {
      if (byte == ' ') {
        append_utf8(space_, &replaced);
      } else {
        replaced.push_back(byte);
      }
    }
    const std::string_view whole = replaced;
    size_t at = 0;
    for (;;) {
      const AddedTokens::Match match = normalized_added_.find(whole, at);
      if (match.size == 0) break;
      encode_words(whole.substr(at, match.at - at), &work, ids);
      ids->push_back(match.id);
      at = match.at + match.size;
    }
    encode_words(whole.substr(at), &work, ids);
  };
  size_t at = 0;
  for (;;) {
    const AddedTokens::Match match = raw_added_.find(text, at);
    if (match.size == 0) break;
    encode_piece(text.substr(at, match.at - at));
    ids->push_back(match.id);
    at = match.at + match.size;
  }
  encode_piece(text.substr(at));
  return call == nullptr ? Status() : call->check();
}

Result<std::vector<int64_t>> GemmaTokenizer::encode(std::string_view text,
                                                    bool replace_invalid) const {
  std::string replaced;
  const size_t bad = find_invalid_utf8(text);
  if (bad != text.size()) {
    if (!replace_invalid) {
      return Status(
          Code::kInvalidArgument,
          core::format("cannot read text: byte %zu: not valid UTF-8; pass UTF-8 text", bad));
    }
    replaced = replace_invalid_utf8(text);
    text = replaced;
  }
  std::vector<int64_t> ids;
  const bool around = !begins_with_start(text);
  if (around) ids = prefix_;
  NPUSEG_RETURN_IF_ERROR(encode_plain(text, &ids));
  if (around) ids.insert(ids.end(), suffix_.begin(), suffix_.end());
  return ids;
}

int64_t GemmaTokenizer::added_id(std::string_view content) const {
  const auto at = added_.find(content);
  return at == added_.end() ? -1 : int64_t{at->second};
}

std::string_view GemmaTokenizer::added_content(int64_t id) const {
  for (const auto& [content, added] : added_) {
    if (added == id) return content;
  }
  return {};
}

size_t GemmaTokenizer::memory_bytes() const {
  return merges_.memory_bytes() + raw_added_.memory_bytes() + normalized_added_.memory_bytes() +
         characters_.ids.capacity() * sizeof(uint32_t) +
         characters_.page_of.capacity() * sizeof(uint16_t);
}

}  // namespace npuseg::text

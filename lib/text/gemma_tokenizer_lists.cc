// SPDX-License-Identifier: Apache-2.0
// A Gemma tokenizer from the lists of a bundle (spec iron-bundle-embeddinggemma2.md, 14.1).
#include <unordered_map>
#include <unordered_set>

#include "text/gemma_tokenizer_builder.h"
#include "text/utf8.h"

namespace npuseg::text {

using core::format;
using core::Result;
using core::Status;

namespace {
constexpr char32_t kSpace = 0x2581;
// Its spelling at the start of a text says that the text brings its own ends.
constexpr const char* kStart = "<bos>";
constexpr size_t kIdsOfMerge = 3;
}  // namespace

Status GemmaTokenizerBuilder::read_listed_tokens(const TokenLists& lists) {
  const size_t count = lists.offsets.empty() ? 0 : lists.offsets.size() - 1;
  if (count == 0) return broken("its vocabulary is empty");
  std::unordered_map<std::string_view, uint32_t> last;
  const auto token_at = [&](size_t id) {
    const auto begin = static_cast<size_t>(lists.offsets[id]);
    return lists.bytes.substr(begin, static_cast<size_t>(lists.offsets[id + 1]) - begin);
  };
  for (size_t id = 0; id < count; ++id) {
    const int32_t begin = lists.offsets[id];
    const int32_t end = lists.offsets[id + 1];
    if (begin < 0 || end < begin || static_cast<size_t>(end) > lists.bytes.size()) {
      return broken(
          format("token %zu is bytes %d to %d of %zu", id, begin, end, lists.bytes.size()));
    }
    const std::string_view token = token_at(id);
    if (find_invalid_utf8(token) != token.size()) {
      return broken(format("token %zu is not UTF-8", id));
    }
    if (!token.empty() && !pool_.add(token, static_cast<uint32_t>(id), count)) {
      return broken(format("token %zu is one too many", id));
    }
  }
  if (pool_.index() != TokenPool::kNone) {
    // Some string is there twice, which no exporter writes: build again with the last of each.
    for (size_t id = 0; id < count; ++id) last[token_at(id)] = static_cast<uint32_t>(id);
    pool_ = TokenPool();
    for (size_t id = 0; id < count; ++id) {
      const std::string_view token = token_at(id);
      if (token.empty() || last[token] != id) continue;
      if (!pool_.add(token, static_cast<uint32_t>(id), count)) {
        return broken(format("token %zu is one too many", id));
      }
    }
    const uint32_t twice = pool_.index();
    if (twice != TokenPool::kNone) {
      return broken("token " + shown(pool_.token(twice)) + " is made to slow down the reader");
    }
  }
  out_.vocab_size_ = count;
  ids_may_lack_ = true;
  for (unsigned byte = 0; byte < 256; ++byte) {
    const std::string name = format("<0x%02X>", byte);
    out_.byte_ids_[byte] = pool_.find(name);
    if (out_.byte_ids_[byte] == TokenPool::kNone) return broken("no byte token " + name);
  }
  return {};
}

Status GemmaTokenizerBuilder::read_listed_merges(const TokenLists& lists) {
  const size_t count = lists.merges.size() / kIdsOfMerge;
  if (count > PairTable::kMaxMerges) {
    return unsupported(format("it has more than %zu merges", PairTable::kMaxMerges));
  }
  const auto spelling = [&](uint32_t id) {
    const auto begin = static_cast<size_t>(lists.offsets[id]);
    return lists.bytes.substr(begin, static_cast<size_t>(lists.offsets[id + 1]) - begin);
  };
  merges_.reserve(count);
  for (size_t rank = 0; rank < count; ++rank) {
    const auto ids = lists.merges.subspan(rank * kIdsOfMerge, kIdsOfMerge);
    for (const int32_t id : ids) {
      if (id < 0 || static_cast<size_t>(id) >= out_.vocab_size_) {
        return broken(
            format("merge %zu has id %d, there are %zu tokens", rank, id, out_.vocab_size_));
      }
    }
    const PairMerge merge{static_cast<uint32_t>(ids[0]), static_cast<uint32_t>(ids[1]),
                          static_cast<uint32_t>(ids[2])};
    const std::string_view left = spelling(merge.left);
    const std::string_view right = spelling(merge.right);
    const std::string_view result = spelling(merge.result);
    merges_join_ = merges_join_ && result.size() == left.size() + right.size() &&
                   result.starts_with(left) && result.ends_with(right);
    merges_.push_back(merge);
  }
  // The table keeps the last of equal pairs.
  PairTable table;
  bool repeated = false;
  if (table.build(merges_)) {
    for (uint32_t rank = 0; rank < count; ++rank) {
      repeated = repeated || table.find(merges_[rank].left, merges_[rank].right) != rank;
    }
  }
  if (!repeated) return {};
  std::unordered_set<uint64_t> known;
  std::vector<PairMerge> first;
  for (const PairMerge& merge : merges_) {
    if (known.insert(uint64_t{merge.left} << 32 | merge.right).second) first.push_back(merge);
  }
  merges_ = std::move(first);
  return {};
}

Status GemmaTokenizerBuilder::read_listed_added(const TokenLists& lists) {
  for (const auto& [id, content] : lists.added) {
    if (content.empty()) return broken("has an added token without content");
    if (content.size() > AddedTokens::kMaxBytes) {
      return unsupported(format("added token %s... has %zu bytes, at most %zu are supported",
                                shown(content).c_str(), content.size(), AddedTokens::kMaxBytes));
    }
    if (id >= out_.vocab_size_) {
      return broken(format("added token %s has id %zu, there are %zu tokens",
                           shown(content).c_str(), id, out_.vocab_size_));
    }
    // Of equal ones the first is found.
    if (out_.added_.try_emplace(content, static_cast<uint32_t>(id)).second) {
      static_cast<void>(out_.raw_added_.add(content, static_cast<uint32_t>(id)));
    }
  }
  return {};
}

Status GemmaTokenizerBuilder::read_lists(const TokenLists& lists) {
  NPUSEG_RETURN_IF_ERROR(read_listed_tokens(lists));
  NPUSEG_RETURN_IF_ERROR(read_listed_merges(lists));
  NPUSEG_RETURN_IF_ERROR(read_listed_added(lists));
  for (const uint32_t id : {lists.start, lists.end}) {
    if (id < out_.vocab_size_) continue;
    return broken(format("start and end are ids %u and %u, there are %zu tokens", lists.start,
                         lists.end, out_.vocab_size_));
  }
  out_.space_ = kSpace;
  out_.byte_fallback_ = true;
  out_.prefix_ = {lists.start};
  out_.suffix_ = {lists.end};
  out_.start_ = kStart;
  return {};
}

Result<GemmaTokenizer> GemmaTokenizer::from_lists(const TokenLists& lists,
                                                  const std::string& where) {
  GemmaTokenizerBuilder builder(where);
  NPUSEG_RETURN_IF_ERROR(builder.read_lists(lists));
  return builder.finish();
}

}  // namespace npuseg::text

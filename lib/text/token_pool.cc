// SPDX-License-Identifier: Apache-2.0
#include "text/token_pool.h"

#include <algorithm>
#include <bit>

namespace npuseg::text {

namespace {

constexpr size_t kMaxProbes = 2000;  // at half load, ordinary tokens stay far below
}  // namespace

bool TokenPool::add(std::string_view token, uint32_t id, size_t max_ids) {
  if (id >= max_ids || pool_.size() + token.size() >= kNone) return false;
  if (id >= spans_.size()) {
    if (id >= spans_.capacity()) spans_.reserve(std::max<size_t>(size_t{id} * 2, 4096));
    spans_.resize(size_t{id} + 1);
  }
  Span& span = spans_[id];
  if (span.size != 0) return false;
  span = {static_cast<uint32_t>(pool_.size()), static_cast<uint32_t>(token.size())};
  pool_.append(token);
  ++count_;
  return true;
}

uint32_t TokenPool::index() {
  pool_.append(kPadding, '\0');
  const size_t limit = spans_.size();
  const auto id_bits =
      static_cast<int>(std::bit_width(limit));  // kNone is never an id with its tag
  const int index_bits = std::max(1, static_cast<int>(std::bit_width(limit * 2)));
  id_mask_ = static_cast<uint32_t>((uint64_t{1} << id_bits) - 1);
  index_shift_ = 64 - index_bits;
  slots_.assign(size_t{1} << index_bits, kNone);
  constexpr size_t kBlock = 16;
  uint64_t hashes[kBlock];
  for (size_t begin = 0; begin < limit; begin += kBlock) {
    const size_t end = std::min(begin + kBlock, limit);
    for (size_t id = begin; id < end; ++id) {
      if (spans_[id].size == 0) continue;
      const std::string_view wanted = token(static_cast<uint32_t>(id));
      hashes[id - begin] = hash_of(wanted, head_of(wanted, true));
      __builtin_prefetch(&slots_[hashes[id - begin] >> index_shift_], 1);
    }
    for (size_t id = begin; id < end; ++id) {
      if (spans_[id].size == 0) continue;
      const uint64_t hash = hashes[id - begin];
      const std::string_view wanted = token(static_cast<uint32_t>(id));
      const uint32_t tag = static_cast<uint32_t>(hash >> (index_shift_ - 32)) & ~id_mask_;
      size_t at = hash >> index_shift_;
      for (size_t probes = 0; slots_[at] != kNone; at = (at + 1) & (slots_.size() - 1)) {
        const bool same = (slots_[at] & ~id_mask_) == tag && token(slots_[at] & id_mask_) == wanted;
        if (same || ++probes > kMaxProbes) return static_cast<uint32_t>(id);
      }
      slots_[at] = tag | static_cast<uint32_t>(id);
    }
  }
  return kNone;
}

void TokenPool::finish(Search* searches, size_t count) const {
  for (size_t i = 0; i < count; ++i) {
    size_t at = searches[i].hash >> index_shift_;
    searches[i].id = probe(searches[i].hash, &at);
    if (searches[i].id != kNone) __builtin_prefetch(&spans_[searches[i].id]);
  }
  for (size_t i = 0; i < count; ++i) {
    if (searches[i].id != kNone) __builtin_prefetch(pool_.data() + spans_[searches[i].id].at);
  }
  for (size_t i = 0; i < count; ++i) {
    Search& search = searches[i];
    if (search.id == kNone || is_found(search)) continue;
    // Another token whose hash has the same part.
    size_t at = search.hash >> index_shift_;
    do {
      search.id = probe(search.hash, &at);
    } while (search.id != kNone && !is_found(search));
  }
}

}  // namespace npuseg::text

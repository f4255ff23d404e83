// SPDX-License-Identifier: Apache-2.0
#include "text/pair_table.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace npuseg::text {

namespace {
// At half load, ordinary pairs stay far below.
constexpr size_t kMaxProbes = 2000;
constexpr size_t kAhead = 16;  // slots fetched before they are needed
}  // namespace

bool PairTable::build(std::vector<PairMerge> merges) {
  merges_ = std::move(merges);
  slots_.clear();
  if (merges_.empty()) return true;
  // One rank more than there are, so that the free mark is never a rank with its tag.
  const auto rank_bits = static_cast<int>(std::bit_width(merges_.size()));
  const int index_bits = std::max(4, static_cast<int>(std::bit_width(merges_.size() * 2 - 1)));
  rank_mask_ = (uint32_t{1} << rank_bits) - 1;
  index_shift_ = 64 - index_bits;
  // The 32 bits of the hash that follow the index; the lowest of them are covered by the rank.
  tag_shift_ = index_shift_ - 32;
  slot_mask_ = (size_t{1} << index_bits) - 1;
  slots_.assign(slot_mask_ + 1, kFree);
  for (size_t rank = 0; rank < merges_.size(); ++rank) {
    if (rank + kAhead < merges_.size()) {
      const PairMerge& later = merges_[rank + kAhead];
      __builtin_prefetch(&slots_[hash_of(later.left, later.right) >> index_shift_], 1);
    }
    const PairMerge& merge = merges_[rank];
    const uint64_t hash = hash_of(merge.left, merge.right);
    const auto tag = static_cast<uint32_t>(hash >> tag_shift_) & ~rank_mask_;
    size_t at = hash >> index_shift_;
    for (size_t probes = 0; slots_[at] != kFree; at = (at + 1) & slot_mask_) {
      if ((slots_[at] & ~rank_mask_) == tag) {
        const PairMerge& other = merges_[slots_[at] & rank_mask_];
        if (other.left == merge.left && other.right == merge.right) break;
      }
      if (++probes > kMaxProbes) return false;
    }
    slots_[at] = tag | static_cast<uint32_t>(rank);
  }
  return true;
}

}  // namespace npuseg::text

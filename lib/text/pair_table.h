// SPDX-License-Identifier: Apache-2.0
// Merges of a large vocabulary in little memory: 12 bytes a merge and 4 bytes a slot.
//
// A slot holds the rank of a merge and, in the bits that ranks leave free, a part of the pair's
// hash, so that a pair without merge is nearly always told by one memory access.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace npuseg::text {

struct PairMerge {
  uint32_t left = 0;
  uint32_t right = 0;
  uint32_t result = 0;
};

// Immutable after build; then shared between threads.
class PairTable {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;
  static constexpr size_t kMaxMerges = size_t{1} << 24;

  // The rank of a merge is its index; of equal pairs the last one counts. False when the pairs were
  // made to collide.
  [[nodiscard]] bool build(std::vector<PairMerge> merges);

  // Rank of the pair, or kNone.
  [[nodiscard]] uint32_t find(uint32_t left, uint32_t right) const {
    if (slots_.empty()) return kNone;
    const uint64_t hash = hash_of(left, right);
    const auto tag = static_cast<uint32_t>(hash >> tag_shift_) & ~rank_mask_;
    for (size_t at = hash >> index_shift_; slots_[at] != kFree; at = (at + 1) & slot_mask_) {
      if ((slots_[at] & ~rank_mask_) != tag) continue;
      const PairMerge& merge = merges_[slots_[at] & rank_mask_];
      if (merge.left == left && merge.right == right) return slots_[at] & rank_mask_;
    }
    return kNone;
  }
  [[nodiscard]] uint32_t result(uint32_t rank) const { return merges_[rank].result; }
  [[nodiscard]] size_t size() const { return merges_.size(); }
  [[nodiscard]] size_t memory_bytes() const {
    return merges_.size() * sizeof(PairMerge) + slots_.size() * sizeof(uint32_t);
  }

 private:
  static constexpr uint32_t kFree = UINT32_MAX;  // no rank has all bits set
  static uint64_t hash_of(uint32_t left, uint32_t right) {
    return (static_cast<uint64_t>(left) << 32 | right) * 0x9E3779B97F4A7C15u;
  }

  std::vector<PairMerge> merges_;
  std::vector<uint32_t> slots_;
  uint32_t rank_mask_ = 0;
  int index_shift_ = 0;
  int tag_shift_ = 0;
  size_t slot_mask_ = 0;
};

}  // namespace npuseg::text

// SPDX-License-Identifier: Apache-2.0
// Byte pair encoding over ids: merges by rank, leftmost first (spec
// imaging-and-tokenizers.md 12.3).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace npuseg::text {

// Immutable after the last add; then shared between threads.
class MergeTable {
 public:
  struct Merge {
    uint32_t rank = 0;
    uint32_t id = 0;
  };

  // Room for `count` merges at a load of one half.
  void reserve(size_t count);
  // A pair that is there already gets the new rank.
  void add(uint32_t left, uint32_t right, Merge merge);
  [[nodiscard]] const Merge* find(uint32_t left, uint32_t right) const;

  // Merges the symbols in place until no pair is left. O(n log n).
  void apply(std::vector<uint32_t>* symbols) const;

 private:
  struct Slot {
    uint64_t key = kEmpty;
    Merge merge;
  };
  static constexpr uint64_t kEmpty = UINT64_MAX;
  [[nodiscard]] size_t slot_of(uint64_t key) const;

  std::vector<Slot> slots_;
};

}  // namespace npuseg::text

// SPDX-License-Identifier: Apache-2.0
#include "text/bpe.h"

#include <queue>
#include <tuple>

namespace npuseg::text {

namespace {
uint64_t pair_key(uint32_t left, uint32_t right) {
  return static_cast<uint64_t>(left) << 32 | right;
}
}  // namespace

void MergeTable::reserve(size_t count) {
  size_t size = 16;
  while (size < 2 * count) size *= 2;
  slots_.assign(size, Slot{});
}

size_t MergeTable::slot_of(uint64_t key) const {
  uint64_t hash = key * 0x9E3779B97F4A7C15u;
  hash ^= hash >> 32;
  size_t at = static_cast<size_t>(hash) & (slots_.size() - 1);
  while (slots_[at].key != kEmpty && slots_[at].key != key) at = (at + 1) & (slots_.size() - 1);
  return at;
}

void MergeTable::add(uint32_t left, uint32_t right, Merge merge) {
  Slot& slot = slots_[slot_of(pair_key(left, right))];
  slot.key = pair_key(left, right);
  slot.merge = merge;
}

const MergeTable::Merge* MergeTable::find(uint32_t left, uint32_t right) const {
  if (slots_.empty()) return nullptr;
  const Slot& slot = slots_[slot_of(pair_key(left, right))];
  return slot.key == kEmpty ? nullptr : &slot.merge;
}

void MergeTable::apply(std::vector<uint32_t>* symbols) const {
  const size_t count = symbols->size();
  if (count < 2) return;
  constexpr size_t kNone = SIZE_MAX;
  std::vector<size_t> next(count);
  std::vector<size_t> before(count);
  std::vector<bool> gone(count, false);
  // (rank, position of the left symbol, id of the merged symbol), smallest first.
  using Candidate = std::tuple<uint32_t, size_t, uint32_t>;
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> queue;
  const auto push = [&](size_t left) {
    if (left == kNone || next[left] == kNone) return;
    if (const Merge* merge = find((*symbols)[left], (*symbols)[next[left]])) {
      queue.emplace(merge->rank, left, merge->id);
    }
  };
  for (size_t i = 0; i < count; ++i) {
    next[i] = i + 1 < count ? i + 1 : kNone;
    before[i] = i == 0 ? kNone : i - 1;
  }
  for (size_t i = 0; i + 1 < count; ++i) push(i);
  while (!queue.empty()) {
    const auto [rank, left, id] = queue.top();
    queue.pop();
    if (gone[left] || next[left] == kNone) continue;
    const size_t right = next[left];
    // A stale entry: the pair at this position is another one by now.
    const Merge* merge = find((*symbols)[left], (*symbols)[right]);
    if (merge == nullptr || merge->id != id) continue;
    (*symbols)[left] = id;
    gone[right] = true;
    next[left] = next[right];
    if (next[left] != kNone) before[next[left]] = left;
    push(before[left]);
    push(left);
  }
  size_t kept = 0;
  for (size_t i = 0; i != kNone; i = next[i]) (*symbols)[kept++] = (*symbols)[i];
  symbols->resize(kept);
}

}  // namespace npuseg::text

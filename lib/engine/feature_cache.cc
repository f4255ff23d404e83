// SPDX-License-Identifier: Apache-2.0
// Values leave through a list of their own: they are freed after the lock, because freeing large
// memory takes time that other threads need not wait for.
#include "engine/feature_cache.h"

#include <algorithm>
#include <utility>

namespace npuseg::engine {

// With mutex_ held.
FeatureCache::Entries::iterator FeatureCache::at(uint64_t picture) {
  return std::find_if(entries_.begin(), entries_.end(),
                      [&](const Entry& entry) { return entry.picture == picture; });
}

// With mutex_ held.
void FeatureCache::take_out(Entries::iterator entry, Entries* gone) {
  bytes_ -= entry->bytes;
  gone->splice(gone->end(), entries_, entry);
}

FeatureCache::Value FeatureCache::find(uint64_t picture) {
  const std::lock_guard lock(mutex_);
  const auto entry = at(picture);
  if (entry == entries_.end()) return nullptr;
  entries_.splice(entries_.begin(), entries_, entry);
  return entry->value;
}

void FeatureCache::keep(uint64_t picture, Value value, size_t bytes) {
  Entries gone;
  Entries fresh;
  fresh.push_back({picture, std::move(value), bytes});
  const std::lock_guard lock(mutex_);
  if (const auto old = at(picture); old != entries_.end()) take_out(old, &gone);
  if (bytes > limit_) {
    gone.splice(gone.end(), fresh);
    return;
  }
  while (!entries_.empty() && bytes_ > limit_ - bytes) take_out(std::prev(entries_.end()), &gone);
  entries_.splice(entries_.begin(), fresh);
  bytes_ += bytes;
}

void FeatureCache::drop(uint64_t picture) {
  Entries gone;
  const std::lock_guard lock(mutex_);
  if (const auto old = at(picture); old != entries_.end()) take_out(old, &gone);
}

bool FeatureCache::drop_others(uint64_t picture) {
  Entries gone;
  const std::lock_guard lock(mutex_);
  for (auto entry = entries_.begin(); entry != entries_.end();) {
    const auto next = std::next(entry);
    if (entry->picture != picture) take_out(entry, &gone);
    entry = next;
  }
  return !gone.empty();
}

size_t FeatureCache::bytes() const {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

size_t FeatureCache::bytes_of(uint64_t picture) const {
  const std::lock_guard lock(mutex_);
  for (const Entry& entry : entries_) {
    if (entry.picture == picture) return entry.bytes;
  }
  return 0;
}

}  // namespace npuseg::engine

// SPDX-License-Identifier: Apache-2.0
// What a model computed of pictures, kept up to a number of bytes: the least recently used goes
// first. It belongs to the model, so that features end with their model or their picture, whichever
// ends first, and it knows nothing of what they are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>

namespace npuseg::engine {

// Thread-safe.
class FeatureCache {
 public:
  using Value = std::shared_ptr<const void>;

  // SIZE_MAX: no limit.
  explicit FeatureCache(size_t limit_bytes) : limit_(limit_bytes) {}

  // Null when nothing is kept for this picture; else it is the most recently used now.
  Value find(uint64_t picture);
  // Larger than the whole limit: not kept.
  void keep(uint64_t picture, Value value, size_t bytes);
  void drop(uint64_t picture);
  // Drops all but those of one picture; false when there was nothing to drop.
  bool drop_others(uint64_t picture);

  [[nodiscard]] size_t bytes() const;
  [[nodiscard]] size_t bytes_of(uint64_t picture) const;

 private:
  struct Entry {
    uint64_t picture;
    Value value;
    size_t bytes;
  };
  using Entries = std::list<Entry>;

  Entries::iterator at(uint64_t picture);
  void take_out(Entries::iterator entry, Entries* gone);

  const size_t limit_;
  mutable std::mutex mutex_;
  Entries entries_;   // guarded by mutex_, most recent first
  size_t bytes_ = 0;  // guarded by mutex_
};

}  // namespace npuseg::engine

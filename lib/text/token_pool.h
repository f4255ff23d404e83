// SPDX-License-Identifier: Apache-2.0
// The strings of a vocabulary while a tokenizer is loaded: one pool of bytes, found by id or by
// content.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace npuseg::text {

// At most eight bytes as a number.
inline uint64_t load_bytes(const char* bytes, size_t size) {
  uint64_t value = 0;
  std::memcpy(&value, bytes, size);
  return value;
}

// memcmp would be a call; most tokens are shorter than two words.
inline bool same_bytes(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  const size_t size = a.size();
  if (size > 16) return a == b;
  if (size < 4) {
    return size == 0 || (a[0] == b[0] && a[size / 2] == b[size / 2] && a[size - 1] == b[size - 1]);
  }
  if (size < 8) {
    return load_bytes(a.data(), 4) == load_bytes(b.data(), 4) &&
           load_bytes(a.data() + size - 4, 4) == load_bytes(b.data() + size - 4, 4);
  }
  return load_bytes(a.data(), 8) == load_bytes(b.data(), 8) &&
         load_bytes(a.data() + size - 8, 8) == load_bytes(b.data() + size - 8, 8);
}

class TokenPool {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;

  // Ids below max_ids. False when the id is too large or taken.
  [[nodiscard]] bool add(std::string_view token, uint32_t id, size_t max_ids);
  // Makes find() work. Returns the id of a token that is there twice, or that was made to collide
  // with others, else kNone.
  [[nodiscard]] uint32_t index();

  // Highest id + 1, and how many of them are there.
  [[nodiscard]] size_t id_limit() const { return spans_.size(); }
  [[nodiscard]] size_t count() const { return count_; }
  [[nodiscard]] std::string_view token(uint32_t id) const {
    const Span& span = spans_[id];
    return {pool_.data() + span.at, span.size};
  }
  [[nodiscard]] const std::string& bytes() const { return pool_; }

  // A search in steps, so that many can be under way while memory answers: begin() each, then
  // finish() all together.
  struct Search {
    std::string_view token;
    uint64_t hash = 0;
    uint32_t id = kNone;  // the answer
  };
  [[nodiscard]] Search begin(std::string_view token) const {
    const Search search{token, hash_of(token), kNone};
    __builtin_prefetch(&slots_[search.hash >> index_shift_]);
    return search;
  }
  void finish(Search* searches, size_t count) const;
  [[nodiscard]] uint32_t find(std::string_view token) const {
    Search search = begin(token);
    finish(&search, 1);
    return search.id;
  }

 private:
  struct Span {
    uint32_t at = 0;
    uint32_t size = kNone;  // kNone: no token has this id
  };
  static uint64_t hash_of(std::string_view token);
  // The next id from slot *at on whose part of the hash fits, *at is then behind it; or kNone.
  [[nodiscard]] uint32_t probe(uint64_t hash, size_t* at) const {
    const uint32_t tag = static_cast<uint32_t>(hash >> (index_shift_ - 32)) & ~id_mask_;
    for (;;) {
      const uint32_t slot = slots_[*at];
      if (slot == kNone) return kNone;
      *at = (*at + 1) & (slots_.size() - 1);
      if ((slot & ~id_mask_) == tag) return slot & id_mask_;
    }
  }

  std::string pool_;
  std::vector<Span> spans_;
  size_t count_ = 0;
  // An id with a part of the hash above it.
  std::vector<uint32_t> slots_ = std::vector<uint32_t>(2, kNone);
  uint32_t id_mask_ = 0;
  int index_shift_ = 63;
};

}  // namespace npuseg::text

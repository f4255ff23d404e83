// SPDX-License-Identifier: Apache-2.0
// The strings of a vocabulary while a tokenizer is loaded: one pool of bytes, found by id or by
// content.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace npuseg::text {

class TokenPool {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;

  // Ids below max_ids, tokens of at least one byte. False when the id is too large or taken.
  [[nodiscard]] bool add(std::string_view token, uint32_t id, size_t max_ids);
  // Makes find() work. Returns the id of a token that is there twice, or that was made to collide
  // with others, else kNone.
  [[nodiscard]] uint32_t index();

  // Highest id + 1, and how many of them are there.
  [[nodiscard]] size_t id_limit() const { return spans_.size(); }
  [[nodiscard]] size_t count() const { return count_; }
  // Empty where no token has the id.
  [[nodiscard]] std::string_view token(uint32_t id) const {
    const Span& span = spans_[id];
    return {pool_.data() + span.at, span.size};
  }

  // A search in steps, so that many can be under way while memory answers: begin() each, then
  // finish() all together.
  struct Search {
    std::string_view token;
    uint64_t head = 0;  // the first eight bytes, zeros behind shorter tokens
    uint64_t hash = 0;
    uint32_t id = kNone;  // the answer
  };
  // readable: at least eight bytes may be read where the token begins, which saves branches.
  [[nodiscard]] Search begin(std::string_view token, bool readable) const {
    const uint64_t head = head_of(token, readable);
    const Search search{token, head, hash_of(token, head), kNone};
    __builtin_prefetch(&slots_[search.hash >> index_shift_]);
    return search;
  }
  void finish(Search* searches, size_t count) const;
  [[nodiscard]] uint32_t find(std::string_view token) const {
    Search search = begin(token, false);
    finish(&search, 1);
    return search.id;
  }

 private:
  struct Span {
    uint32_t at = 0;
    uint32_t size = 0;  // 0: no token has this id
  };
  static uint64_t word(const char* bytes) {
    uint64_t value;
    std::memcpy(&value, bytes, sizeof(value));
    return value;
  }
  static uint64_t head_of(std::string_view token, bool readable) {
    if (token.size() >= 8) return word(token.data());
    if (readable && std::endian::native == std::endian::little) {
      return word(token.data()) & ((uint64_t{1} << (8 * token.size())) - 1);
    }
    uint64_t value = 0;
    std::memcpy(&value, token.data(), token.size());
    return value;
  }
  static uint64_t mix(uint64_t hash, uint64_t word) {
    hash = (hash ^ word) * kMix;
    return hash ^ hash >> 29;
  }
  static uint64_t hash_of(std::string_view token, uint64_t head) {
    uint64_t hash = mix(token.size(), head);
    if (token.size() > 8) {
      for (size_t at = 8; at + 8 < token.size(); at += 8) hash = mix(hash, word(token.data() + at));
      hash = mix(hash, word(token.data() + token.size() - 8));
    }
    return hash * kMix;
  }
  [[nodiscard]] bool is_found(const Search& search) const {
    const std::string_view found = token(search.id);
    return found.size() == search.token.size() && head_of(found, true) == search.head &&
           (found.size() <= 8 || found.substr(8) == search.token.substr(8));
  }
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

  static constexpr uint64_t kMix = 0x9E3779B97F4A7C15u;
  static constexpr size_t kPadding = 8;

  std::string pool_;  // once indexed, with padding behind the last token
  std::vector<Span> spans_;
  size_t count_ = 0;
  // An id with a part of the hash above it.
  std::vector<uint32_t> slots_ = std::vector<uint32_t>(2, kNone);
  uint32_t id_mask_ = 0;
  int index_shift_ = 63;
};

}  // namespace npuseg::text

// SPDX-License-Identifier: Apache-2.0
// Finds added tokens in a text: the leftmost match, of those that start there the longest.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace npuseg::text {

// A trie over bytes. Immutable after the last add; then shared between threads.
class AddedTokens {
 public:
  // Longest content; bounds the work at each place of a text.
  static constexpr size_t kMaxBytes = 1024;

  struct Match {
    size_t at = std::string_view::npos;
    size_t size = 0;  // 0: none
    uint32_t id = 0;
  };

  // content: 1 to kMaxBytes bytes. False when it is there already.
  [[nodiscard]] bool add(std::string_view content, uint32_t id);
  [[nodiscard]] bool empty() const { return nodes_.empty(); }
  // The first match at or behind `from`.
  [[nodiscard]] Match find(std::string_view text, size_t from) const;
  [[nodiscard]] size_t memory_bytes() const { return nodes_.capacity() * sizeof(Node); }

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  struct Node {
    uint32_t child = kNone;    // first of the nodes one byte further
    uint32_t sibling = kNone;  // next node with the same parent
    uint32_t id = kNone;       // of the token that ends here
    unsigned char byte = 0;
  };
  [[nodiscard]] uint32_t step(uint32_t first, unsigned char byte) const;
  [[nodiscard]] Match match_at(std::string_view text, size_t at) const;

  std::vector<Node> nodes_;
  size_t first_bytes_ = 0;  // how many different bytes tokens begin with
  std::array<uint32_t, 256> roots_ = make_roots();
  static constexpr std::array<uint32_t, 256> make_roots() {
    std::array<uint32_t, 256> roots{};
    roots.fill(kNone);
    return roots;
  }
};

}  // namespace npuseg::text

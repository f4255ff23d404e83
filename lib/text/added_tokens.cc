// SPDX-License-Identifier: Apache-2.0
#include "text/added_tokens.h"

namespace npuseg::text {

namespace {
unsigned char byte_at(std::string_view text, size_t at) {
  return static_cast<unsigned char>(text[at]);
}
}  // namespace

uint32_t AddedTokens::step(uint32_t first, unsigned char byte) const {
  while (first != kNone && nodes_[first].byte != byte) first = nodes_[first].sibling;
  return first;
}

bool AddedTokens::add(std::string_view content, uint32_t id) {
  const auto append = [&](unsigned char byte, uint32_t sibling) {
    nodes_.push_back({kNone, sibling, kNone, byte});
    return static_cast<uint32_t>(nodes_.size() - 1);
  };
  const unsigned char first = byte_at(content, 0);
  if (roots_[first] == kNone) {
    roots_[first] = append(first, kNone);
    ++first_bytes_;
  }
  uint32_t node = roots_[first];
  for (size_t i = 1; i < content.size(); ++i) {
    const unsigned char byte = byte_at(content, i);
    uint32_t next = step(nodes_[node].child, byte);
    if (next == kNone) {
      next = append(byte, nodes_[node].child);
      nodes_[node].child = next;
    }
    node = next;
  }
  if (nodes_[node].id != kNone) return false;
  nodes_[node].id = id;
  return true;
}

AddedTokens::Match AddedTokens::match_at(std::string_view text, size_t at) const {
  Match best;
  uint32_t node = roots_[byte_at(text, at)];
  for (size_t i = at + 1; node != kNone; ++i) {
    if (nodes_[node].id != kNone) best = {at, i - at, nodes_[node].id};
    if (i == text.size()) break;
    node = step(nodes_[node].child, byte_at(text, i));
  }
  return best;
}

AddedTokens::Match AddedTokens::find(std::string_view text, size_t from) const {
  if (nodes_.empty()) return {};
  // Most vocabularies have one first byte, '<', which the library's search finds fastest.
  const unsigned char first = nodes_[0].byte;
  for (size_t at = from; at < text.size(); ++at) {
    if (first_bytes_ == 1) {
      at = text.find(static_cast<char>(first), at);
      if (at == std::string_view::npos) break;
    } else if (roots_[byte_at(text, at)] == kNone) {
      continue;
    }
    const Match match = match_at(text, at);
    if (match.size != 0) return match;
  }
  return {};
}

}  // namespace npuseg::text

// SPDX-License-Identifier: Apache-2.0
// Walks JSON text in place, for the two parts of a tokenizer.json that hold nearly all of its
// bytes. Eight bytes are looked at together; nothing is read behind the end.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace npuseg::text {

class JsonScanner {
 public:
  explicit JsonScanner(std::string_view text) : text_(text) {}

  [[nodiscard]] size_t position() const { return at_; }
  void move_to(size_t at) { at_ = at; }
  [[nodiscard]] std::string_view text() const { return text_; }

  // Skips white space; then: is the next character `c`? It is consumed when it is.
  bool take(char c) {
    skip_space();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  // The next character behind white space, 0 at the end.
  char peek() {
    skip_space();
    return at_ < text_.size() ? text_[at_] : '\0';
  }

  // A string without its quotes, as it stands in the text; *escaped tells whether it has
  // backslashes. False when there is none or it does not end.
  bool take_string(std::string_view* raw, bool* escaped) {
    if (!take('"')) return false;
    const size_t begin = at_;
    *escaped = false;
    for (;;) {
      at_ = find_string_end(at_);
      if (at_ >= text_.size()) return false;
      const char c = text_[at_];
      if (c == '"') break;
      if (c != '\\' || at_ + 1 >= text_.size()) return false;  // a control character
      *escaped = true;
      at_ += 2;
    }
    *raw = text_.substr(begin, at_ - begin);
    ++at_;
    return true;
  }

  // A whole number without sign, of at most nine digits.
  bool take_number(uint32_t* out) {
    skip_space();
    const size_t begin = at_;
    uint32_t value = 0;
    while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9') {
      if (at_ - begin == 9) return false;
      value = value * 10 + static_cast<uint32_t>(text_[at_++] - '0');
    }
    *out = value;
    return at_ != begin && (text_[begin] != '0' || at_ == begin + 1);
  }

  // Moves behind any value. Brackets are counted, what lies between is not looked at.
  bool skip_value();

 private:
  static constexpr bool kLittle = std::endian::native == std::endian::little;
  static constexpr uint64_t kOnes = 0x0101010101010101u;

  [[nodiscard]] uint64_t word(size_t at) const {
    uint64_t value;
    std::memcpy(&value, text_.data() + at, sizeof(value));
    return value;
  }

  void skip_space() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (static_cast<unsigned char>(c) > 0x20) return;
      if (kLittle && (c == ' ' || c == '\n') && text_.size() - at_ > 8) {
        const uint64_t other = word(at_ + 1) ^ (kOnes * 0x20);
        at_ += 1 + (other == 0 ? 8 : static_cast<size_t>(std::countr_zero(other)) / 8);
      } else if (c == ' ' || c == '\n' || c == '\r' || c == '\t') {
        ++at_;
      } else {
        return;
      }
    }
  }

  // First quote, backslash or control character at or behind `at`.
  [[nodiscard]] size_t find_string_end(size_t at) const {
    const auto zero_bytes = [](uint64_t w) { return (w - kOnes) & ~w & (kOnes * 0x80); };
    while (kLittle && text_.size() - at >= 8) {
      const uint64_t w = word(at);
      const uint64_t found = zero_bytes(w ^ (kOnes * '"')) | zero_bytes(w ^ (kOnes * '\\')) |
                             ((w - kOnes * 0x20) & ~w & (kOnes * 0x80));
      if (found != 0) return at + static_cast<size_t>(std::countr_zero(found)) / 8;
      at += 8;
    }
    while (at < text_.size()) {
      const auto c = static_cast<unsigned char>(text_[at]);
      if (c == '"' || c == '\\' || c < 0x20) break;
      ++at;
    }
    return at;
  }

  std::string_view text_;
  size_t at_ = 0;
};

// Appends what an escaped string means. False for unknown escapes and halves of surrogate pairs.
bool unescape_json(std::string_view raw, std::string* out);

}  // namespace npuseg::text

// SPDX-License-Identifier: Apache-2.0
// Writing JSON: numbers in shortest round-trip form, strings escaped, bytes that are no UTF-8
// replaced.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace cli {

bool is_utf8(std::string_view text);

// Builds one document; commas are put where they belong.
class JsonWriter {
 public:
  JsonWriter& open(char bracket);   // { or [
  JsonWriter& close(char bracket);  // } or ]
  JsonWriter& key(std::string_view name);
  JsonWriter& text(std::string_view value);
  JsonWriter& number(float value);
  JsonWriter& number(double value);
  JsonWriter& number(uint64_t value);
  JsonWriter& number(int64_t value);
  JsonWriter& null();
  JsonWriter& boolean(bool value);
  [[nodiscard]] const std::string& str() const { return out_; }

 private:
  void begin_value();
  std::string out_;
  bool comma_ = false;
};

}  // namespace cli

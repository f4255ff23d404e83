// SPDX-License-Identifier: Apache-2.0
// Strict JSON reading (simdjson behind it), for config, tokenizer, index and safetensors headers.
//
// A JsonValue is a light handle into its JsonDocument, which must outlive it. UTF-8 is validated,
// depth is limited, numbers are exact. Duplicate keys are kept; operator[] gives the first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "core/status.h"

namespace npuseg::core {

class JsonArrayIterator;
class JsonObjectIterator;

// For other text formats: whether all of it is UTF-8.
bool is_utf8(std::string_view text);

class JsonValue {
 public:
  JsonValue() = default;  // absent

  [[nodiscard]] bool exists() const { return exists_; }
  [[nodiscard]] bool is_null() const;
  [[nodiscard]] bool is_object() const;
  [[nodiscard]] bool is_array() const;
  [[nodiscard]] bool is_string() const;
  [[nodiscard]] bool is_number() const;
  [[nodiscard]] bool is_bool() const;
  // False when the value is of another type or out of range; *out is then unchanged.
  bool get(bool* out) const;
  bool get(int64_t* out) const;  // integers only (1.0 is not one)
  bool get(uint64_t* out) const;
  bool get(double* out) const;            // any number
  bool get(std::string_view* out) const;  // valid while the document lives
  // Absent value when not an object or without that key. Linear in the object's size.
  [[nodiscard]] JsonValue operator[](std::string_view key) const;
  // Elements of an array, members of an object; 0 otherwise.
  [[nodiscard]] size_t size() const;
  // "object", "string", ... for messages.
  [[nodiscard]] const char* type_name() const;

  // Calls fn(JsonValue) for each element / fn(string_view key, JsonValue) for each member, until
  // one returns a failure. Nothing is called when the type differs.
  template <class Fn>
  Status for_each_element(Fn&& fn) const;
  template <class Fn>
  Status for_each_member(Fn&& fn) const;

 private:
  friend class JsonDocument;
  friend class JsonArrayIterator;
  friend class JsonObjectIterator;
  // Room for one simdjson::dom::element, which is two words and trivially copyable.
  alignas(8) unsigned char element_[16] = {};
  bool exists_ = false;
};

class JsonArrayIterator {
 public:
  explicit JsonArrayIterator(const JsonValue& array);
  bool next(JsonValue* out);

 private:
  alignas(8) unsigned char at_[16] = {};
  alignas(8) unsigned char end_[16] = {};
  bool valid_ = false;
};

class JsonObjectIterator {
 public:
  explicit JsonObjectIterator(const JsonValue& object);
  bool next(std::string_view* key, JsonValue* out);

 private:
  alignas(8) unsigned char at_[16] = {};
  alignas(8) unsigned char end_[16] = {};
  bool valid_ = false;
};

class JsonDocument {
 public:
  JsonDocument();
  JsonDocument(JsonDocument&&) noexcept;
  JsonDocument& operator=(JsonDocument&&) noexcept;
  ~JsonDocument();

  static constexpr size_t kMaxDepth = 64;

  // `where` names the text in messages (a path). The text is copied as needed.
  static Result<JsonDocument> parse(std::string_view text, const std::string& where,
                                    size_t max_depth = kMaxDepth);
  // read_file + parse.
  static Result<JsonDocument> load(const std::string& path, size_t max_bytes);

  [[nodiscard]] JsonValue root() const;

 private:
  struct Parsed;
  std::unique_ptr<Parsed> parsed_;
};

template <class Fn>
Status JsonValue::for_each_element(Fn&& fn) const {
  JsonArrayIterator at(*this);
  JsonValue value;
  while (at.next(&value)) NPUSEG_RETURN_IF_ERROR(fn(value));
  return {};
}

template <class Fn>
Status JsonValue::for_each_member(Fn&& fn) const {
  JsonObjectIterator at(*this);
  std::string_view key;
  JsonValue value;
  while (at.next(&key, &value)) NPUSEG_RETURN_IF_ERROR(fn(key, value));
  return {};
}

}  // namespace npuseg::core

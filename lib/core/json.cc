// SPDX-License-Identifier: Apache-2.0
#include "core/json.h"

#include <simdjson.h>

#include <cstring>
#include <new>
#include <type_traits>
#include <utility>

#include "core/file.h"

namespace npuseg::core {

namespace {

namespace dom = simdjson::dom;

static_assert(sizeof(dom::element) <= 16 && std::is_trivially_copyable_v<dom::element>);
static_assert(sizeof(dom::array::iterator) <= 16 &&
              std::is_trivially_copyable_v<dom::array::iterator>);
static_assert(sizeof(dom::object::iterator) <= 16 &&
              std::is_trivially_copyable_v<dom::object::iterator>);

template <class T>
T load(const unsigned char* bytes) {
  // The wrapped types have no public default constructor that is also trivial.
  alignas(T) unsigned char room[sizeof(T)];
  std::memcpy(room, bytes, sizeof(T));
  return *std::launder(reinterpret_cast<T*>(room));
}

template <class T>
void store(unsigned char* bytes, const T& value) {
  std::memcpy(bytes, &value, sizeof(T));
}

// Integers of more than 18 digits written as decimals, which makes doubles of them: transformers
// writes 10^30 for "no limit", and the parser refuses what 64 bits do not hold.
std::string with_long_integers_as_decimals(std::string_view text) {
  std::string out;
  out.reserve(text.size() + 64);
  bool in_string = false;
  for (size_t at = 0; at < text.size();) {
    const char c = text[at];
    if (in_string && c == '\\' && at + 1 < text.size()) {
      out.append(text.substr(at, 2));
      at += 2;
      continue;
    }
    if (c == '"') in_string = !in_string;
    const auto is_number = [](char n) {
      return (n >= '0' && n <= '9') || n == '-' || n == '+' || n == '.' || n == 'e' || n == 'E';
    };
    size_t end = at;
    bool integer = true;
    while (!in_string && end < text.size() && is_number(text[end])) {
      integer = integer && (text[end] == '-' || (text[end] >= '0' && text[end] <= '9'));
      ++end;
    }
    if (end == at) {
      out.push_back(c);
      ++at;
      continue;
    }
    out.append(text.substr(at, end - at));
    if (integer && end - at > 18) out.append(".0");
    at = end;
  }
  return out;
}

}  // namespace

bool is_utf8(std::string_view text) { return simdjson::validate_utf8(text.data(), text.size()); }

bool JsonValue::is_null() const { return exists_ && load<dom::element>(element_).is_null(); }
bool JsonValue::is_object() const { return exists_ && load<dom::element>(element_).is_object(); }
bool JsonValue::is_array() const { return exists_ && load<dom::element>(element_).is_array(); }
bool JsonValue::is_string() const { return exists_ && load<dom::element>(element_).is_string(); }
bool JsonValue::is_number() const { return exists_ && load<dom::element>(element_).is_number(); }
bool JsonValue::is_bool() const { return exists_ && load<dom::element>(element_).is_bool(); }

bool JsonValue::get(bool* out) const {
  return exists_ && load<dom::element>(element_).get_bool().get(*out) == simdjson::SUCCESS;
}
bool JsonValue::get(int64_t* out) const {
  return exists_ && load<dom::element>(element_).get_int64().get(*out) == simdjson::SUCCESS;
}
bool JsonValue::get(uint64_t* out) const {
  return exists_ && load<dom::element>(element_).get_uint64().get(*out) == simdjson::SUCCESS;
}
bool JsonValue::get(double* out) const {
  return exists_ && load<dom::element>(element_).get_double().get(*out) == simdjson::SUCCESS;
}
bool JsonValue::get(std::string_view* out) const {
  return exists_ && load<dom::element>(element_).get_string().get(*out) == simdjson::SUCCESS;
}

JsonValue JsonValue::operator[](std::string_view key) const {
  JsonValue found;
  if (!is_object()) return found;
  dom::element element;
  // at_key compares raw bytes; the pointer syntax of operator[] is not wanted here.
  if (load<dom::element>(element_).at_key(key).get(element) == simdjson::SUCCESS) {
    store(found.element_, element);
    found.exists_ = true;
  }
  return found;
}

size_t JsonValue::size() const {
  size_t count = 0;
  if (is_array()) {
    JsonArrayIterator at(*this);
    JsonValue value;
    while (at.next(&value)) ++count;
  } else if (is_object()) {
    JsonObjectIterator at(*this);
    std::string_view key;
    JsonValue value;
    while (at.next(&key, &value)) ++count;
  }
  return count;
}

const char* JsonValue::type_name() const {
  if (!exists_) return "absent";
  switch (load<dom::element>(element_).type()) {
    case dom::element_type::ARRAY:
      return "array";
    case dom::element_type::OBJECT:
      return "object";
    case dom::element_type::INT64:
    case dom::element_type::UINT64:
      return "integer";
    case dom::element_type::DOUBLE:
      return "number";
    case dom::element_type::STRING:
      return "string";
    case dom::element_type::BOOL:
      return "boolean";
    case dom::element_type::NULL_VALUE:
      return "null";
    default:
      return "number";
  }
}

JsonArrayIterator::JsonArrayIterator(const JsonValue& array) {
  dom::array elements;
  if (!array.exists_ ||
      load<dom::element>(array.element_).get_array().get(elements) != simdjson::SUCCESS) {
    return;
  }
  store(at_, elements.begin());
  store(end_, elements.end());
  valid_ = true;
}

bool JsonArrayIterator::next(JsonValue* out) {
  if (!valid_) return false;
  auto at = load<dom::array::iterator>(at_);
  if (!(at != load<dom::array::iterator>(end_))) return false;
  store(out->element_, *at);
  out->exists_ = true;
  ++at;
  store(at_, at);
  return true;
}

JsonObjectIterator::JsonObjectIterator(const JsonValue& object) {
  dom::object members;
  if (!object.exists_ ||
      load<dom::element>(object.element_).get_object().get(members) != simdjson::SUCCESS) {
    return;
  }
  store(at_, members.begin());
  store(end_, members.end());
  valid_ = true;
}

bool JsonObjectIterator::next(std::string_view* key, JsonValue* out) {
  if (!valid_) return false;
  auto at = load<dom::object::iterator>(at_);
  if (!(at != load<dom::object::iterator>(end_))) return false;
  *key = at.key();
  store(out->element_, at.value());
  out->exists_ = true;
  ++at;
  store(at_, at);
  return true;
}

struct JsonDocument::Parsed {
  dom::parser parser;
  dom::element root;
};

JsonDocument::JsonDocument() = default;
JsonDocument::JsonDocument(JsonDocument&&) noexcept = default;
JsonDocument& JsonDocument::operator=(JsonDocument&&) noexcept = default;
JsonDocument::~JsonDocument() = default;

Result<JsonDocument> JsonDocument::parse(std::string_view text, const std::string& where,
                                         size_t max_depth) {
  JsonDocument document;
  document.parsed_ = std::make_unique<Parsed>();
  simdjson::error_code error =
      document.parsed_->parser.allocate(std::max<size_t>(text.size(), 32), max_depth);
  if (error == simdjson::SUCCESS) {
    // realloc_if_needed copies the text into padded memory, so any string_view will do.
    error = document.parsed_->parser.parse(text.empty() ? "" : text.data(), text.size(), true)
                .get(document.parsed_->root);
  }
  // Which error a long integer is depends on simdjson's version.
  if (error != simdjson::SUCCESS && error != simdjson::MEMALLOC) {
    const std::string decimals = with_long_integers_as_decimals(text);
    const size_t bytes = std::max<size_t>(decimals.size(), 32);
    if (document.parsed_->parser.allocate(bytes, max_depth) == simdjson::SUCCESS &&
        document.parsed_->parser.parse(decimals.data(), decimals.size(), true)
                .get(document.parsed_->root) == simdjson::SUCCESS) {
      error = simdjson::SUCCESS;
    }
  }
  if (error == simdjson::MEMALLOC) {
    return Status(Code::kOutOfMemory, "cannot parse: " + where + ": out of memory");
  }
  if (error != simdjson::SUCCESS) {
    const std::string hint =
        is_lfs_pointer(text) ? "this is a git-lfs pointer; run 'git lfs pull' to get the real file"
                             : "the file is damaged or not JSON; get it again";
    return Status(Code::kCorruptData,
                  "cannot parse: " + where + ": " + simdjson::error_message(error) + "; " + hint);
  }
  return document;
}

Result<JsonDocument> JsonDocument::load(const std::string& path, size_t max_bytes) {
  NPUSEG_ASSIGN_OR_RETURN(const std::string text, read_file(path, max_bytes));
  return parse(text, path);
}

JsonValue JsonDocument::root() const {
  JsonValue value;
  if (parsed_) {
    store(value.element_, parsed_->root);
    value.exists_ = true;
  }
  return value;
}

}  // namespace npuseg::core

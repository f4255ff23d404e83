// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/config_reader.h"

#include <cmath>

namespace npuseg::checkpoint {

using core::Code;
using core::format;
using core::JsonValue;
using core::Status;

void ConfigReader::fail(std::string_view key, const std::string& why, Code code) {
  if (!status_.ok()) return;
  std::string name = section_;
  if (!key.empty()) name += (name.empty() ? "" : ".") + std::string(key);
  status_ =
      Status(code, "cannot use model: " + path_ + ": " + name + (name.empty() ? "" : " ") + why);
}

void ConfigReader::merge(const ConfigReader& other) {
  if (status_.ok()) status_ = other.status_;
}

bool ConfigReader::wanted(std::string_view key, JsonValue* value) {
  if (!status_.ok()) return false;
  *value = object_[key];
  return value->exists() && !value->is_null();
}

ConfigReader ConfigReader::child(std::string_view key) {
  const std::string section =
      section_.empty() ? std::string(key) : section_ + "." + std::string(key);
  const JsonValue value = object_[key];
  if (value.exists() && !value.is_null() && !value.is_object()) {
    fail(key,
         std::string("is of type ") + value.type_name() + ", an object is expected; correct it",
         Code::kCorruptData);
    return {path_, section, JsonValue()};
  }
  return {path_, section, value};
}

void ConfigReader::size(std::string_view key, size_t least, size_t most, size_t* out) {
  JsonValue value;
  if (!wanted(key, &value)) return;
  uint64_t read = 0;
  if (!value.get(&read)) {
    int64_t negative = 0;
    fail(key,
         value.get(&negative) ? format("is %lld, at least %zu is expected; correct it",
                                       static_cast<long long>(negative), least)
                              : std::string("is of type ") + value.type_name() +
                                    ", an integer is expected; correct it",
         Code::kCorruptData);
    return;
  }
  if (read < least || read > most) {
    fail(key,
         format("is %llu, %zu to %zu is supported; correct it or use another model",
                static_cast<unsigned long long>(read), least, most),
         Code::kUnsupported);
    return;
  }
  *out = static_cast<size_t>(read);
}

void ConfigReader::number(std::string_view key, double least, double most, double* out) {
  JsonValue value;
  if (!wanted(key, &value)) return;
  double read = 0.0;
  if (!value.get(&read)) {
    fail(key, std::string("is of type ") + value.type_name() + ", a number is expected; correct it",
         Code::kCorruptData);
    return;
  }
  if (!(read >= least && read <= most)) {
    fail(key, format("is %g, %g to %g is supported; correct it", read, least, most),
         Code::kUnsupported);
    return;
  }
  *out = read;
}

void ConfigReader::number(std::string_view key, double least, double most, float* out) {
  double read = static_cast<double>(*out);
  number(key, least, most, &read);
  *out = static_cast<float>(read);
}

void ConfigReader::boolean(std::string_view key, bool* out) {
  JsonValue value;
  if (!wanted(key, &value)) return;
  if (!value.get(out)) {
    fail(key,
         std::string("is of type ") + value.type_name() + ", true or false is expected; correct it",
         Code::kCorruptData);
  }
}

void ConfigReader::text(std::string_view key, std::string* out) {
  JsonValue value;
  if (!wanted(key, &value)) return;
  std::string_view read;
  if (!value.get(&read)) {
    fail(key, std::string("is of type ") + value.type_name() + ", a string is expected; correct it",
         Code::kCorruptData);
    return;
  }
  *out = read;
}

}  // namespace npuseg::checkpoint

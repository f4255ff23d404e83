// SPDX-License-Identifier: Apache-2.0
// Typed reading of configuration objects: missing keys keep their default, wrong types and values
// out of bounds are refused with file, key, value and bound.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "core/json.h"
#include "core/status.h"

namespace npuseg::checkpoint {

// Reads members of one JSON object. The first failure is kept and returned by status(); reads after
// it do nothing, so call sites need no check of their own.
class ConfigReader {
 public:
  // path: "config.json", section: "vision_config.backbone_config" or empty.
  ConfigReader(std::string path, std::string section, core::JsonValue object)
      : path_(std::move(path)), section_(std::move(section)), object_(object) {}

  // An object member; absent or null gives a reader whose reads all keep their defaults.
  [[nodiscard]] ConfigReader child(std::string_view key);
  [[nodiscard]] bool present() const { return object_.exists() && !object_.is_null(); }
  [[nodiscard]] core::JsonValue value(std::string_view key) const { return object_[key]; }

  void size(std::string_view key, size_t least, size_t most, size_t* out);
  void number(std::string_view key, double least, double most, double* out);
  void number(std::string_view key, double least, double most, float* out);
  void boolean(std::string_view key, bool* out);
  void text(std::string_view key, std::string* out);

  void fail(std::string_view key, const std::string& why, core::Code code);
  [[nodiscard]] const core::Status& status() const { return status_; }
  // Takes over a child's failure.
  void merge(const ConfigReader& other);

 private:
  [[nodiscard]] bool wanted(std::string_view key, core::JsonValue* value);

  std::string path_;
  std::string section_;
  core::JsonValue object_;
  core::Status status_;
};

}  // namespace npuseg::checkpoint

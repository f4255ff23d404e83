// SPDX-License-Identifier: Apache-2.0
#include "bundle/manifest.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <system_error>
#include <utility>

#include "bundle/text_forms.h"
#include "core/file.h"
#include "core/json.h"

namespace npuseg::bundle {

using core::Code;
using core::format;
using core::Result;
using core::Status;

namespace {

constexpr size_t kMostShown = 200;  // bytes of a line in a message

Status refuse_file(const std::string& where, const std::string& why,
                   const std::string& remedy = "export the bundle again") {
  return {Code::kCorruptData, "cannot read bundle: " + where + ": " + why + "; " + remedy};
}

std::string bad_size(size_t value) {
  return format("is %zu, between 1 and %zu is possible", value, kMostSize);
}

bool parse_float(std::string_view text, float* out) {
  if (text.starts_with('+')) text.remove_prefix(1);
  const char* end = text.data() + text.size();
  const std::from_chars_result done = std::from_chars(text.data(), end, *out);
  return done.ec == std::errc() && done.ptr == end && text.find('(') == std::string_view::npos;
}

}  // namespace

Record::Record(std::string where, size_t line, std::string text)
    : where_(std::move(where)), line_(line), text_(std::move(text)), words_(split_words(text_)) {
  for (size_t i = 1; i < words_.size(); ++i) {
    const size_t equals = words_[i].find('=');
    if (equals == std::string::npos) continue;
    values_.emplace_back(words_[i].substr(0, equals), words_[i].substr(equals + 1));
  }
}

Status Record::refuse(const std::string& why) const {
  std::string shown = text_.substr(0, kMostShown);
  if (shown.size() < text_.size()) shown += "...";
  return refuse_file(format("%s:%zu", where_.c_str(), line_), why + ", in: " + shown);
}

Status Record::need_fields(size_t count) const {
  if (fields() >= count) return {};
  return refuse(format("expected at least %zu fields", count));
}

Result<size_t> Record::integer_field(size_t index) const {
  size_t value = 0;
  if (!parse_integer(field(index), &value)) {
    return refuse(format("field %zu (%s) is malformed", index + 1, field(index).c_str()));
  }
  return value;
}

const std::string* Record::find(std::string_view key) const {
  const std::string* found = nullptr;
  for (const auto& [name, text] : values_) {
    if (name == key) found = &text;
  }
  return found;
}

Result<std::string> Record::value(std::string_view key) const {
  const std::string* found = find(key);
  if (found == nullptr) return refuse("`" + std::string(key) + "=` missing");
  return *found;
}

Result<size_t> Record::integer(std::string_view key) const {
  NPUSEG_ASSIGN_OR_RETURN(const std::string text, value(key));
  size_t number = 0;
  if (!parse_integer(text, &number)) {
    return refuse("`" + std::string(key) + "=" + text + "` is malformed");
  }
  return number;
}

Result<size_t> Record::size(std::string_view key) const {
  NPUSEG_ASSIGN_OR_RETURN(const size_t value, integer(key));
  if (value == 0 || value > kMostSize) return refuse(std::string(key) + " " + bad_size(value));
  return value;
}

Result<bool> Record::flag(std::string_view key) const {
  const std::string* text = find(key);
  if (text == nullptr) return refuse("`" + std::string(key) + "=` missing");
  if (*text != "0" && *text != "1") {
    return refuse("`" + std::string(key) + "=" + *text + "` is not 0 or 1");
  }
  return *text == "1";
}

Result<std::vector<uint32_t>> Record::words(std::string_view key) const {
  NPUSEG_ASSIGN_OR_RETURN(const std::string text, value(key));
  std::vector<uint32_t> numbers;
  for (const std::string& item : split_at(text, ',')) {
    size_t number = 0;
    if (!parse_integer(item, &number) || number > std::numeric_limits<uint32_t>::max()) {
      return refuse("bad instruction word \"" + item + "\" in `" + std::string(key) + "=`");
    }
    numbers.push_back(static_cast<uint32_t>(number));
  }
  return numbers;
}

Result<std::string> Record::path(std::string_view key) const {
  NPUSEG_ASSIGN_OR_RETURN(std::string text, value(key));
  const std::string why = bad_path(text);
  if (!why.empty()) return refuse("`" + std::string(key) + "=" + text + "` " + why);
  return text;
}

Result<std::string> Record::path_field(size_t index) const {
  const std::string why = bad_path(field(index));
  if (!why.empty()) return refuse("field " + std::to_string(index + 1) + " " + why);
  return field(index);
}

std::string Record::rest(size_t fields) const { return rest_of_line(text_, fields); }

Result<Manifest> Manifest::parse(std::string_view text, const std::string& where) {
  if (core::is_lfs_pointer(text)) {
    return refuse_file(where, "this is a git-lfs pointer", "run 'git lfs pull'");
  }
  if (!core::is_utf8(text)) return refuse_file(where, "is not UTF-8 text");
  Manifest manifest;
  manifest.where_ = where;
  size_t number = 0;
  for (const std::string_view line : split_lines(text)) {
    ++number;
    Record record(where, number, std::string(line));
    if (record.tag().empty() || record.tag()[0] == '#') continue;
    if (record.tag() == "version") {
      NPUSEG_RETURN_IF_ERROR(record.need_fields(1));
      NPUSEG_ASSIGN_OR_RETURN(const size_t version, record.integer_field(0));
      if (version > std::numeric_limits<uint32_t>::max()) {
        return record.refuse("field 1 (" + record.field(0) + ") is malformed");
      }
      if (!manifest.version_.empty()) return record.refuse("second version record");
      manifest.version_.emplace_back(static_cast<uint32_t>(version), number);
    } else if (record.tag() == "param") {
      NPUSEG_RETURN_IF_ERROR(record.need_fields(2));
      if (!manifest.params_.try_emplace(record.field(0), Param{record.rest(1), number}).second) {
        return record.refuse("param " + record.field(0) + " defined twice");
      }
    } else if (record.tag() == "xclbin") {
      NPUSEG_RETURN_IF_ERROR(record.need_fields(3));
      NPUSEG_ASSIGN_OR_RETURN(std::string file, record.path_field(1));
      XclbinRecord xclbin{std::move(file), record.field(2), number};
      if (!manifest.xclbins_.try_emplace(record.field(0), std::move(xclbin)).second) {
        return record.refuse("xclbin " + record.field(0) + " defined twice");
      }
    } else {
      manifest.records_.push_back(std::move(record));
    }
  }
  return manifest;
}

Result<uint32_t> Manifest::version(const std::vector<uint32_t>& supported) const {
  if (!version_.empty() &&
      std::find(supported.begin(), supported.end(), version_[0].first) != supported.end()) {
    return version_[0].first;
  }
  std::string reads;
  for (size_t i = 0; i < supported.size(); ++i) {
    if (i != 0) reads += i + 1 == supported.size() ? " and " : ", ";
    reads += std::to_string(supported[i]);
  }
  const std::string found =
      version_.empty() ? "no version record" : "version " + std::to_string(version_[0].first);
  return Status(Code::kUnsupported, "cannot use bundle: " + where_ + ": " + found +
                                        ", this version of npuseg reads " + "version " + reads +
                                        " of this model's bundles; export the bundle again");
}

const std::string* Manifest::find_param(std::string_view name) const {
  const auto at = params_.find(name);
  return at == params_.end() ? nullptr : &at->second.value;
}

Status Manifest::refuse_param(std::string_view name, const std::string& why) const {
  const auto at = params_.find(name);
  const std::string place =
      at == params_.end() ? where_ : format("%s:%zu", where_.c_str(), at->second.line);
  return refuse_file(place, "param " + std::string(name) + " " + why);
}

Status Manifest::refuse(const std::string& why) const {
  return {Code::kCorruptData,
          "cannot use bundle: " + where_ + ": " + why + "; export the bundle again"};
}

Result<std::string> Manifest::param(std::string_view name) const {
  const std::string* found = find_param(name);
  if (found == nullptr) return refuse_param(name, "is missing");
  return *found;
}

Result<size_t> Manifest::integer(std::string_view name) const {
  NPUSEG_ASSIGN_OR_RETURN(const std::string text, param(name));
  size_t value = 0;
  if (!parse_integer(text, &value)) {
    return refuse_param(name, "(" + text.substr(0, kMostShown) + ") is malformed");
  }
  return value;
}

Result<size_t> Manifest::size(std::string_view name) const {
  NPUSEG_ASSIGN_OR_RETURN(const size_t value, integer(name));
  if (value == 0 || value > kMostSize) return refuse_param(name, bad_size(value));
  return value;
}

Result<float> Manifest::number(std::string_view name) const {
  NPUSEG_ASSIGN_OR_RETURN(const std::string text, param(name));
  float value = 0;
  if (!parse_float(text, &value)) {
    return refuse_param(name, "(" + text.substr(0, kMostShown) + ") is malformed");
  }
  return value;
}

Result<std::vector<size_t>> Manifest::list(std::string_view name) const {
  NPUSEG_ASSIGN_OR_RETURN(const std::string text, param(name));
  std::vector<size_t> values;
  for (const std::string& item : split_at(text, ',')) {
    if (item.empty()) continue;
    if (!parse_integer(item, &values.emplace_back())) {
      return refuse_param(name, "(" + text.substr(0, kMostShown) + ") has the bad item " + item);
    }
  }
  return values;
}

Result<std::vector<std::string>> Manifest::words(std::string_view name) const {
  NPUSEG_ASSIGN_OR_RETURN(const std::string text, param(name));
  return split_at(text, ',');
}

bool Manifest::is_one(std::string_view name) const {
  const std::string* found = find_param(name);
  return found != nullptr && *found == "1";
}

}  // namespace npuseg::bundle

// SPDX-License-Identifier: Apache-2.0
// manifest.txt: one record a line (spec iron-bundle-sam3, 1.2). This is the grammar that all IRON
// bundles share; sam3_manifest.h and embeddinggemma2_manifest.h give the records their meaning.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/status.h"

namespace npuseg::bundle {

constexpr size_t kMaxManifestBytes = size_t{16} << 20;

// Large enough for every model, small enough that products of three do not overflow.
constexpr size_t kMostSize = size_t{1} << 20;

// A line with its words. Typed access refuses with the file, the line and the line's text.
class Record {
 public:
  Record(std::string where, size_t line, std::string text);

  [[nodiscard]] const std::string& tag() const { return words_[0]; }
  [[nodiscard]] size_t line() const { return line_; }
  // Words behind the tag.
  [[nodiscard]] size_t fields() const { return words_.size() - 1; }

  [[nodiscard]] core::Status need_fields(size_t count) const;
  // index < fields().
  [[nodiscard]] const std::string& field(size_t index) const { return words_[index + 1]; }
  core::Result<size_t> integer_field(size_t index) const;

  // "key=value": the text behind the first '=', of the last such field. Null when absent.
  [[nodiscard]] const std::string* find(std::string_view key) const;
  core::Result<std::string> value(std::string_view key) const;
  core::Result<size_t> integer(std::string_view key) const;
  core::Result<size_t> size(std::string_view key) const;                  // 1 to kMostSize
  core::Result<bool> flag(std::string_view key) const;                    // exactly 0 or 1
  core::Result<std::vector<uint32_t>> words(std::string_view key) const;  // comma list, one or more
  // A path below the bundle's folder.
  core::Result<std::string> path(std::string_view key) const;
  core::Result<std::string> path_field(size_t index) const;
  // Everything behind the tag and `fields` fields, less one blank.
  [[nodiscard]] std::string rest(size_t fields) const;

  // CORRUPT_DATA "cannot read bundle: WHERE:LINE: why, in: TEXT; export the bundle again".
  [[nodiscard]] core::Status refuse(const std::string& why) const;

 private:
  std::string where_;  // path of the file
  size_t line_;        // from 1
  std::string text_;
  std::vector<std::string> words_;                           // at least the tag
  std::vector<std::pair<std::string, std::string>> values_;  // of the words with '='
};

struct XclbinRecord {
  std::string file;         // below the bundle's folder
  std::string kernel_name;  // mostly "MLIR_AIE"
  size_t line = 0;
};

class Manifest {
 public:
  // `where` is the path for messages. Refuses what is not UTF-8, a git-lfs pointer, lines that
  // break the grammar, a second version, a param, an xclbin defined twice, paths that leave the
  // folder.
  static core::Result<Manifest> parse(std::string_view text, const std::string& where);

  [[nodiscard]] const std::string& where() const { return where_; }
  // One of `supported`, else CORRUPT_DATA or UNSUPPORTED naming what was found.
  core::Result<uint32_t> version(const std::vector<uint32_t>& supported) const;

  // Value of a param, null when absent. The typed ones refuse a missing or malformed param.
  [[nodiscard]] const std::string* find_param(std::string_view name) const;
  core::Result<std::string> param(std::string_view name) const;
  core::Result<size_t> integer(std::string_view name) const;
  core::Result<size_t> size(std::string_view name) const;  // 1 to kMostSize
  core::Result<float> number(std::string_view name) const;
  core::Result<std::vector<size_t>> list(std::string_view name) const;  // empty items are skipped
  core::Result<std::vector<std::string>> words(std::string_view name) const;  // kept, also empty
  // "1" -> true, absent or anything else -> false.
  [[nodiscard]] bool is_one(std::string_view name) const;
  core::Status refuse_param(std::string_view name, const std::string& why) const;
  // Of what no single line is at fault for.
  [[nodiscard]] core::Status refuse(const std::string& why) const;

  [[nodiscard]] const std::map<std::string, XclbinRecord, std::less<>>& xclbins() const {
    return xclbins_;
  }
  // All other records, in the order of the file.
  [[nodiscard]] const std::vector<Record>& records() const { return records_; }

 private:
  struct Param {
    std::string value;
    size_t line = 0;
  };
  std::string where_;
  std::vector<std::pair<uint32_t, size_t>> version_;  // at most one, with its line
  std::map<std::string, Param, std::less<>> params_;
  std::map<std::string, XclbinRecord, std::less<>> xclbins_;
  std::vector<Record> records_;
};

// Text forms that records share.

// Decimal digits with an optional leading '+'.
bool parse_integer(std::string_view text, size_t* out);
// Two digits a byte, "-" for nothing, into valid UTF-8.
core::Result<std::string> decode_hex_text(std::string_view hex, const Record& record);
// Undoes Python's unicode_escape as the format's first reader does: unknown escapes stay, a
// malformed hexadecimal escape vanishes.
std::string unescape(std::string_view text);
// Why a path must not be joined to the bundle's folder, or empty.
std::string bad_path(std::string_view path);

}  // namespace npuseg::bundle

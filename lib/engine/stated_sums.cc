// SPDX-License-Identifier: Apache-2.0
#include "engine/stated_sums.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "core/file.h"

namespace npuseg::engine {

using core::format;
using core::Result;

namespace {

namespace fs = std::filesystem;

constexpr const char* kSums = "SHA256SUMS";
constexpr size_t kMaxSumsBytes = size_t{16} << 20;
constexpr size_t kMaxNoteBytes = 4096;
constexpr size_t kDigits = 64;

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = c >= 'A' && c <= 'F' ? static_cast<char>(c - 'A' + 'a') : c;
  return out;
}

// Relative and without a way out.
bool stays_inside(const std::string& path) {
  const fs::path name(path);
  if (path.empty() || path.find('\0') != std::string::npos || name.is_absolute()) return false;
  return std::none_of(name.begin(), name.end(), [](const fs::path& part) { return part == ".."; });
}

std::string_view take_line(std::string_view* text) {
  const size_t end = text->find('\n');
  std::string_view line = text->substr(0, end);
  text->remove_prefix(end == std::string_view::npos ? text->size() : end + 1);
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

void read_sums_file(const std::string& directory, StatedSums* sums, Report* report) {
  const std::string path = core::join_path(directory, kSums);
  if (!core::file_exists(path)) return;
  const Result<std::string> file = core::read_file(path, kMaxSumsBytes);
  if (!file.ok()) return report->fail(kSums, "structure", file.status().message());
  std::string_view rest = file.value();
  for (size_t number = 1; !rest.empty(); ++number) {
    const std::string_view line = take_line(&rest);
    if (line.empty() || line.front() == '#') continue;
    // "<digits>  name" for text, "<digits> *name" for binary files, which is the same.
    const bool shaped = line.size() > kDigits + 2 && is_sha256(line.substr(0, kDigits)) &&
                        line[kDigits] == ' ' &&
                        (line[kDigits + 1] == ' ' || line[kDigits + 1] == '*');
    std::string name(shaped ? line.substr(kDigits + 2) : std::string_view());
    if (name.starts_with("./")) name.erase(0, 2);
    if (!shaped || !stays_inside(name)) {
      report->fail(kSums, "structure",
                   format("line %zu is no sum of a file in this folder", number));
      continue;
    }
    const std::string digits = lower(line.substr(0, kDigits));
    const auto [at, fresh] = sums->try_emplace(name, StatedSum{digits, kSums});
    if (!fresh && at->second.sha256 != digits) {
      report->fail(kSums, "structure", format("line %zu states another sum for ", number) + name);
    }
  }
}

// Second line of the note that huggingface_hub writes for a file: its ETag, of large files their
// SHA-256.
void read_download_note(const std::string& directory, const std::string& file, StatedSums* sums) {
  const std::string path =
      core::join_path(directory, ".cache/huggingface/download/" + file + ".metadata");
  if (!core::file_exists(path)) return;
  const Result<std::string> note = core::read_file(path, kMaxNoteBytes);
  if (!note.ok()) return;
  std::string_view rest = note.value();
  take_line(&rest);
  const std::string_view tag = take_line(&rest);
  if (is_sha256(tag)) sums->try_emplace(file, StatedSum{lower(tag), "its Hugging Face download"});
}

// In the cache of huggingface_hub files are links to blobs, of large files named by their SHA-256.
void read_link(const std::string& directory, const std::string& file, StatedSums* sums) {
  std::error_code error;
  const fs::path target = fs::read_symlink(core::join_path(directory, file), error);
  if (error) return;
  const std::string name = target.filename().string();
  if (is_sha256(name)) sums->try_emplace(file, StatedSum{lower(name), "the Hugging Face cache"});
}

}  // namespace

bool is_sha256(std::string_view text) {
  return text.size() == kDigits && std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
         });
}

StatedSums read_stated_sums(const std::string& directory, const std::vector<std::string>& files,
                            Report* report) {
  StatedSums sums;
  read_sums_file(directory, &sums, report);
  for (const std::string& file : files) {
    read_download_note(directory, file, &sums);
    read_link(directory, file, &sums);
  }
  return sums;
}

}  // namespace npuseg::engine

// SPDX-License-Identifier: Apache-2.0
// Files and streams that carry the answer: complete or not at all.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cli {

// Exists and is no regular file: a rename would replace a device such as /dev/null.
bool is_special(const std::string& path);

// Device and inode; equal for two names of one file. Absent when there is no file.
using FileIdentity = std::pair<uint64_t, uint64_t>;
std::optional<FileIdentity> file_identity(const std::string& path);

// Beside and renamed into place. False after reporting the failure.
bool write_file(const std::string& path, std::string_view bytes);

// All of it to stdout, flushed; false (reported) when the reader is gone or the disk is full.
bool write_stdout(std::string_view bytes);

// A NumPy array file: little-endian, C order. descr is "<f4" or "<i8".
bool write_npy(const std::string& path, const char* descr, const std::vector<uint64_t>& shape,
               const void* data, size_t bytes);

// Tight rows of NPUSEG_FORMAT_RGB or _GREY. A signal ends the tool while the picture is compressed.
bool write_png(const std::string& path, uint32_t format, uint32_t width, uint32_t height,
               std::string_view pixels);

bool make_directory(const std::string& path);
std::string join(const std::string& folder, const std::string& name);

// File name without folder and last extension.
std::string stem_of(const std::string& path);

// Gives every stem once: a second "cat" becomes "cat-2".
class UniqueNames {
 public:
  std::string take(const std::string& name);

 private:
  std::set<std::string> used_;
};

}  // namespace cli

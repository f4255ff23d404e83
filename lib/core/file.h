// SPDX-License-Identifier: Apache-2.0
// Files: mapped read-only, read whole with a size cap, and written beside-then-renamed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "core/status.h"

namespace npuseg::core {

// A pointer that git-lfs leaves where it did not fetch the file.
bool is_lfs_pointer(std::span<const unsigned char> file);
bool is_lfs_pointer(std::string_view file);

// A whole regular file mapped read-only and private. The mapping outlives a rename or removal of
// the file. Who reads a part that was cut off meanwhile is ended by the system, so a mapping that
// is used for long is asked before each use whether its file is still what it was.
class MappedFile {
 public:
  // What the file is needed for: to be read at once, or for as long as a model lives.
  enum class Use : uint8_t { kNow, kLong };

  MappedFile() = default;
  MappedFile(MappedFile&& other) noexcept { swap(other); }
  MappedFile& operator=(MappedFile&& other) noexcept {
    MappedFile gone(std::move(other));
    swap(gone);
    return *this;
  }
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  static Result<MappedFile> open(const std::string& path, Use use = Use::kNow);

  // CORRUPT_DATA when the file was written to, cut or extended since it was opened. Of kLong alone.
  [[nodiscard]] Status check_unchanged() const;

  [[nodiscard]] std::span<const unsigned char> bytes() const { return {data_, size_}; }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  void swap(MappedFile& other) noexcept;
  const unsigned char* data_ = nullptr;
  size_t size_ = 0;
  std::string path_;
  int fd_ = -1;          // kept of kLong
  int64_t seconds_ = 0;  // of the last change
  int64_t nanoseconds_ = 0;
};

// The pages of a mapped file that lie wholly in these bytes leave this process's memory; who reads
// them again gets them from the file.
void give_back_pages(const void* begin, size_t bytes);

// Reads a regular file of at most max_bytes.
Result<std::string> read_file(const std::string& path, size_t max_bytes);

// Writes `path` by a temporary file in the same folder and a rename: either the complete new file
// is there or the old state. ENOSPC and the like are IO errors.
Status write_file_atomically(const std::string& path, std::span<const unsigned char> bytes);

bool file_exists(const std::string& path);
bool is_directory(const std::string& path);
std::string join_path(const std::string& folder, const std::string& name);
// "No such file or directory" for errno values, thread-safe.
std::string errno_text(int error);

}  // namespace npuseg::core

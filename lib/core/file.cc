// SPDX-License-Identifier: Apache-2.0
#include "core/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <system_error>
#include <utility>
#include <vector>

namespace npuseg::core {

namespace {

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  [[nodiscard]] int get() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

Status io_error(const char* doing, const std::string& path, int error) {
  const Code code = error == ENOENT || error == ENOTDIR ? Code::kNotFound : Code::kIo;
  const char* remedy = error == EACCES           ? "; check the permissions"
                       : code == Code::kNotFound ? "; check the path"
                       : error == ENOSPC         ? "; free some space"
                                                 : "";
  return Status(
      code, format("%s: %s: %s%s", doing, path.c_str(), errno_text(error).c_str(), remedy), error);
}

Result<int> open_regular(const std::string& path, size_t* size) {
  int fd = -1;
  do {
    // O_NONBLOCK: opening a FIFO must not wait for a writer.
    fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  } while (fd < 0 && errno == EINTR);
  if (fd < 0) return io_error("cannot open", path, errno);
  Descriptor file(fd);
  struct stat info {};
  if (::fstat(fd, &info) != 0) return io_error("cannot read", path, errno);
  if (S_ISDIR(info.st_mode)) {
    return Status(Code::kIo, "cannot open: " + path + ": is a directory; name a file", EISDIR);
  }
  if (!S_ISREG(info.st_mode)) {
    return Status(Code::kIo, "cannot open: " + path + ": is not a regular file; name a file");
  }
  *size = static_cast<size_t>(info.st_size);
  return file.release();
}

}  // namespace

std::string errno_text(int error) { return std::generic_category().message(error); }

bool is_lfs_pointer(std::string_view file) { return file.starts_with("version https://git-lfs"); }

bool is_lfs_pointer(std::span<const unsigned char> file) {
  return is_lfs_pointer(std::string_view(reinterpret_cast<const char*>(file.data()), file.size()));
}

MappedFile::~MappedFile() {
  if (data_ != nullptr && size_ != 0) {
    ::munmap(const_cast<unsigned char*>(data_), size_);
  }
  if (fd_ >= 0) ::close(fd_);
}

void MappedFile::swap(MappedFile& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(path_, other.path_);
  std::swap(fd_, other.fd_);
  std::swap(seconds_, other.seconds_);
  std::swap(nanoseconds_, other.nanoseconds_);
}

Status MappedFile::check_unchanged() const {
  if (fd_ < 0) return {};
  struct stat info {};
  if (::fstat(fd_, &info) != 0) return io_error("cannot read", path_, errno);
  if (static_cast<size_t>(info.st_size) == size_ && info.st_mtim.tv_sec == seconds_ &&
      info.st_mtim.tv_nsec == nanoseconds_) {
    return {};
  }
  return Status(Code::kCorruptData,
                "cannot use model: " + path_ +
                    ": was changed while it was open; open the model again, and replace files of a "
                    "model in use by renaming, not by writing into them");
}

Result<MappedFile> MappedFile::open(const std::string& path, Use use) {
  size_t size = 0;
  NPUSEG_ASSIGN_OR_RETURN(const int fd, open_regular(path, &size));
  Descriptor file(fd);
  MappedFile mapped;
  mapped.path_ = path;
  mapped.size_ = size;
  if (size == 0) return mapped;
  void* data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
  if (data == MAP_FAILED) {
    mapped.size_ = 0;
    return io_error("cannot map", path, errno);
  }
  mapped.data_ = static_cast<const unsigned char*>(data);
  if (use == Use::kLong) {
    struct stat info {};
    if (::fstat(fd, &info) != 0) return io_error("cannot read", path, errno);
    mapped.seconds_ = info.st_mtim.tv_sec;
    mapped.nanoseconds_ = info.st_mtim.tv_nsec;
    mapped.fd_ = file.release();
  }
  return mapped;
}

void give_back_pages(const void* begin, size_t bytes) {
  static const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto address = reinterpret_cast<uintptr_t>(begin);
  const uintptr_t first = (address + page - 1) / page * page;
  const uintptr_t end = (address + bytes) / page * page;
  if (first >= end) return;
  // Advice only: where the system does not follow it, the pages stay.
  ::madvise(reinterpret_cast<void*>(first), end - first, MADV_DONTNEED);
}

Result<std::string> read_file(const std::string& path, size_t max_bytes) {
  size_t size = 0;
  NPUSEG_ASSIGN_OR_RETURN(const int fd, open_regular(path, &size));
  const Descriptor file(fd);
  if (size > max_bytes) {
    return Status(
        Code::kLimitExceeded,
        format("cannot read: %s: %zu bytes, at most %zu are accepted; is this the right file?",
               path.c_str(), size, max_bytes));
  }
  std::string text(size, '\0');
  size_t done = 0;
  while (done < size) {
    const ssize_t got = ::read(fd, text.data() + done, size - done);
    if (got < 0) {
      if (errno == EINTR) continue;
      return io_error("cannot read", path, errno);
    }
    if (got == 0) break;
    done += static_cast<size_t>(got);
  }
  text.resize(done);
  return text;
}

Status write_file_atomically(const std::string& path, std::span<const unsigned char> bytes) {
  struct stat existing {};
  // A rename would put a file in the place of a device, a pipe or a link to one.
  if (::lstat(path.c_str(), &existing) == 0 && !S_ISREG(existing.st_mode)) {
    return Status(Code::kIo, "cannot write: " + path +
                                 ": exists and is not a regular file; choose another name");
  }
  std::string pattern = path + ".XXXXXX";
  std::vector<char> name(pattern.begin(), pattern.end());
  name.push_back('\0');
  const int fd = ::mkostemp(name.data(), O_CLOEXEC);
  if (fd < 0) return io_error("cannot write", path, errno);
  Descriptor file(fd);
  int error = 0;
  size_t done = 0;
  while (done < bytes.size() && error == 0) {
    const ssize_t put = ::write(fd, bytes.data() + done, bytes.size() - done);
    if (put < 0) {
      if (errno != EINTR) error = errno;
    } else {
      done += static_cast<size_t>(put);
    }
  }
  const mode_t mask = ::umask(0);
  ::umask(mask);
  if (error == 0 && ::fchmod(fd, static_cast<mode_t>(0666 & ~mask)) != 0) error = errno;
  if (::close(file.release()) != 0 && error == 0) error = errno;
  if (error == 0 && ::rename(name.data(), path.c_str()) != 0) error = errno;
  if (error != 0) {
    ::unlink(name.data());
    return io_error("cannot write", path, error);
  }
  return {};
}

bool file_exists(const std::string& path) { return ::access(path.c_str(), F_OK) == 0; }

bool is_directory(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

std::string join_path(const std::string& folder, const std::string& name) {
  if (folder.empty() || folder.back() == '/') return folder + name;
  return folder + "/" + name;
}

}  // namespace npuseg::core

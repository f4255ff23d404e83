// SPDX-License-Identifier: Apache-2.0
#include "output.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <system_error>

#include "handles.h"
#include "progress.h"

namespace cli {

namespace {

std::string error_text(int error) { return std::generic_category().message(error); }

bool write_all(int fd, std::string_view bytes, int* error) {
  while (!bytes.empty()) {
    const ssize_t put = ::write(fd, bytes.data(), bytes.size());
    if (put < 0) {
      if (errno == EINTR) continue;
      *error = errno;
      return false;
    }
    bytes.remove_prefix(static_cast<size_t>(put));
  }
  return true;
}

}  // namespace

bool is_special(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode);
}

std::optional<FileIdentity> file_identity(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return std::nullopt;
  return FileIdentity(info.st_dev, info.st_ino);
}

bool write_file(const std::string& path, std::string_view bytes) {
  if (is_special(path)) {
    report("cannot write: " + path + ": it is a folder or a device; choose another place");
    return false;
  }
  std::string name = path + ".XXXXXX";
  int error = 0;
  const int fd = ::mkostemp(name.data(), O_CLOEXEC);
  if (fd < 0) {
    error = errno;
  } else {
    write_all(fd, bytes, &error);
    const mode_t mask = ::umask(0);
    ::umask(mask);
    if (error == 0 && ::fchmod(fd, static_cast<mode_t>(0666 & ~mask)) != 0) error = errno;
    if (::close(fd) != 0 && error == 0) error = errno;
    if (error == 0 && ::rename(name.c_str(), path.c_str()) != 0) error = errno;
    if (error != 0) ::unlink(name.c_str());
  }
  if (error == 0) return true;
  report("cannot write: " + path + ": " + error_text(error) +
         "; choose another place or free space");
  return false;
}

bool write_stdout(std::string_view bytes) {
  int error = 0;
  std::fflush(stdout);
  if (write_all(STDOUT_FILENO, bytes, &error)) return true;
  report("cannot write: standard output: " + error_text(error) + "; check where it goes");
  return false;
}

bool write_npy(const std::string& path, const char* descr, const std::vector<uint64_t>& shape,
               const void* data, size_t bytes) {
  std::string head = std::string("{'descr': '") + descr + "', 'fortran_order': False, 'shape': (";
  for (const uint64_t dim : shape) head += std::to_string(dim) + ",";
  head += "), }";
  // Magic, version and length are 10 bytes; data begin at a multiple of 64.
  head.append((64 - (10 + head.size() + 1) % 64) % 64, ' ');
  head += '\n';
  std::string file("\x93NUMPY\x01\x00", 8);
  file += static_cast<char>(head.size() & 0xFF);
  file += static_cast<char>(head.size() >> 8);
  file += head;
  file.append(static_cast<const char*>(data), bytes);
  return write_file(path, file);
}

bool write_png(const std::string& path, uint32_t format, uint32_t width, uint32_t height,
               std::string_view pixels) {
  struct stat info {};
  if (::lstat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode)) {
    report("cannot write: " + path + ": exists and is not a regular file; choose another name");
    return false;
  }
  // A folder beside the target tells the signal handler whether the library has begun to write.
  std::string scratch = path + ".XXXXXX";
  if (::mkdtemp(scratch.data()) == nullptr) {
    report("cannot write: " + path + ": " + error_text(errno) + "; choose another place");
    return false;
  }
  const std::string file = join(scratch, "picture.png");
  std::string message;
  {
    const NoWriting guard(scratch.c_str());
    if (npuseg_write_png(file.c_str(), format, width, height, pixels.data(), 0, pixels.size()) !=
        NPUSEG_OK) {
      message = npuseg_last_error();
    }
  }
  if (message.empty() && ::rename(file.c_str(), path.c_str()) != 0) {
    message = "cannot write: " + path + ": " + error_text(errno) + "; choose another place";
    ::unlink(file.c_str());
  }
  ::rmdir(scratch.c_str());
  if (message.empty()) return true;
  if (const size_t at = message.find(file); at != std::string::npos) {
    message.replace(at, file.size(), path);
  }
  report(message);
  return false;
}

bool make_directory(const std::string& path) {
  if (::mkdir(path.c_str(), 0777) == 0) return true;
  const int error = errno;
  struct stat info {};
  if (error == EEXIST && ::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode)) return true;
  report("cannot make folder: " + path + ": " + error_text(error) + "; choose another place");
  return false;
}

std::string join(const std::string& folder, const std::string& name) {
  return folder.empty() || folder.back() == '/' ? folder + name : folder + "/" + name;
}

std::string stem_of(const std::string& path) {
  const size_t slash = path.find_last_of('/');
  std::string name = slash == std::string::npos ? path : path.substr(slash + 1);
  const size_t dot = name.find_last_of('.');
  if (dot != std::string::npos && dot != 0) name.resize(dot);
  return name;
}

std::string UniqueNames::take(const std::string& name) {
  std::string unique = name;
  for (int i = 2; !used_.insert(unique).second; ++i) unique = name + "-" + std::to_string(i);
  return unique;
}

}  // namespace cli

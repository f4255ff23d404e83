// SPDX-License-Identifier: Apache-2.0
#include "bundle/writer.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "core/file.h"

namespace npuseg::bundle {

using core::Code;
using core::Result;
using core::Status;

namespace {

constexpr size_t kAlignment = 64;

const char* dtype_word(core::DType dtype) {
  switch (dtype) {
    case core::DType::kF32:
      return "f32";
    case core::DType::kBF16:
      return "bf16";
    case core::DType::kI32:
      return "i32";
    default:
      return "u8";
  }
}

}  // namespace

struct Writer::File {
  explicit File(const std::string& path) : stream(std::fopen(path.c_str(), "wbe")) {}
  ~File() {
    if (stream != nullptr) std::fclose(stream);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  bool write(const void* bytes, size_t count) {
    return count == 0 || std::fwrite(bytes, 1, count, stream) == count;
  }
  bool close() { return std::fclose(std::exchange(stream, nullptr)) == 0; }

  std::FILE* stream;
};

Writer::Writer(std::string directory, std::string beside)
    : directory_(std::move(directory)), beside_(std::move(beside)) {}

Writer::~Writer() {
  blob_.reset();
  std::error_code ignored;
  if (!finished_) std::filesystem::remove_all(beside_, ignored);
}

Status Writer::failed(const std::string& path, int error) const {
  return Status(Code::kIo, "cannot write bundle: " + path + ": " + core::errno_text(error) +
                               "; choose a folder that can be written and has room");
}

Result<std::unique_ptr<Writer>> Writer::create(const std::string& directory) {
  std::string target = directory;
  while (target.size() > 1 && target.back() == '/') target.pop_back();
  struct stat existing {};
  if (target.empty() || ::lstat(target.c_str(), &existing) == 0) {
    return Status(Code::kInvalidArgument,
                  "cannot write bundle: " + directory + ": exists; name a folder that does not");
  }
  const std::string pattern = target + ".XXXXXX";
  std::vector<char> name(pattern.begin(), pattern.end());
  name.push_back('\0');
  if (::mkdtemp(name.data()) == nullptr) {
    return Status(Code::kIo, "cannot write bundle: " + directory + ": " + core::errno_text(errno) +
                                 "; choose a folder that can be written");
  }
  std::unique_ptr<Writer> writer(new Writer(target, name.data()));
  const mode_t mask = ::umask(0);
  ::umask(mask);
  const std::string blob = core::join_path(writer->beside_, "tensors.bin");
  if (::chmod(name.data(), static_cast<mode_t>(0777 & ~mask)) != 0) {
    return writer->failed(writer->beside_, errno);
  }
  writer->blob_ = std::make_unique<File>(blob);
  if (writer->blob_->stream == nullptr) return writer->failed(blob, errno);
  return writer;
}

Status Writer::add_tensor(const std::string& name, core::DType dtype, const core::Shape& shape,
                          std::span<const unsigned char> bytes) {
  if (bytes.size() != shape.elements() * core::dtype_bytes(dtype) || shape.rank == 0) {
    return Status(Code::kInternal,
                  core::format("cannot write bundle: tensor %s: %zu bytes are not those of its "
                               "shape; please report this",
                               name.c_str(), bytes.size()));
  }
  static constexpr unsigned char kZeros[kAlignment] = {};
  const size_t gap = (kAlignment - blob_bytes_ % kAlignment) % kAlignment;
  if (!blob_->write(kZeros, gap) || !blob_->write(bytes.data(), bytes.size())) {
    return failed(core::join_path(beside_, "tensors.bin"), errno);
  }
  blob_bytes_ += gap;
  std::string dims;
  for (size_t i = 0; i < shape.rank; ++i) {
    dims += (i == 0 ? "" : ",") + std::to_string(shape[i]);
  }
  index_ += core::format("%s %s %s %llu %zu\n", name.c_str(), dtype_word(dtype), dims.c_str(),
                         static_cast<unsigned long long>(blob_bytes_), bytes.size());
  blob_bytes_ += bytes.size();
  return {};
}

Status Writer::add_file(const std::string& path, std::string_view bytes) {
  const std::filesystem::path at = std::filesystem::path(beside_) / path;
  std::error_code error;
  std::filesystem::create_directories(at.parent_path(), error);
  if (error) return failed(at.parent_path().string(), error.value());
  File file(at.string());
  if (file.stream == nullptr || !file.write(bytes.data(), bytes.size()) || !file.close()) {
    return failed(at.string(), errno);
  }
  return {};
}

Status Writer::copy_file(const std::string& path, const std::string& from) {
  NPUSEG_ASSIGN_OR_RETURN(const core::MappedFile file, core::MappedFile::open(from));
  return add_file(path, {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()});
}

Status Writer::finish(std::string_view manifest) {
  if (!blob_->close()) return failed(core::join_path(beside_, "tensors.bin"), errno);
  NPUSEG_RETURN_IF_ERROR(add_file("tensors.txt", index_));
  NPUSEG_RETURN_IF_ERROR(add_file("manifest.txt", manifest));
  if (std::rename(beside_.c_str(), directory_.c_str()) != 0) return failed(directory_, errno);
  finished_ = true;
  return {};
}

}  // namespace npuseg::bundle

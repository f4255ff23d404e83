// SPDX-License-Identifier: Apache-2.0
// Writes a bundle's folder: the blob as it comes, index and manifest at the end. Until then all of
// it lies in a folder beside, so that a bundle is there whole or not at all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "core/status.h"
#include "core/tensor_view.h"

namespace npuseg::bundle {

class Writer {
 public:
  // INVALID_ARGUMENT when `directory` exists: a bundle that may be in use is never overwritten.
  static core::Result<std::unique_ptr<Writer>> create(const std::string& directory);
  // Without finish(): removes what was written.
  ~Writer();
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  // A tensor behind the others, at a multiple of 64 bytes. dtype kF32, kBF16, kU8 or kI32; bytes
  // are those of the shape.
  core::Status add_tensor(const std::string& name, core::DType dtype, const core::Shape& shape,
                          std::span<const unsigned char> bytes);
  // A file at a path below the folder.
  core::Status add_file(const std::string& path, std::string_view bytes);
  core::Status copy_file(const std::string& path, const std::string& from);

  // Writes index and manifest and moves the folder to its place.
  core::Status finish(std::string_view manifest);

 private:
  struct File;
  Writer(std::string directory, std::string beside);
  core::Status failed(const std::string& path, int error) const;

  std::string directory_;
  std::string beside_;
  std::unique_ptr<File> blob_;
  uint64_t blob_bytes_ = 0;
  std::string index_;
  bool finished_ = false;
};

}  // namespace npuseg::bundle

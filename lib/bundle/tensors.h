// SPDX-License-Identifier: Apache-2.0
// tensors.txt and tensors.bin: the stored tensors by name (spec iron-bundle-sam3, 1.4). The blob is
// mapped and nothing of it is read at open; the files must not be rewritten while it is open.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/file.h"
#include "core/status.h"
#include "core/tensor_view.h"

namespace npuseg::bundle {

constexpr size_t kMaxIndexBytes = size_t{64} << 20;

struct StoredTensor {
  core::TensorView view;  // into the blob; dtype kF32, kBF16, kU8 or kI32
  size_t line = 0;        // of tensors.txt

  [[nodiscard]] std::span<const unsigned char> bytes() const {
    return {static_cast<const unsigned char*>(view.data), view.bytes()};
  }
};

class Tensors {
 public:
  // Refuses: a git-lfs pointer in place of either file, not UTF-8, a line without exactly five
  // words, an unknown dtype, a bad or too deep shape, sizes that overflow or disagree with shape
  // and dtype, an offset that no element may have, bytes beyond the blob, a name twice.
  static core::Result<Tensors> open(const std::string& index_path, const std::string& blob_path);
  // The same from memory, which must outlive the result.
  static core::Result<Tensors> parse(std::string_view index, const std::string& index_path,
                                     std::span<const unsigned char> blob,
                                     const std::string& blob_path);

  // CORRUPT_DATA when the blob was changed since it was opened.
  [[nodiscard]] core::Status check_unchanged() const { return blob_.check_unchanged(); }

  // Null when absent.
  [[nodiscard]] const StoredTensor* find(std::string_view name) const;
  // CORRUPT_DATA when absent, of another dtype or of another shape. Only the count of elements is
  // compared, since exporters differ in dimensions of 1 and in flattening.
  core::Result<core::TensorView> get(std::string_view name, core::DType dtype,
                                     const core::Shape& shape) const;
  // A tensor of this many bytes, whatever its dtype: packed matrices and tables of the device.
  core::Result<std::span<const unsigned char>> packed(std::string_view name, size_t bytes) const;

  [[nodiscard]] const std::map<std::string, StoredTensor, std::less<>>& all() const {
    return tensors_;
  }
  [[nodiscard]] const std::string& index_path() const { return index_path_; }

 private:
  [[nodiscard]] core::Status refuse(const StoredTensor& tensor, const std::string& why) const;

  core::MappedFile blob_;
  std::string index_path_;
  std::map<std::string, StoredTensor, std::less<>> tensors_;
};

}  // namespace npuseg::bundle

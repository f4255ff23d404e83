// SPDX-License-Identifier: Apache-2.0
// A Hugging Face checkpoint directory as data: its tensors (safetensors, mapped) by name.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/file.h"
#include "core/status.h"
#include "core/tensor_view.h"

namespace npuseg::checkpoint {

struct TensorEntry {
  core::TensorView view;   // into the mapping
  std::string dtype_name;  // as the file spells it
  size_t file = 0;         // index into files()
};

// Tensors of model.safetensors, or of the shards that model.safetensors.index.json names. The files
// stay mapped; views live as long as this object. Nothing but the headers is read.
class Checkpoint {
 public:
  // Refuses: no safetensors (pytorch_model.bin/.pt/.pth alone get advice), bad header length,
  // header over its cap, offsets that overflow, overlap, do not match shape and dtype or leave the
  // file, duplicate names, more than Shape::kMaxRank dims, shard names with '/' or "..", shards
  // missing, names that the shard of the index lacks, git-lfs pointers. A name in two shards is
  // taken from the one that the index gives; a name that the index does not give is not taken.
  static core::Result<Checkpoint> open(const std::string& directory);

  // CORRUPT_DATA, naming the file, when one was changed since it was opened.
  [[nodiscard]] core::Status check_unchanged() const;

  // Names as stored. Null when absent.
  [[nodiscard]] const TensorEntry* find(std::string_view name) const;
  [[nodiscard]] const std::map<std::string, TensorEntry, std::less<>>& tensors() const {
    return tensors_;
  }
  // Paths of the files, in the order of first use.
  [[nodiscard]] std::vector<std::string> files() const;

 private:
  std::vector<core::MappedFile> files_;
  std::map<std::string, TensorEntry, std::less<>> tensors_;
};

}  // namespace npuseg::checkpoint

// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/checkpoint.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "checkpoint/safetensors.h"
#include "core/json.h"

namespace npuseg::checkpoint {

using core::Code;
using core::JsonValue;
using core::Result;
using core::Status;

namespace {

constexpr size_t kMaxIndexBytes = size_t{64} << 20;
constexpr const char* kSingle = "model.safetensors";
constexpr const char* kIndex = "model.safetensors.index.json";

// What people have instead of safetensors, and what to do then.
Status no_tensors(const std::string& directory) {
  std::string other;  // the first by name, so that the message does not depend on the file system
  std::error_code error;
  for (std::filesystem::directory_iterator at(directory, error), end; !error && at != end;
       at.increment(error)) {
    const std::string extension = at->path().extension().string();
    const std::string name = at->path().filename().string();
    // Other .bin files are no weights (an NPU bundle has tensors.bin).
    if (extension == ".bin" && !name.starts_with("pytorch_model")) continue;
    for (const char* known : {".bin", ".pt", ".pth", ".ckpt", ".gguf"}) {
      if (extension == known && (other.empty() || name < other)) other = name;
    }
  }
  if (!other.empty()) {
    const bool pickle = !other.ends_with(".gguf");
    return Status(Code::kUnsupported,
                  "cannot open model: " + directory + ": holds " + other + ", which is a " +
                      (pickle ? "Python pickle" : "GGUF file") +
                      " and is not read; use the model's safetensors files, or load it in Python "
                      "with transformers and call save_pretrained()");
  }
  return Status(Code::kNotFound, "cannot open model: " + directory + ": has neither " + kSingle +
                                     " nor " + kIndex +
                                     "; pass the folder that holds the model's files");
}

// name -> shard, and the shards in order of first appearance.
struct Index {
  std::map<std::string, size_t, std::less<>> file_of;
  std::vector<std::string> files;
};

Result<Index> read_index(const std::string& path) {
  NPUSEG_ASSIGN_OR_RETURN(const core::JsonDocument document,
                          core::JsonDocument::load(path, kMaxIndexBytes));
  const JsonValue map = document.root()["weight_map"];
  if (!map.is_object()) {
    return Status(Code::kCorruptData,
                  "cannot read index: " + path + ": has no weight_map object; get it again");
  }
  Index index;
  std::map<std::string, size_t, std::less<>> number;
  NPUSEG_RETURN_IF_ERROR(
      map.for_each_member([&](std::string_view name, const JsonValue& value) -> Status {
        std::string_view file;
        if (!value.get(&file) || file.empty() || file.find('/') != std::string_view::npos ||
            file.find('\0') != std::string_view::npos || file == "." || file == "..") {
          return Status(Code::kCorruptData, "cannot read index: " + path + ": tensor " +
                                                std::string(name) +
                                                " names no file of this folder; get it again");
        }
        const auto [at, fresh] = number.try_emplace(std::string(file), index.files.size());
        if (fresh) index.files.emplace_back(file);
        if (!index.file_of.emplace(name, at->second).second) {
          return Status(Code::kCorruptData, "cannot read index: " + path + ": tensor " +
                                                std::string(name) + " is there twice");
        }
        return {};
      }));
  return index;
}

}  // namespace

Result<Checkpoint> Checkpoint::open(const std::string& directory) {
  Checkpoint checkpoint;
  Index index;
  const std::string single = core::join_path(directory, kSingle);
  const std::string index_path = core::join_path(directory, kIndex);
  const bool sharded = !core::file_exists(single) && core::file_exists(index_path);
  if (sharded) {
    NPUSEG_ASSIGN_OR_RETURN(index, read_index(index_path));
  } else {
    if (!core::file_exists(single)) return no_tensors(directory);
    index.files.emplace_back(kSingle);
  }
  for (size_t f = 0; f < index.files.size(); ++f) {
    const std::string path = core::join_path(directory, index.files[f]);
    NPUSEG_ASSIGN_OR_RETURN(core::MappedFile file,
                            core::MappedFile::open(path, core::MappedFile::Use::kLong));
    NPUSEG_ASSIGN_OR_RETURN(std::vector<NamedTensor> tensors,
                            parse_safetensors(file.bytes(), path));
    checkpoint.files_.push_back(std::move(file));
    for (NamedTensor& tensor : tensors) {
      tensor.entry.file = f;
      if (sharded) {
        // A tensor that the index places elsewhere, or not at all, is not taken from here.
        const auto at = index.file_of.find(tensor.name);
        if (at == index.file_of.end() || at->second != f) continue;
      }
      checkpoint.tensors_.emplace(std::move(tensor.name), std::move(tensor.entry));
    }
  }
  for (const auto& [name, file] : index.file_of) {
    if (checkpoint.tensors_.find(name) == checkpoint.tensors_.end()) {
      return Status(Code::kCorruptData,
                    "cannot open model: " + core::join_path(directory, index.files[file]) +
                        ": lacks tensor " + name +
                        ", which the index places there; get the file again");
    }
  }
  return checkpoint;
}

const TensorEntry* Checkpoint::find(std::string_view name) const {
  const auto at = tensors_.find(name);
  return at == tensors_.end() ? nullptr : &at->second;
}

core::Status Checkpoint::check_unchanged() const {
  for (const core::MappedFile& file : files_) NPUSEG_RETURN_IF_ERROR(file.check_unchanged());
  return {};
}

std::vector<std::string> Checkpoint::files() const {
  std::vector<std::string> paths;
  for (const core::MappedFile& file : files_) paths.push_back(file.path());
  return paths;
}

}  // namespace npuseg::checkpoint

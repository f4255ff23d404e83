// SPDX-License-Identifier: Apache-2.0
// What tests of models share: a temporary folder, golden tensors, results that must be there.
#pragma once

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/safetensors.h"
#include "core/file.h"
#include "core/threads.h"
// Behind all others.
#include "cmocka_cpp.h"

namespace npuseg::test {

class Folder {
 public:
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "npuseg_XXXXXX").string();
    assert_non_null(mkdtemp(name.data()));
    path = name;
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  std::string path;
};

template <class T>
T must(core::Result<T> result) {
  if (!result.ok()) {
    print_error("%s\n", result.status().message().c_str());
    fail();
  }
  return std::move(result).value();
}

inline void must(const core::Status& status) {
  if (!status.ok()) {
    print_error("%s\n", status.message().c_str());
    fail();
  }
}

// The tensors of a file in a room's golden/.
class GoldenFile {
 public:
  GoldenFile(const std::string& room, const std::string& name)
      : file_(must(core::MappedFile::open(std::string(NPUSEG_SOURCE_DIR) + "/tests/unit/" + room +
                                          "/golden/" + name + ".safetensors"))) {
    for (auto& tensor : must(checkpoint::parse_safetensors(file_.bytes(), name))) {
      tensors_.emplace(tensor.name, tensor.entry.view);
    }
  }
  [[nodiscard]] bool has(const std::string& name) const { return tensors_.count(name) != 0; }
  template <class T>
  [[nodiscard]] std::vector<T> values(const std::string& name) const {
    const auto at = tensors_.find(name);
    if (at == tensors_.end() || at->second.bytes() % sizeof(T) != 0) {
      print_error("golden file lacks %s\n", name.c_str());
      fail();
    }
    std::vector<T> out(at->second.bytes() / sizeof(T));
    if (!out.empty()) std::memcpy(out.data(), at->second.data, at->second.bytes());
    return out;
  }

 private:
  core::MappedFile file_;
  std::map<std::string, core::TensorView> tensors_;
};

inline core::Call::Options on_threads(int threads) {
  core::Call::Options options;
  options.threads = threads;
  return options;
}

}  // namespace npuseg::test

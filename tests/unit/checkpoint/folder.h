// SPDX-License-Identifier: Apache-2.0
// A folder of files for tests: made under the temporary folder, removed with all that is in it.
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>

#include "core/status.h"
// Behind all others.
#include "cmocka_cpp.h"

namespace npuseg::test {

class Folder {
 public:
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "checkpoint_XXXXXX").string();
    assert_non_null(mkdtemp(name.data()));
    path = name;
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }

  void put(const std::string& name, const std::string& bytes) const {
    std::ofstream out(path + "/" + name, std::ios::binary);
    out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    out.close();
    assert_true(out.good());
  }
  void remove(const std::string& name) const { std::filesystem::remove_all(path + "/" + name); }

  std::string path;
};

// Fails unless the status has this code and its message holds the word; `what` names the case.
inline void expect_status(const std::string& what, const core::Status& status, core::Code code,
                          const std::string& word) {
  if (status.code() == code && status.message().find(word) != std::string::npos) return;
  print_error("%s: code %d, \"%s\"; code %d and \"%s\" are expected\n", what.c_str(),
              static_cast<int>(status.code()), status.message().c_str(), static_cast<int>(code),
              word.c_str());
  fail();
}

}  // namespace npuseg::test

// SPDX-License-Identifier: Apache-2.0
// Folders that hold no safetensors: the message says what is there and what to do.
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "checkpoint/checkpoint.h"
#include "cmocka_cpp.h"
#include "core/file.h"

namespace {

using npuseg::checkpoint::Checkpoint;
using npuseg::core::Code;

void expect(const std::string& folder, Code code, const std::string& word) {
  const auto result = Checkpoint::open(folder);
  assert_false(result.ok());
  assert_int_equal(static_cast<int>(result.status().code()), static_cast<int>(code));
  assert_true(result.status().message().find(word) != std::string::npos);
}

void test_other_formats_and_empty_file(void**) {
  char path[] = "/tmp/npuseg-folder-XXXXXX";
  assert_non_null(mkdtemp(path));
  const std::string folder = path;
  expect(folder, Code::kNotFound, "model.safetensors");
  expect(folder + "/none", Code::kNotFound, "model.safetensors");
  const unsigned char byte = 0;
  for (const char* name : {"sam3-q4.gguf", "pytorch_model.bin", "sam3.pt", "x.pth", "x.ckpt"}) {
    const std::string file = npuseg::core::join_path(folder, name);
    assert_true(npuseg::core::write_file_atomically(file, {&byte, 1}).ok());
    expect(folder, Code::kUnsupported, name);
    assert_int_equal(unlink(file.c_str()), 0);
  }
  const std::string empty = npuseg::core::join_path(folder, "model.safetensors");
  assert_true(npuseg::core::write_file_atomically(empty, {}).ok());
  expect(folder, Code::kCorruptData, "model.safetensors");
  assert_int_equal(unlink(empty.c_str()), 0);
  assert_int_equal(rmdir(folder.c_str()), 0);
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {cmocka_unit_test(test_other_formats_and_empty_file)};
  return cmocka_run_group_tests_name("checkpoint folder", tests, nullptr, nullptr);
}

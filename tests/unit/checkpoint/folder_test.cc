// SPDX-License-Identifier: Apache-2.0
// Folders that hold no safetensors: the message says what is there and what to do.
#include "folder.h"

#include <string>

#include "checkpoint/checkpoint.h"

namespace {

using npuseg::checkpoint::Checkpoint;
using npuseg::core::Code;
using npuseg::test::expect_status;
using npuseg::test::Folder;

void test_nothing(void**) {
  const Folder folder;
  expect_status("empty folder", Checkpoint::open(folder.path).status(), Code::kNotFound,
                "model.safetensors");
  expect_status("no folder", Checkpoint::open(folder.path + "/none").status(), Code::kNotFound,
                "model.safetensors");
  folder.put("model.safetensors", "");
  expect_status("empty file", Checkpoint::open(folder.path).status(), Code::kCorruptData,
                "model.safetensors");
}

void test_other_formats(void**) {
  const char* pickles[] = {"pytorch_model.bin", "pytorch_model-00001-of-00002.bin", "sam3.pt",
                           "x.pth", "x.ckpt"};
  for (const char* name : pickles) {
    const Folder folder;
    folder.put(name, "\x80\x02");
    const auto status = Checkpoint::open(folder.path).status();
    expect_status(name, status, Code::kUnsupported, name);
    expect_status(name, status, Code::kUnsupported, "Python pickle");
    expect_status(name, status, Code::kUnsupported, "save_pretrained()");
  }
  const Folder folder;
  folder.put("sam3-q4.gguf", "GGUF");
  expect_status("gguf", Checkpoint::open(folder.path).status(), Code::kUnsupported,
                "sam3-q4.gguf, which is a GGUF file");
  // The first by name is spoken of, whatever order the file system gives.
  folder.put("a.pt", "x");
  expect_status("two", Checkpoint::open(folder.path).status(), Code::kUnsupported, "a.pt");
}

void test_files_that_are_no_weights(void**) {
  for (const char* name : {"tensors.bin", "training_args.bin", "notes.txt", "model.onnx"}) {
    const Folder folder;
    folder.put(name, "x");
    expect_status(name, Checkpoint::open(folder.path).status(), Code::kNotFound,
                  "model.safetensors.index.json");
  }
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(test_nothing),
      cmocka_unit_test(test_other_formats),
      cmocka_unit_test(test_files_that_are_no_weights),
  };
  return cmocka_run_group_tests_name("checkpoint folder", tests, nullptr, nullptr);
}

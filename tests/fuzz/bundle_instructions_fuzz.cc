// SPDX-License-Identifier: Apache-2.0
// Any bytes as an instruction stream: looked at, patched at every word that its own bytes name.
#include <cstddef>
#include <cstdint>
#include <vector>

#include "bundle/instructions.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace npuseg::bundle;
  std::vector<unsigned char> stream(data, data + size);
  static_cast<void>(check_stream(stream, "fuzz"));
  const auto trailer = find_trailer(stream);
  if (trailer && trailer->params.size() > size / 4) __builtin_trap();
  for (const StreamWord& word : epilogue_words(stream, kEpilogueGeluTanh, kEpilogueNone)) {
    if (!patch_stream(stream, {&word, 1}, "fuzz").ok()) __builtin_trap();
  }
  for (size_t i = 0; i < 4; ++i) {
    const StreamWord word{stream_word(stream, i).value_or(0), 7};
    const bool inside = word.index < size / 4;
    if (patch_stream(stream, {&word, 1}, "fuzz").ok() != inside) __builtin_trap();
  }
  return 0;
}

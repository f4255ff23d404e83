// SPDX-License-Identifier: Apache-2.0
// Any bytes as an index of tensors over a blob of 256 bytes; every byte of an accepted tensor is
// read.
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "bundle/tensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::vector<unsigned char> blob(256, 1);
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto tensors = npuseg::bundle::Tensors::parse(text, "fuzz", blob, "blob");
  if (!tensors.ok()) return 0;
  volatile unsigned sum = 0;
  for (const auto& [name, tensor] : tensors.value().all()) {
    for (const unsigned char byte : tensor.bytes()) sum = sum + byte;
  }
  return 0;
}

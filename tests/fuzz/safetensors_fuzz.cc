// SPDX-License-Identifier: Apache-2.0
// Any bytes as a safetensors file; every byte of an accepted tensor is read.
#include <cstddef>
#include <cstdint>

#include "checkpoint/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto result = npuseg::checkpoint::parse_safetensors({data, size}, "fuzz");
  if (!result.ok()) return 0;
  volatile unsigned sum = 0;
  for (const auto& tensor : result.value()) {
    const auto* bytes = static_cast<const uint8_t*>(tensor.entry.view.data);
    for (size_t i = 0; i < tensor.entry.view.bytes(); ++i) sum = sum + bytes[i];
  }
  return 0;
}

// SPDX-License-Identifier: Apache-2.0
// Any bytes as an xclbin; the configuration that an accepted one names is read.
#include <cstddef>
#include <cstdint>

#include "bundle/xclbin.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto xclbin = npuseg::bundle::parse_xclbin({data, size}, "fuzz");
  if (!xclbin.ok()) return 0;
  volatile unsigned sum = 0;
  for (const unsigned char byte : xclbin.value().pdi) sum = sum + byte;
  return 0;
}

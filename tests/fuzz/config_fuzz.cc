// SPDX-License-Identifier: Apache-2.0
// Any text as the config.json of a SAM 3 model.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "checkpoint/sam3_config.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto result = npuseg::checkpoint::parse_sam3_config(text, "fuzz");
  if (result.ok() && result.value().map_side() == 0) __builtin_trap();
  return 0;
}

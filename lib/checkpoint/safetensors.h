// SPDX-License-Identifier: Apache-2.0
// The safetensors container: 8-byte little-endian header length, JSON header, data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"

namespace npuseg::checkpoint {

struct NamedTensor {
  std::string name;
  TensorEntry entry;
};

// Longest header that is read, as in the format's own reader.
constexpr size_t kMaxHeaderBytes = 100'000'000;

// All tensors of one file that lies in memory. `where` names the file in messages. Every offset is
// checked: inside the data, size equal to shape times type, no overlap, no hole, names unique.
core::Result<std::vector<NamedTensor>> parse_safetensors(std::span<const unsigned char> bytes,
                                                         const std::string& where);

}  // namespace npuseg::checkpoint

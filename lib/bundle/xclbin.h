// SPDX-License-Identifier: Apache-2.0
// The part of an xclbin that is needed to load it on an NPU (spec amdxdna-and-xrt, 3): the array
// configuration (PDI) and how many columns it takes. Nothing else is interpreted.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/status.h"

namespace npuseg::bundle {

constexpr size_t kNpu2Columns = 8;

struct Xclbin {
  std::array<unsigned char, 16> uuid{};
  uint32_t operations_per_cycle = 0;
  uint32_t column_width = 0;           // 1 .. kNpu2Columns
  std::span<const unsigned char> pdi;  // into the file
  // From IP_LAYOUT, "MLIR_AIE" of "MLIR_AIE:MLIRAIE"; empty when there is no such section.
  std::vector<std::string> kernels;
};

// `where` names the file in messages. Every offset is checked. Refuses a wrong magic, a length that
// is not the file's, no AIE_PARTITION, another number of PDIs than one, more columns than an NPU2
// has.
core::Result<Xclbin> parse_xclbin(std::span<const unsigned char> bytes, const std::string& where);

}  // namespace npuseg::bundle

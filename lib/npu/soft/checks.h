// SPDX-License-Identifier: Apache-2.0
// What is known of a kernel before it runs: sizes that make sense, the order of its weights, and
// whether its instruction stream agrees.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "core/log.h"
#include "core/status.h"
#include "npu/operation.h"

namespace npuseg::npu::soft {

// The operation of kernel `key`, completed: an order of packed weights that the manifest does not
// say is taken from the stream's trailer, else it is that of the published GEMM (tiles of 64
// columns, slices of 128 inputs), with a warning. CORRUPT_DATA for sizes that are zero, too large
// or do not divide, and when the stream's activation or trailer is of another kernel.
core::Result<Operation> complete_operation(const std::string& key, const Operation& operation,
                                           std::span<const unsigned char> stream,
                                           const core::Logger& log);

// Bytes that argument `index` must have at least, and of what its offset must be a multiple.
struct ArgumentNeed {
  size_t bytes = 0;
  size_t alignment = 1;
};
ArgumentNeed argument_need(const Operation& operation, size_t index);

// How many packed matrices make up a GEMM's B of so many bytes: 1, or 2 when it is split in high
// and low halves one behind the other. CORRUPT_DATA for other sizes, and when the second plane
// cannot be what the first one's rounding left.
core::Result<size_t> weight_planes(const std::string& key, const Gemm& gemm,
                                   std::span<const unsigned char> b);

}  // namespace npuseg::npu::soft

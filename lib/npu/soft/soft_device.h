// SPDX-License-Identifier: Apache-2.0
// The software NPU: runs a bundle's kernels on the CPU from what the manifest says of them.
#pragma once

#include <memory>

#include "core/buffer.h"
#include "core/log.h"
#include "npu/device.h"

namespace npuseg::npu::soft {

enum class Mode : uint8_t {
  // Products and sums in float32 on compute's kernels, weights expanded panel by panel.
  kFast,
  // Every value in double from the operands as stored, rounded once as it is stored: to the bit
  // independent of instruction set and threads, and of the order of sums but for ties.
  kFaithful,
};

struct Options {
  Mode mode = Mode::kFast;
  core::MemoryBudgetPtr budget;
  core::Logger log;
};

std::shared_ptr<Device> make_device(const Options& options);

}  // namespace npuseg::npu::soft

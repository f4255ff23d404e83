// SPDX-License-Identifier: Apache-2.0
// Which devices there are, and which one a model runs on.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/model_kind.h"
#include "core/buffer.h"
#include "core/log.h"
#include "core/status.h"
#include "engine/model_source.h"
#include "npu/device.h"

namespace npuseg::engine {

struct DeviceInfo {
  std::string name;
  std::string description;
  bool usable = false;
  std::string reason;
  std::string remedy;
};

// cpu first; then the NPU paths with the reason why they cannot be used; the software NPU last.
std::vector<DeviceInfo> list_devices();

struct DeviceChoice {
  std::string asked;
  std::string used;
  std::string why;
};

// name: auto, cpu, soft[:faithful], amdxdna[:N], xrt[:N]; empty is auto. auto never fails for want
// of an NPU. Of a bundle auto and cpu are the software NPU; a checkpoint has no use for it.
core::Result<DeviceChoice> choose_device(const std::string& name, ModelSource source);

// The device that a choice for a bundle names.
core::Result<std::shared_ptr<npu::Device>> open_device(const DeviceChoice& choice,
                                                       const core::MemoryBudgetPtr& budget,
                                                       const core::Logger& log);

// Values are those of the public NPUSEG_PRECISION_*.
enum class Precision : uint32_t { kAuto = 0, kF32 = 1, kBf16 = 2, kInt8 = 3 };

// UNSUPPORTED when the chosen device does not run that model in it.
core::Status check_precision(const DeviceChoice& device, ModelSource source,
                             checkpoint::ModelKind kind, Precision precision);

}  // namespace npuseg::engine

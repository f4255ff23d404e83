// SPDX-License-Identifier: Apache-2.0
// Which devices there are, and which one a model runs on.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "checkpoint/model_kind.h"
#include "core/status.h"

namespace npuseg::engine {

struct DeviceInfo {
  std::string name;
  std::string description;
  bool usable = false;
  std::string reason;
  std::string remedy;
};

// cpu first; then the NPU paths with the reason why they cannot be used.
std::vector<DeviceInfo> list_devices();

struct DeviceChoice {
  std::string asked;
  std::string used;
  std::string why;
};

// name: auto, cpu, soft, amdxdna[:N], xrt[:N]; empty is auto. auto never fails for want of an NPU.
core::Result<DeviceChoice> choose_device(const std::string& name);

// Values are those of the public NPUSEG_PRECISION_*.
enum class Precision : uint32_t { kAuto = 0, kF32 = 1, kBf16 = 2, kInt8 = 3 };

// UNSUPPORTED when the chosen device does not run that model in it.
core::Status check_precision(const DeviceChoice& device, checkpoint::ModelKind kind,
                             Precision precision);

}  // namespace npuseg::engine

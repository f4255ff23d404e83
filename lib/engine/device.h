// SPDX-License-Identifier: Apache-2.0
// Which devices there are, and which one a model runs on.
#pragma once

#include <string>
#include <vector>

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

}  // namespace npuseg::engine

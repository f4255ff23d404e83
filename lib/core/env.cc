// SPDX-License-Identifier: Apache-2.0
#include "core/env.h"

#include <cstdlib>

namespace npuseg::core {

namespace {

std::string read(const char* name) {
  const char* value = ::secure_getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

}  // namespace

std::string env_max_isa() { return read("NPUSEG_MAX_ISA"); }
std::string env_log() { return read("NPUSEG_LOG"); }

}  // namespace npuseg::core

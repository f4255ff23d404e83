// SPDX-License-Identifier: Apache-2.0
// Every environment variable that npuseg reads is read here and nowhere else (docs/environment.md).
#pragma once

#include <string>

namespace npuseg::core {

// NPUSEG_MAX_ISA = scalar|sse4|avx2|avx512: upper bound of the instruction sets used; empty when
// unset. Ignored in privileged (setuid) processes.
std::string env_max_isa();

// NPUSEG_LOG = error|warn|info|debug: log to stderr when a model has no log callback; empty when
// unset. Ignored in privileged processes.
std::string env_log();

}  // namespace npuseg::core

// SPDX-License-Identifier: Apache-2.0
// The last failure of each thread.
#pragma once

#include "core/status.h"
#include "npuseg.h"

namespace npuseg::api {

// Remembers a failure for npuseg_last_error and returns its public code. Allocates nothing.
npuseg_status remember(core::Code code, int os_error, const char* message) noexcept;
npuseg_status remember(const core::Status& status) noexcept;

}  // namespace npuseg::api

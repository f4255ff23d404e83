// SPDX-License-Identifier: Apache-2.0
// Where answers go, checked before any work: no output may replace an input or another output.
#pragma once

#include "options.h"

namespace cli {

// Pictures and model files that a command reads against the files that it will write. kDone, or the
// exit status after reporting what is in the way. Makes no file and no folder.
int check_targets(const Options& options);

}  // namespace cli

// SPDX-License-Identifier: Apache-2.0
// The files of a model against what its directory states, without computing anything.
#pragma once

#include <memory>
#include <string>

#include "core/status.h"
#include "engine/model_options.h"
#include "engine/report.h"

namespace npuseg::engine {

// Looks at every file: git-lfs pointers, SHA-256 where the directory states one (SHA256SUMS, what
// downloads from Hugging Face leave), the structure of what is known; then at the model as a whole.
// What is wrong with a file is a failed row. Fails itself for a directory that is not there or
// holds no model of ours, and when the call is stopped.
core::Result<std::shared_ptr<const Report>> verify_directory(const std::string& directory,
                                                             const ModelOptions& options);

}  // namespace npuseg::engine

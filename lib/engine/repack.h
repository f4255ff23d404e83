// SPDX-License-Identifier: Apache-2.0
// A new bundle of a checkpoint's weights and an existing bundle's kernels.
#pragma once

#include <string>

#include "core/log.h"
#include "core/status.h"
#include "core/threads.h"

namespace npuseg::engine {

struct RepackOptions {
  core::Logger log;
  core::Call::Options call;
};

// SAM 3 alone: how EmbeddingGemma's weights are split over its kernels is not laid down, so its
// bundles and checkpoints are UNSUPPORTED. Where the bundle has a reference picture, the new one
// holds what the float graph makes of it, to be checked against. `out` must not exist.
core::Status repack(const std::string& checkpoint, const std::string& kernels,
                    const std::string& out, const RepackOptions& options);

}  // namespace npuseg::engine

// SPDX-License-Identifier: Apache-2.0
// A new bundle of a checkpoint's weights and an existing bundle's kernels.
#pragma once

#include <string>

#include "core/status.h"
#include "engine/model_options.h"

namespace npuseg::engine {

// SAM 3 alone: how EmbeddingGemma's weights are split over its kernels is not laid down, so its
// bundles and checkpoints are UNSUPPORTED. Where the bundle has a reference picture, the new one
// holds what the float graph makes of it, to be checked against. `out` must not exist. Device and
// precision of the options are not used: the model runs on the CPU in float32.
core::Status repack(const std::string& checkpoint, const std::string& kernels,
                    const std::string& out, const ModelOptions& options);

}  // namespace npuseg::engine

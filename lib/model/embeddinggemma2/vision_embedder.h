// SPDX-License-Identifier: Apache-2.0
// Patches of a picture -> tokens of the vision tower: projection plus a learned vector for column
// and row (spec embeddinggemma2-model.md, section 9).
#pragma once

#include "model/embeddinggemma2/embeddinggemma2.h"

namespace npuseg::embeddinggemma2 {

// INVALID_ARGUMENT when the patches do not fit the config: sizes, or a grid that pooling does not
// divide or that is larger than the position table.
core::Status check_patches(const EmbeddingGemma2Config& config, const Patches& patches);

// [patches, vision hidden size]
core::Result<core::Matrix> embed_patches(const Model& model, const compute::Exec& exec,
                                         const Patches& patches);

}  // namespace npuseg::embeddinggemma2

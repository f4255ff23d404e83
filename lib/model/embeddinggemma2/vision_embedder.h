// SPDX-License-Identifier: Apache-2.0
// Patches of a picture -> tokens of the vision tower: projection plus a learned vector for column
// and row (spec embeddinggemma2-model.md, section 9).
#pragma once

#include "model/embeddinggemma2/embeddinggemma2.h"

namespace npuseg::embeddinggemma2 {

// INVALID_ARGUMENT when the patches do not fit the config: sizes, or a grid that pooling does not
// divide or that is larger than the position table.
core::Status check_patches(const EmbeddingGemma2Config& config, const Patches& patches);

// Patches as the projection takes them, and the vector of each one's place.
struct PatchRows {
  core::Matrix centred;    // [patches, patch values], from [0, 1] to [-1, 1]
  core::Matrix positions;  // [patches, vision hidden size]
};
// `table`: [2, position_rows, vision hidden size], of columns and of rows.
core::Result<PatchRows> prepare_patches(const compute::Exec& exec,
                                        const EmbeddingGemma2Config::Vision& vision,
                                        const core::TensorView& table, const Patches& patches);

// [patches, vision hidden size]
core::Result<core::Matrix> embed_patches(const Model& model, const compute::Exec& exec,
                                         const Patches& patches);

}  // namespace npuseg::embeddinggemma2

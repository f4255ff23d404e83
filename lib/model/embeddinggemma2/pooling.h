// SPDX-License-Identifier: Apache-2.0
// Token vectors -> one vector an input: final norm, mean, projection, unit length (spec
// embeddinggemma2-model.md, section 12). The projection is linear, so it follows the mean.
#pragma once

#include <span>

#include "compute/rms_norm.h"
#include "model/embeddinggemma2/embeddinggemma2.h"

namespace npuseg::embeddinggemma2 {

// Means of the normed rows of every sequence: [sequences, text hidden size].
core::Result<core::Matrix> pool_tokens(const compute::Exec& exec, const compute::RmsNorm& norm,
                                       core::ConstMatrixView tokens,
                                       std::span<const size_t> starts);

// [sequences, text hidden size] -> unit vectors [sequences, embedding_dim].
core::Status project_embeddings(const compute::Exec& exec, const core::TensorView& projection,
                                core::ConstMatrixView pooled, core::MatrixView out);

}  // namespace npuseg::embeddinggemma2

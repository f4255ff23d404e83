// SPDX-License-Identifier: Apache-2.0
// Dot-product scoring of the queries against the mean of the prompt (spec section 12).
#pragma once

#include <vector>

#include "compute/gemm.h"
#include "model/sam3/sam3.h"

namespace npuseg::sam3 {

// hidden [Q, D], prompt [n, D] -> logits [Q], clamped to +-12.
core::Result<std::vector<float>> run_scoring(const Graph& graph, const compute::Exec& exec,
                                             core::ConstMatrixView hidden,
                                             core::ConstMatrixView prompt);

}  // namespace npuseg::sam3

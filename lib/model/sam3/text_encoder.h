// SPDX-License-Identifier: Apache-2.0
// CLIP text tower and the outer projection, on the valid tokens alone (spec section 7; exact by
// the causal and padding masks, section 20.4).
#pragma once

#include <span>

#include "compute/gemm.h"
#include "model/sam3/sam3.h"

namespace npuseg::sam3 {

// ids: BOS ... EOS. Result [ids.size(), D].
core::Result<core::Matrix> run_text_encoder(const Graph& graph, const compute::Exec& exec,
                                            std::span<const int64_t> ids);

}  // namespace npuseg::sam3

// SPDX-License-Identifier: Apache-2.0
// FPN neck: the kept levels of the feature pyramid, each from the ViT map alone (spec section 6).
#pragma once

#include <vector>

#include "compute/gemm.h"
#include "model/sam3/sam3.h"

namespace npuseg::sam3 {

// vit [grid*grid, hidden] -> one [side*side, D] map a kept level, finest first.
core::Result<std::vector<core::Matrix>> run_neck(const Model& model, const compute::Exec& exec,
                                                 core::ConstMatrixView vit);

}  // namespace npuseg::sam3

// SPDX-License-Identifier: Apache-2.0
// Vision encoder: windowed and global ViT layers with 2-D rotary positions (spec section 5).
#pragma once

#include "compute/gemm.h"
#include "model/sam3/sam3.h"

namespace npuseg::sam3 {

// pixels [channels, S, S] normalised. Result [grid*grid, hidden] in raster order, no final norm.
core::Result<core::Matrix> run_vit(const Model& model, const compute::Exec& exec,
                                   const float* pixels);

}  // namespace npuseg::sam3

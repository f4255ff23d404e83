// SPDX-License-Identifier: Apache-2.0
// Geometry encoder: exemplar boxes -> prompt tokens (spec section 8). Runs only when boxes are
// given.
#pragma once

#include <span>

#include "compute/gemm.h"
#include "model/sam3/sam3.h"

namespace npuseg::sam3 {

// map: the DETR level [side*side, D]. Result [boxes.size() + 1, D]: the boxes, then CLS.
core::Result<core::Matrix> run_geometry_encoder(const Model& model, const compute::Exec& exec,
                                                core::ConstMatrixView map,
                                                std::span<const ExemplarBox> boxes);

}  // namespace npuseg::sam3

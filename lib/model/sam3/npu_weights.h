// SPDX-License-Identifier: Apache-2.0
// The tensors of a SAM 3 bundle that the host uses, found and checked once (spec
// iron-bundle-sam3.md, section 3). Views into the mapped bundle.
#pragma once

#include <cstdint>

#include "bundle/bundle.h"
#include "core/tensor_view.h"
#include "model/sam3/weights.h"

namespace npuseg::sam3 {

// What a checkpoint does not have.
struct NpuTables {
  const int32_t* raster = nullptr;  // raster index of every token in window order
  core::TensorView positions;       // [tokens, vit_dim] in window order
  core::TensorView map_positions;   // [tokens, D] in raster order
  // Of a ViT whose host rotates: [tokens, head_dim / 2] each; index 1 of global layers.
  core::TensorView cosine[2];
  core::TensorView sine[2];
};

// Fills of `weights` what the host computes with, and its list `used`. check_values: float32
// tensors are scanned for values that are not finite.
core::Status bind_npu_weights(const bundle::Bundle& bundle, bool check_values, Weights* weights,
                              NpuTables* tables);

}  // namespace npuseg::sam3

// SPDX-License-Identifier: Apache-2.0
// The tensors of an EmbeddingGemma 2 bundle that the host uses, found and checked once (spec
// iron-bundle-embeddinggemma2.md, section 5). Views into the mapped bundle.
#pragma once

#include <string>
#include <vector>

#include "bundle/bundle.h"
#include "core/tensor_view.h"

namespace npuseg::embeddinggemma2 {

struct NpuWeights {
  struct VisionLayer {
    std::string name;  // "v0.", begin of the names of its packed weights
    core::TensorView q_norm, k_norm, post_attention, post_feedforward;
  };
  struct TextLayer {
    std::string name;  // "t0."
    core::TensorView q_norm, k_norm, post_attention, post_feedforward, post_per_layer;
    float scalar = 1.0f;
  };

  core::TensorView positions;  // bf16 [2, positions, vision width]
  std::vector<VisionLayer> vision;
  core::TensorView per_layer_norm;
  std::vector<TextLayer> text;
  core::TensorView special;     // [4, width]: start, begin of image, end of image, end
  core::TensorView embeddings;  // bf16 [vocabulary, width]; empty without texts
  core::TensorView norm;
  core::TensorView projection;  // [out, width]

  static core::Status bind(const bundle::Bundle& bundle, NpuWeights* out);
};

}  // namespace npuseg::embeddinggemma2

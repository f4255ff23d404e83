// SPDX-License-Identifier: Apache-2.0
// Every tensor that the forward pass uses, found by name with its shape checked against the config
// (spec embeddinggemma2-model.md, section 4). Views into the mapped files until weight_forms.h
// makes copies of some. Member names follow the tensor names.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "checkpoint/embeddinggemma2_config.h"
#include "core/tensor_view.h"

namespace npuseg::embeddinggemma2 {

// What the layers of both towers have.
struct LayerWeights {
  core::TensorView input_layernorm;
  core::TensorView post_attention_layernorm;
  core::TensorView pre_feedforward_layernorm;
  core::TensorView post_feedforward_layernorm;
  core::TensorView q_proj;
  core::TensorView k_proj;
  core::TensorView v_proj;
  core::TensorView o_proj;
  core::TensorView q_norm;
  core::TensorView k_norm;
  core::TensorView gate_proj;
  core::TensorView up_proj;
  core::TensorView down_proj;
};

struct TextLayerWeights {
  LayerWeights shared;
  core::TensorView per_layer_input_gate;
  core::TensorView per_layer_projection;
  core::TensorView post_per_layer_input_norm;
  core::TensorView layer_scalar;
};

struct TextWeights {
  core::TensorView embed_tokens;
  core::TensorView per_layer_model_projection;
  core::TensorView per_layer_projection_norm;
  std::vector<TextLayerWeights> layers;
  core::TensorView norm;
  core::TensorView embedding_projection;
};

struct VisionWeights {
  core::TensorView input_proj;
  core::TensorView position_embedding_table;
  std::vector<LayerWeights> layers;
  core::TensorView embedding_projection;  // of embed_vision
};

struct Weights {
  Weights() = default;
  Weights(const Weights&) = delete;  // linears points into it
  Weights& operator=(const Weights&) = delete;

  TextWeights text;
  VisionWeights vision;  // empty without vision
  // Name as stored and view of everything above.
  std::vector<std::pair<std::string, core::TensorView>> used;
  // Those of linear layers: index into used, and the member.
  struct Linear {
    size_t index = 0;
    core::TensorView* view = nullptr;
  };
  std::vector<Linear> linears;
  // Tensors of the used towers that the config has no place for; they are not read.
  std::vector<std::string> surplus;

  static core::Status bind(const checkpoint::Checkpoint& files,
                           const checkpoint::EmbeddingGemma2Config& config,
                           const std::string& directory, Weights* out);
};

}  // namespace npuseg::embeddinggemma2

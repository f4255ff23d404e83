// SPDX-License-Identifier: Apache-2.0
// Every tensor that the forward pass uses, found by name with its shape checked against the config
// (spec sam3-model.md, section 3.3). Member names follow the tensor names.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "checkpoint/sam3_config.h"
#include "compute/norm.h"
#include "core/tensor_view.h"

namespace npuseg::sam3 {

struct LinearWeights {
  core::TensorView weight;
  core::TensorView bias;
};

struct AttentionWeights {
  LinearWeights q_proj;
  LinearWeights k_proj;
  LinearWeights v_proj;
  LinearWeights o_proj;
};

struct MlpWeights {
  LinearWeights fc1;
  LinearWeights fc2;
};

struct VitLayerWeights {
  compute::LayerNorm layer_norm1;
  compute::LayerNorm layer_norm2;
  AttentionWeights attention;
  MlpWeights mlp;
};

struct FpnLayerWeights {
  std::vector<LinearWeights> scale_layers;  // transposed convolutions: two, one or none
  LinearWeights proj1;
  LinearWeights proj2;
};

struct TextLayerWeights {
  compute::LayerNorm layer_norm1;
  compute::LayerNorm layer_norm2;
  AttentionWeights self_attn;
  MlpWeights mlp;
};

// Of the geometry encoder and of the DETR encoder.
struct EncoderLayerWeights {
  compute::LayerNorm layer_norm1;
  compute::LayerNorm layer_norm2;
  compute::LayerNorm layer_norm3;
  AttentionWeights self_attn;
  AttentionWeights cross_attn;
  MlpWeights mlp;
};

struct DecoderLayerWeights {
  compute::LayerNorm self_attn_layer_norm;
  compute::LayerNorm text_cross_attn_layer_norm;
  compute::LayerNorm vision_cross_attn_layer_norm;
  compute::LayerNorm mlp_layer_norm;
  AttentionWeights self_attn;
  AttentionWeights text_cross_attn;
  AttentionWeights vision_cross_attn;
  MlpWeights mlp;
};

struct Weights {
  struct {
    core::TensorView patch_projection;     // [V, channels, P, P]
    core::TensorView position_embeddings;  // [1, n*n, V]
    compute::LayerNorm layer_norm;
    std::vector<VitLayerWeights> layers;
  } backbone;
  std::vector<FpnLayerWeights> fpn;  // kept levels only
  struct {
    core::TensorView token_embedding;     // [vocab, hidden]
    core::TensorView position_embedding;  // [positions, hidden]
    std::vector<TextLayerWeights> layers;
    compute::LayerNorm final_layer_norm;
    LinearWeights projection;  // the outer text_projection
  } text;
  struct {
    core::TensorView label_embed;  // [2, D]: negative, positive
    core::TensorView cls_embed;    // [1, D]
    LinearWeights boxes_direct_project;
    LinearWeights boxes_pool_project;  // [D, D, roi, roi]
    LinearWeights boxes_pos_enc_project;
    compute::LayerNorm vision_layer_norm;
    compute::LayerNorm prompt_layer_norm;
    compute::LayerNorm output_layer_norm;
    LinearWeights final_proj;
    std::vector<EncoderLayerWeights> layers;
  } geometry;
  std::vector<EncoderLayerWeights> detr_encoder;
  struct {
    std::vector<DecoderLayerWeights> layers;
    compute::LayerNorm output_layer_norm;
    LinearWeights box_head[3];
    core::TensorView query_embed;       // [Q, D]
    core::TensorView reference_points;  // [Q, 4]
    core::TensorView presence_token;    // [1, D]
    LinearWeights presence_head[3];
    compute::LayerNorm presence_layer_norm;
    LinearWeights ref_point_head[2];
    LinearWeights box_rpb_embed_x[2];
    LinearWeights box_rpb_embed_y[2];
  } decoder;
  struct {
    LinearWeights text_mlp[2];
    compute::LayerNorm text_mlp_out_norm;
    LinearWeights text_proj;
    LinearWeights query_proj;
  } scoring;
  struct {
    std::vector<LinearWeights> conv_layers;  // kept levels - 1
    std::vector<LinearWeights> norms;        // GroupNorm weight and bias
    LinearWeights mask_embedder[3];
    LinearWeights instance_projection;
    LinearWeights semantic_projection;
    AttentionWeights prompt_cross_attn;
    compute::LayerNorm prompt_cross_attn_norm;
  } mask;

  std::vector<std::pair<std::string, core::TensorView>> used;  // all of the above, by name

  // Names every missing or misshapen tensor (the first few) in one message.
  static core::Status bind(const checkpoint::Checkpoint& files,
                           const checkpoint::Sam3Config& config, const std::string& directory,
                           Weights* out);
};

}  // namespace npuseg::sam3

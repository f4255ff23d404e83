// SPDX-License-Identifier: Apache-2.0
#include "model/embeddinggemma2/vision_encoder.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "model/embeddinggemma2/layers.h"
#include "model/embeddinggemma2/rope_cache.h"
#include "model/embeddinggemma2/weights.h"

namespace npuseg::embeddinggemma2 {

using compute::Exec;
using core::ConstMatrixView;
using core::MatrixView;
using core::Status;

std::vector<int32_t> patch_positions(size_t patches, size_t grid_width) {
  std::vector<int32_t> positions(2 * patches);
  for (size_t i = 0; i < patches; ++i) {
    positions[2 * i] = static_cast<int32_t>(i % grid_width);
    positions[2 * i + 1] = static_cast<int32_t>(i / grid_width);
  }
  return positions;
}

Status run_vision_encoder(const Model& model, const Exec& exec, size_t grid_width,
                          size_t grid_height, MatrixView tokens,
                          const std::function<void(size_t, ConstMatrixView)>& after_layer) {
  const auto& vision = *model.config().vision;
  const auto& layers = model.weights().vision.layers;
  exec.call->begin_stage(static_cast<uint32_t>(Stage::kVision), layers.size());
  NPUSEG_ASSIGN_OR_RETURN(const auto rope,
                          model.ropes().vision.get(*exec.call, std::max(grid_width, grid_height)));
  const std::vector<int32_t> positions = patch_positions(tokens.rows, grid_width);
  LayerShape shape;
  shape.eps = vision.rms_norm_eps;
  shape.heads = vision.heads;
  shape.kv_heads = vision.kv_heads;
  shape.head_dim = vision.head_dim;
  shape.rope = rope.get();
  shape.axes = 2;
  shape.positions = positions.data();
  shape.starts = {0, tokens.rows};
  NPUSEG_ASSIGN_OR_RETURN(LayerWork work,
                          LayerWork::make(exec, tokens.rows, vision.hidden_size,
                                          (vision.heads + 2 * vision.kv_heads) * vision.head_dim,
                                          vision.intermediate_size));
  for (size_t i = 0; i < layers.size(); ++i) {
    NPUSEG_RETURN_IF_ERROR(attention_block(exec, layers[i], shape, tokens, &work));
    NPUSEG_RETURN_IF_ERROR(mlp_block(exec, layers[i], shape, tokens, &work));
    if (after_layer) after_layer(i, tokens);
    exec.call->advance();
  }
  return check_finite(tokens, "vision encoder");
}

}  // namespace npuseg::embeddinggemma2

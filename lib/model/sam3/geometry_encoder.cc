// SPDX-License-Identifier: Apache-2.0
#include "model/sam3/geometry_encoder.h"

#include <algorithm>
#include <numbers>

#include "compute/elementwise.h"
#include "compute/norm.h"
#include "model/sam3/constants.h"
#include "model/sam3/layers.h"
#include "model/sam3/roi_align.h"
#include "model/sam3/weights.h"

namespace npuseg::sam3 {

using compute::Exec;
using core::ConstMatrixView;
using core::Matrix;
using core::MatrixView;
using core::Result;
using core::Status;

namespace {

// Direct, pooled, positional and label part of every box, summed into the first rows of `out`.
Status embed_boxes(const Model& model, const Exec& exec, ConstMatrixView map,
                   std::span<const ExemplarBox> boxes, MatrixView out) {
  const auto& weights = model.weights().geometry;
  const size_t d = model.config().hidden_size;
  const size_t side = model.config().map_side();
  const size_t bins = model.config().roi_size;
  const size_t n = boxes.size();
  NPUSEG_ASSIGN_OR_RETURN(Matrix normed, Matrix::make(exec.budget, map.rows, d, "geometry map"));
  NPUSEG_RETURN_IF_ERROR(compute::layer_norm(exec, map, weights.vision_layer_norm, normed.view()));
  NPUSEG_ASSIGN_OR_RETURN(Matrix direct, Matrix::make(exec.budget, n, 4, "box coordinates"));
  NPUSEG_ASSIGN_OR_RETURN(Matrix pooled,
                          Matrix::make(exec.budget, n, d * bins * bins, "pooled boxes"));
  NPUSEG_ASSIGN_OR_RETURN(Matrix encoded, Matrix::make(exec.budget, n, d + 2, "box positions"));
  NPUSEG_RETURN_IF_ERROR(core::parallel_for(*exec.call, n, [&](size_t i, int) {
    const ExemplarBox& box = boxes[i];
    const float plain[4] = {box.cx, box.cy, box.w, box.h};
    std::copy_n(plain, 4, direct.view().row(i));
    const float scale = static_cast<float>(side);
    const float corners[4] = {(box.cx - 0.5f * box.w) * scale, (box.cy - 0.5f * box.h) * scale,
                              (box.cx + 0.5f * box.w) * scale, (box.cy + 0.5f * box.h) * scale};
    roi_align(normed.view(), side, side, corners, bins, pooled.view().row(i));
    float* position = encoded.view().row(i);
    sine_encode(static_cast<double>(box.cy) * 2.0 * std::numbers::pi, d / 2, position);
    sine_encode(static_cast<double>(box.cx) * 2.0 * std::numbers::pi, d / 2, position + d / 2);
    position[d] = box.h;
    position[d + 1] = box.w;
    compute::widen(weights.label_embed, box.label > 0 ? d : 0, d, out.row(i));
  }));
  const MatrixView rows = out.row_range(0, n);
  NPUSEG_RETURN_IF_ERROR(linear(exec, direct.view(), weights.boxes_direct_project, rows,
                                compute::Activation::kNone, rows));
  NPUSEG_RETURN_IF_ERROR(linear(exec, pooled.view(), weights.boxes_pool_project, rows,
                                compute::Activation::kNone, rows));
  return linear(exec, encoded.view(), weights.boxes_pos_enc_project, rows,
                compute::Activation::kNone, rows);
}

}  // namespace

Result<Matrix> run_geometry_encoder(const Model& model, const Exec& exec, ConstMatrixView map,
                                    std::span<const ExemplarBox> boxes) {
  const auto& weights = model.weights().geometry;
  const auto& config = model.config().geometry;
  const size_t d = model.config().hidden_size;
  const size_t n = boxes.size();
  exec.call->begin_stage(static_cast<uint32_t>(Stage::kGeometry), config.layers);
  NPUSEG_ASSIGN_OR_RETURN(Matrix sequence, Matrix::make(exec.budget, n + 1, d, "box tokens"));
  NPUSEG_RETURN_IF_ERROR(embed_boxes(model, exec, map, boxes, sequence.view()));
  compute::widen(weights.cls_embed, 0, d, sequence.view().row(n));

  NPUSEG_ASSIGN_OR_RETURN(Matrix x, Matrix::make(exec.budget, n + 1, d, "box tokens"));
  NPUSEG_ASSIGN_OR_RETURN(Matrix y, Matrix::make(exec.budget, n + 1, d, "box activations"));
  NPUSEG_RETURN_IF_ERROR(linear(exec, sequence.view(), weights.final_proj, x.view()));
  NPUSEG_RETURN_IF_ERROR(compute::layer_norm(exec, x.view(), weights.prompt_layer_norm, x.view()));
  // Keys carry positions, values do not; both are the map before the norm of the pooling.
  NPUSEG_ASSIGN_OR_RETURN(Matrix keys, Matrix::make(exec.budget, map.rows, d, "geometry keys"));
  NPUSEG_RETURN_IF_ERROR(compute::add(exec, map, model.constants().position_view(d), keys.view()));
  for (const EncoderLayerWeights& layer : weights.layers) {
    NPUSEG_RETURN_IF_ERROR(compute::layer_norm(exec, x.view(), layer.layer_norm1, y.view()));
    AttentionInputs self{y.view(), y.view(), y.view()};
    self.heads = config.heads;
    NPUSEG_RETURN_IF_ERROR(attention_block(exec, self, layer.self_attn, x.view(), x.view()));
    NPUSEG_RETURN_IF_ERROR(compute::layer_norm(exec, x.view(), layer.layer_norm2, y.view()));
    AttentionInputs cross{y.view(), keys.view(), map};
    cross.heads = config.heads;
    NPUSEG_RETURN_IF_ERROR(attention_block(exec, cross, layer.cross_attn, x.view(), x.view()));
    NPUSEG_RETURN_IF_ERROR(compute::layer_norm(exec, x.view(), layer.layer_norm3, y.view()));
    NPUSEG_RETURN_IF_ERROR(
        mlp_block(exec, y.view(), layer.mlp, to_activation(config.act), x.view(), x.view()));
    exec.call->advance();
  }
  NPUSEG_RETURN_IF_ERROR(compute::layer_norm(exec, x.view(), weights.output_layer_norm, x.view()));
  return x;
}

}  // namespace npuseg::sam3

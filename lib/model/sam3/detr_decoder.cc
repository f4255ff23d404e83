// SPDX-License-Identifier: Apache-2.0
#include "model/sam3/detr_decoder.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>

#include "compute/elementwise.h"
#include "compute/norm.h"
#include "model/sam3/constants.h"
#include "model/sam3/layers.h"
#include "model/sam3/weights.h"

namespace npuseg::sam3 {

using compute::Exec;
using core::ConstMatrixView;
using core::Matrix;
using core::MatrixView;
using core::Result;
using core::Status;

float inverse_sigmoid(float p) {
  constexpr float kEps = 1e-3f;
  const float x = std::clamp(p, 0.0f, 1.0f);
  return std::log(std::max(x, kEps) / std::max(1.0f - x, kEps));
}

float log_scale(float d) { return std::copysign(std::log2(std::fabs(d * 8.0f) + 1.0f) / 3.0f, d); }

namespace {

// Query positions [Q+1, D] from the reference boxes; row 0 (presence token) is zero.
Status query_positions(const Graph& graph, const Exec& exec, const std::vector<float>& references,
                       MatrixView out) {
  const size_t queries = references.size() / 4;
  const size_t half = graph.config().hidden_size / 2;
  NPUSEG_ASSIGN_OR_RETURN(Matrix encoded,
                          Matrix::make(exec.budget, queries, 4 * half, "query positions"));
  NPUSEG_RETURN_IF_ERROR(core::parallel_for(
      *exec.call, queries,
      [&](size_t q, int) {
        const float* box = references.data() + 4 * q;
        // Order y, x, w, h.
        const float order[4] = {box[1], box[0], box[2], box[3]};
        for (size_t i = 0; i < 4; ++i) {
          sine_encode(static_cast<double>(order[i]) * 2.0 * std::numbers::pi, half,
                      encoded.view().row(q) + i * half);
        }
      },
      static_cast<double>(queries * 4 * half) * 30.0));
  std::fill_n(out.row(0), out.cols, 0.0f);
  return relu_head(exec, encoded.view(), graph.weights().decoder.ref_point_head,
                   out.row_range(1, queries));
}

// One axis of the box relative position bias: [heads, Q+1, side], row 0 of every head zero.
// low and high are the columns of the box's two edges on this axis, as corner coordinates.
Status axis_bias(const Exec& exec, const LinearWeights (&embed)[2], const std::vector<float>& edges,
                 size_t side, size_t heads, Matrix* out) {
  const size_t queries = edges.size() / 2;
  NPUSEG_ASSIGN_OR_RETURN(Matrix deltas,
                          Matrix::make(exec.budget, queries * side, 2, "position bias"));
  NPUSEG_ASSIGN_OR_RETURN(Matrix per_head,
                          Matrix::make(exec.budget, queries * side, heads, "position bias"));
  NPUSEG_RETURN_IF_ERROR(core::parallel_for(
      *exec.call, queries,
      [&](size_t q, int) {
        for (size_t i = 0; i < side; ++i) {
          // Cell corners, not centres.
          const float at = static_cast<float>(i) / static_cast<float>(side);
          float* row = deltas.view().row(q * side + i);
          row[0] = log_scale(at - edges[2 * q]);
          row[1] = log_scale(at - edges[2 * q + 1]);
        }
      },
      static_cast<double>(queries * side) * 30.0));
  NPUSEG_RETURN_IF_ERROR(relu_head(exec, deltas.view(), embed, per_head.view()));
  return core::parallel_for(
      *exec.call, heads,
      [&](size_t h, int) {
        float* head = out->data() + h * (queries + 1) * side;
        std::fill_n(head, side, 0.0f);
        for (size_t r = 0; r < queries * side; ++r) head[side + r] = per_head.view().row(r)[h];
      },
      static_cast<double>(queries * side * heads));
}

struct PositionBias {
  Matrix y;
  Matrix x;
};

Status position_bias(const Graph& graph, const Exec& exec, const std::vector<float>& references,
                     PositionBias* bias) {
  const auto& weights = graph.weights().decoder;
  const size_t queries = references.size() / 4;
  std::vector<float> edges_x(2 * queries);
  std::vector<float> edges_y(2 * queries);
  for (size_t q = 0; q < queries; ++q) {
    const float* box = references.data() + 4 * q;
    edges_x[2 * q] = box[0] - 0.5f * box[2];
    edges_x[2 * q + 1] = box[0] + 0.5f * box[2];
    edges_y[2 * q] = box[1] - 0.5f * box[3];
    edges_y[2 * q + 1] = box[1] + 0.5f * box[3];
  }
  const size_t side = graph.config().map_side();
  const size_t heads = graph.config().detr_decoder.heads;
  NPUSEG_RETURN_IF_ERROR(axis_bias(exec, weights.box_rpb_embed_y, edges_y, side, heads, &bias->y));
  return axis_bias(exec, weights.box_rpb_embed_x, edges_x, side, heads, &bias->x);
}

// references = sigmoid(box_head(hidden) + inverse_sigmoid(references)).
Status refine(const Graph& graph, const Exec& exec, ConstMatrixView hidden,
              std::vector<float>* references) {
  NPUSEG_ASSIGN_OR_RETURN(Matrix delta, Matrix::make(exec.budget, hidden.rows, 4, "box deltas"));
  NPUSEG_RETURN_IF_ERROR(relu_head(exec, hidden, graph.weights().decoder.box_head, delta.view()));
  NPUSEG_RETURN_IF_ERROR(check_finite(delta.view(), "DETR decoder"));
  for (size_t i = 0; i < references->size(); ++i) {
    delta.data()[i] += inverse_sigmoid((*references)[i]);
  }
  compute::sigmoid(delta.data(), references->data(), references->size());
  return {};
}

}  // namespace

Result<DecoderOutput> run_detr_decoder(const Graph& graph, const Exec& exec,
                                       const VisionKeys& vision_keys, ConstMatrixView prompt) {
  const auto& config = graph.config();
  const auto& weights = graph.weights().decoder;
  const size_t queries = config.queries;
  const size_t d = config.hidden_size;
  const size_t side = config.map_side();
  const size_t heads = config.detr_decoder.heads;
  exec.call->begin_stage(static_cast<uint32_t>(Stage::kDetrDecoder), weights.layers.size());

  DecoderOutput output;
  output.references.resize(queries * 4);
  {
    std::vector<float> logits(queries * 4);
    compute::widen(weights.reference_points, 0, logits.size(), logits.data());
    compute::sigmoid(logits.data(), output.references.data(), logits.size());
  }
  NPUSEG_ASSIGN_OR_RETURN(Matrix x, Matrix::make(exec.budget, queries + 1, d, "decoder tokens"));
  compute::widen(weights.presence_token, 0, d, x.data());
  compute::widen(weights.query_embed, 0, queries * d, x.view().row(1));

  NPUSEG_ASSIGN_OR_RETURN(Matrix key_value,
                          Matrix::make(exec.budget, side * side, 2 * d, "decoder keys"));
  const MatrixView keys = key_value.view().columns(0, d);
  const MatrixView values = key_value.view().columns(d, d);
  NPUSEG_ASSIGN_OR_RETURN(Matrix positions,
                          Matrix::make(exec.budget, queries + 1, d, "query positions"));
  NPUSEG_ASSIGN_OR_RETURN(Matrix placed,
                          Matrix::make(exec.budget, queries + 1, d, "decoder activations"));
  PositionBias bias;
  NPUSEG_ASSIGN_OR_RETURN(bias.y,
                          Matrix::make(exec.budget, heads * (queries + 1), side, "position bias"));
  NPUSEG_ASSIGN_OR_RETURN(bias.x,
                          Matrix::make(exec.budget, heads * (queries + 1), side, "position bias"));
  NPUSEG_ASSIGN_OR_RETURN(output.hidden, Matrix::make(exec.budget, queries, d, "object queries"));

  for (size_t i = 0; i < weights.layers.size(); ++i) {
    const DecoderLayerWeights& layer = weights.layers[i];
    NPUSEG_RETURN_IF_ERROR(query_positions(graph, exec, output.references, positions.view()));
    NPUSEG_RETURN_IF_ERROR(position_bias(graph, exec, output.references, &bias));

    const auto place = [&] {
      return compute::add(exec, x.view(), positions.view(), placed.view());
    };
    NPUSEG_RETURN_IF_ERROR(place());
    AttentionInputs self{placed.view(), placed.view(), x.view()};
    self.heads = heads;
    NPUSEG_RETURN_IF_ERROR(attention_block(exec, self, layer.self_attn, x.view(), x.view()));
    NPUSEG_RETURN_IF_ERROR(
        compute::layer_norm(exec, x.view(), layer.self_attn_layer_norm, x.view()));

    NPUSEG_RETURN_IF_ERROR(place());
    AttentionInputs text{placed.view(), prompt, prompt};
    text.heads = heads;
    NPUSEG_RETURN_IF_ERROR(attention_block(exec, text, layer.text_cross_attn, x.view(), x.view()));
    NPUSEG_RETURN_IF_ERROR(
        compute::layer_norm(exec, x.view(), layer.text_cross_attn_layer_norm, x.view()));

    NPUSEG_RETURN_IF_ERROR(place());
    NPUSEG_RETURN_IF_ERROR(vision_keys(i, keys, values));
    AttentionInputs vision{placed.view(), keys, values};
    vision.heads = heads;
    vision.bias_y = bias.y.data();
    vision.bias_x = bias.x.data();
    vision.grid_height = side;
    vision.grid_width = side;
    NPUSEG_RETURN_IF_ERROR(
        attend_projected(exec, vision, layer.vision_cross_attn, x.view(), x.view()));
    NPUSEG_RETURN_IF_ERROR(
        compute::layer_norm(exec, x.view(), layer.vision_cross_attn_layer_norm, x.view()));

    NPUSEG_RETURN_IF_ERROR(mlp_block(exec, x.view(), layer.mlp,
                                     to_activation(config.detr_decoder.act), x.view(), x.view()));
    NPUSEG_RETURN_IF_ERROR(compute::layer_norm(exec, x.view(), layer.mlp_layer_norm, x.view()));

    NPUSEG_RETURN_IF_ERROR(compute::layer_norm(exec, x.view().row_range(1, queries),
                                               weights.output_layer_norm, output.hidden.view()));
    NPUSEG_RETURN_IF_ERROR(refine(graph, exec, output.hidden.view(), &output.references));
    exec.call->advance();
  }

  const MatrixView presence = placed.view().row_range(0, 1);
  NPUSEG_RETURN_IF_ERROR(
      compute::layer_norm(exec, x.view().row_range(0, 1), weights.presence_layer_norm, presence));
  NPUSEG_RETURN_IF_ERROR(relu_head(exec, presence, weights.presence_head,
                                   MatrixView{&output.presence_logit, 1, 1, 1}));
  NPUSEG_RETURN_IF_ERROR(
      check_finite(ConstMatrixView{&output.presence_logit, 1, 1, 1}, "presence head"));
  output.presence_logit = std::clamp(output.presence_logit, -10.0f, 10.0f);
  return output;
}

Result<DecoderOutput> run_detr_decoder(const Model& model, const Exec& exec, ConstMatrixView memory,
                                       ConstMatrixView prompt) {
  const size_t d = model.config().hidden_size;
  NPUSEG_ASSIGN_OR_RETURN(Matrix placed, Matrix::make(exec.budget, memory.rows, d, "decoder keys"));
  NPUSEG_RETURN_IF_ERROR(
      compute::add(exec, memory, model.constants().position_view(d), placed.view()));
  const VisionKeys project = [&](size_t layer, MatrixView keys, MatrixView values) -> Status {
    const AttentionWeights& weights = model.weights().decoder.layers[layer].vision_cross_attn;
    NPUSEG_RETURN_IF_ERROR(linear(exec, placed.view(), weights.k_proj, keys));
    return linear(exec, memory, weights.v_proj, values);
  };
  return run_detr_decoder(model, exec, project, prompt);
}

}  // namespace npuseg::sam3

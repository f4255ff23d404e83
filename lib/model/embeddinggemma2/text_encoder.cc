// SPDX-License-Identifier: Apache-2.0
#include "model/embeddinggemma2/text_encoder.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "compute/elementwise.h"
#include "compute/gated.h"
#include "compute/rms_norm.h"
#include "model/embeddinggemma2/layers.h"
#include "model/embeddinggemma2/rope_cache.h"
#include "model/embeddinggemma2/weights.h"

namespace npuseg::embeddinggemma2 {

using compute::Exec;
using core::ConstMatrixView;
using core::Matrix;
using core::MatrixView;
using core::Result;
using core::Status;
using core::TensorView;

namespace {

// h = (h + norm(projection(gelu(gate(h)) * input))) * layer_scalar. The gate reads h as it is.
Status per_layer_block(const Exec& exec, const TextLayerWeights& layer, float eps,
                       ConstMatrixView input, MatrixView gate, MatrixView branch, MatrixView h) {
  NPUSEG_RETURN_IF_ERROR(compute::linear(exec, h, layer.per_layer_input_gate, gate));
  NPUSEG_RETURN_IF_ERROR(
      compute::multiply_gated(exec, compute::Activation::kGeluTanh, gate, input));
  NPUSEG_RETURN_IF_ERROR(compute::linear(exec, gate, layer.per_layer_projection, branch));
  compute::RmsNormOptions options;
  options.residual = h;
  compute::widen(layer.layer_scalar, 0, 1, &options.output_scale);
  return compute::rms_norm(exec, branch, {layer.post_per_layer_input_norm, eps}, h, options);
}

}  // namespace

Status per_layer_input(const Model& model, const Exec& exec, size_t layer, ConstMatrixView embedded,
                       MatrixView out) {
  const auto& text = model.config().text;
  const auto& weights = model.weights().text;
  const TensorView slice =
      weights.per_layer_model_projection.rows(layer * text.per_layer_size, text.per_layer_size);
  NPUSEG_RETURN_IF_ERROR(compute::linear(exec, embedded, slice, out));
  compute::RmsNormOptions options;
  options.input_scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(text.hidden_size)));
  return compute::rms_norm(exec, out, {weights.per_layer_projection_norm, text.rms_norm_eps}, out,
                           options);
}

Result<Matrix> run_text_encoder(const Model& model, const Exec& exec, const PackedTokens& packed,
                                const std::function<void(size_t, ConstMatrixView)>& after_layer) {
  const auto& text = model.config().text;
  const auto& weights = model.weights().text;
  const ConstMatrixView embedded = packed.tokens.view();
  const size_t count = embedded.rows;
  NPUSEG_ASSIGN_OR_RETURN(const auto sliding,
                          model.ropes().sliding.get(*exec.call, packed.longest));
  NPUSEG_ASSIGN_OR_RETURN(const auto full, model.ropes().full.get(*exec.call, packed.longest));
  const char* what = "text activations";
  NPUSEG_ASSIGN_OR_RETURN(Matrix h, Matrix::make(exec.budget, count, text.hidden_size, what));
  NPUSEG_ASSIGN_OR_RETURN(Matrix input,
                          Matrix::make(exec.budget, count, text.per_layer_size, what));
  NPUSEG_ASSIGN_OR_RETURN(Matrix gate, Matrix::make(exec.budget, count, text.per_layer_size, what));
  std::memcpy(h.data(), embedded.data, count * text.hidden_size * sizeof(float));
  size_t qkv_width = 0;
  for (size_t i = 0; i < text.layers; ++i) {
    qkv_width = std::max(qkv_width, text.q_width(i) + 2 * text.kv_width(i));
  }
  NPUSEG_ASSIGN_OR_RETURN(LayerWork work, LayerWork::make(exec, count, text.hidden_size, qkv_width,
                                                          text.intermediate_size));
  LayerShape shape;
  shape.eps = text.rms_norm_eps;
  shape.heads = text.heads;
  shape.positions = packed.positions.data();
  shape.starts = packed.starts;
  for (size_t i = 0; i < text.layers; ++i) {
    const TextLayerWeights& layer = weights.layers[i];
    shape.kv_heads = text.attention(i).kv_heads;
    shape.head_dim = text.attention(i).head_dim;
    shape.rope = text.is_full[i] ? full.get() : sliding.get();
    shape.radius = text.is_full[i] ? SIZE_MAX : text.sliding_window;
    NPUSEG_RETURN_IF_ERROR(attention_block(exec, layer.shared, shape, h.view(), &work));
    NPUSEG_RETURN_IF_ERROR(mlp_block(exec, layer.shared, shape, h.view(), &work));
    NPUSEG_RETURN_IF_ERROR(per_layer_input(model, exec, i, embedded, input.view()));
    NPUSEG_RETURN_IF_ERROR(per_layer_block(exec, layer, text.rms_norm_eps, input.view(),
                                           gate.view(), work.branch.view(), h.view()));
    if (after_layer) after_layer(i, h.view());
    exec.call->advance();
  }
  NPUSEG_RETURN_IF_ERROR(check_finite(h.view(), "text encoder"));
  return h;
}

}  // namespace npuseg::embeddinggemma2

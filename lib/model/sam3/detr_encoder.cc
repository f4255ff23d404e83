// SPDX-License-Identifier: Apache-2.0
#include "model/sam3/detr_encoder.h"

#include <cstring>

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

namespace {

// x = x + self_attn(LN1(x) with positions in q and k).
Status self_attention(const Model& model, const Exec& exec, const EncoderLayerWeights& layer,
                      ConstMatrixView x, MatrixView normed, MatrixView with_positions,
                      MatrixView out) {
  NPUSEG_RETURN_IF_ERROR(compute::layer_norm(exec, x, layer.layer_norm1, normed, nullptr,
                                             model.constants().position_view(x.cols),
                                             with_positions));
  AttentionInputs inputs{with_positions, with_positions, normed};
  inputs.heads = model.config().detr_encoder.heads;
  return attention_block(exec, inputs, layer.self_attn, x, out);
}

// x = x + cross_attn(LN2(x), prompt); x = x + mlp(LN3(x)).
Status prompt_and_mlp(const Model& model, const Exec& exec, const EncoderLayerWeights& layer,
                      ConstMatrixView prompt, MatrixView normed, MatrixView x) {
  const auto& config = model.config().detr_encoder;
  NPUSEG_RETURN_IF_ERROR(compute::layer_norm(exec, x, layer.layer_norm2, normed));
  AttentionInputs inputs{normed, prompt, prompt};
  inputs.heads = config.heads;
  NPUSEG_RETURN_IF_ERROR(attention_block(exec, inputs, layer.cross_attn, x, x));
  NPUSEG_RETURN_IF_ERROR(compute::layer_norm(exec, x, layer.layer_norm3, normed));
  return mlp_block(exec, normed, layer.mlp, to_activation(config.act), x, x);
}

}  // namespace

Result<Matrix> run_detr_encoder_input(const Model& model, const Exec& exec, ConstMatrixView map) {
  NPUSEG_ASSIGN_OR_RETURN(Matrix x,
                          Matrix::make(exec.budget, map.rows, map.cols, "DETR encoder tokens"));
  NPUSEG_ASSIGN_OR_RETURN(
      Matrix normed, Matrix::make(exec.budget, map.rows, map.cols, "DETR encoder activations"));
  NPUSEG_ASSIGN_OR_RETURN(Matrix with_positions, Matrix::make(exec.budget, map.rows, map.cols,
                                                              "DETR encoder activations"));
  NPUSEG_RETURN_IF_ERROR(self_attention(model, exec, model.weights().detr_encoder.front(), map,
                                        normed.view(), with_positions.view(), x.view()));
  return x;
}

Result<Matrix> run_detr_encoder(const Model& model, const Exec& exec, ConstMatrixView encoder_input,
                                ConstMatrixView prompt) {
  const auto& layers = model.weights().detr_encoder;
  exec.call->begin_stage(static_cast<uint32_t>(Stage::kDetrEncoder), layers.size());
  const size_t rows = encoder_input.rows;
  const size_t d = encoder_input.cols;
  NPUSEG_ASSIGN_OR_RETURN(Matrix x, Matrix::make(exec.budget, rows, d, "DETR encoder tokens"));
  NPUSEG_ASSIGN_OR_RETURN(Matrix normed,
                          Matrix::make(exec.budget, rows, d, "DETR encoder activations"));
  NPUSEG_ASSIGN_OR_RETURN(Matrix with_positions,
                          Matrix::make(exec.budget, rows, d, "DETR encoder activations"));
  std::memcpy(x.data(), encoder_input.data, rows * d * sizeof(float));
  for (size_t i = 0; i < layers.size(); ++i) {
    if (i != 0) {
      NPUSEG_RETURN_IF_ERROR(self_attention(model, exec, layers[i], x.view(), normed.view(),
                                            with_positions.view(), x.view()));
    }
    NPUSEG_RETURN_IF_ERROR(prompt_and_mlp(model, exec, layers[i], prompt, normed.view(), x.view()));
    exec.call->advance();
  }
  return x;
}

}  // namespace npuseg::sam3

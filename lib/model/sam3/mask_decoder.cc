// SPDX-License-Identifier: Apache-2.0
#include "model/sam3/mask_decoder.h"

#include <cstring>

#include "compute/conv.h"
#include "compute/elementwise.h"
#include "compute/norm.h"
#include "model/sam3/layers.h"
#include "model/sam3/weights.h"

namespace npuseg::sam3 {

using compute::Exec;
using core::ConstMatrixView;
using core::Matrix;
using core::MatrixView;
using core::Result;

namespace {
constexpr size_t kGroups = 8;
constexpr float kGroupNormEps = 1e-5f;
}  // namespace

Result<Matrix> run_pixel_decoder(const Model& model, const Exec& exec,
                                 const std::vector<Matrix>& levels, ConstMatrixView memory,
                                 ConstMatrixView prompt) {
  const auto& weights = model.weights().mask;
  const auto& config = model.config();
  const size_t d = config.hidden_size;
  exec.call->begin_stage(static_cast<uint32_t>(Stage::kMaskDecoder), levels.size() + 1);

  NPUSEG_ASSIGN_OR_RETURN(Matrix x, Matrix::make(exec.budget, memory.rows, d, "pixel map"));
  {
    NPUSEG_ASSIGN_OR_RETURN(Matrix normed, Matrix::make(exec.budget, memory.rows, d, "pixel map"));
    NPUSEG_RETURN_IF_ERROR(
        compute::layer_norm(exec, memory, weights.prompt_cross_attn_norm, normed.view()));
    AttentionInputs inputs{normed.view(), prompt, prompt};
    inputs.heads = config.mask_heads;
    NPUSEG_RETURN_IF_ERROR(
        attention_block(exec, inputs, weights.prompt_cross_attn, memory, x.view()));
  }
  exec.call->advance();
  size_t side = config.map_side();
  for (size_t j = 0; j + 1 < levels.size(); ++j) {
    const size_t level = levels.size() - 2 - j;
    const size_t larger = config.level_side(level);
    NPUSEG_ASSIGN_OR_RETURN(Matrix sum, Matrix::make(exec.budget, larger * larger, d, "pixel map"));
    NPUSEG_RETURN_IF_ERROR(compute::upsample_add(exec, x.view(), side, side, levels[level].view(),
                                                 larger, larger, sum.view()));
    x = Matrix();
    NPUSEG_ASSIGN_OR_RETURN(x, Matrix::make(exec.budget, larger * larger, d, "pixel map"));
    compute::Epilogue epilogue;
    epilogue.bias = weights.conv_layers[j].bias;
    NPUSEG_RETURN_IF_ERROR(compute::conv3x3(exec, sum.view(), larger, larger,
                                            weights.conv_layers[j].weight, x.view(), epilogue));
    NPUSEG_RETURN_IF_ERROR(compute::group_norm(exec, x.view(), kGroups, weights.norms[j].weight,
                                               weights.norms[j].bias, kGroupNormEps, true,
                                               x.view()));
    side = larger;
    exec.call->advance();
  }
  return x;
}

Result<Matrix> run_mask_head(const Model& model, const Exec& exec, ConstMatrixView hidden,
                             std::span<const uint32_t> rows, ConstMatrixView pixel_embedding) {
  const auto& weights = model.weights().mask;
  const size_t d = hidden.cols;
  const size_t count = rows.size();
  NPUSEG_ASSIGN_OR_RETURN(Matrix chosen, Matrix::make(exec.budget, count, d, "mask queries"));
  for (size_t i = 0; i < count; ++i) {
    std::memcpy(chosen.view().row(i), hidden.row(rows[i]), d * sizeof(float));
  }
  NPUSEG_ASSIGN_OR_RETURN(Matrix embedded, Matrix::make(exec.budget, count, d, "mask embedding"));
  NPUSEG_RETURN_IF_ERROR(relu_head(exec, chosen.view(), weights.mask_embedder, embedded.view()));

  core::TensorView flat = weights.instance_projection.weight;
  flat.shape = {d, d};
  NPUSEG_ASSIGN_OR_RETURN(const Matrix projection, to_matrix(exec, flat, "instance projection"));
  std::vector<float> bias(d);
  compute::widen(weights.instance_projection.bias, 0, d, bias.data());
  // folded[k, c] = sum_o embedded[k, o] * W_inst[o, c]; the constant joins every pixel of mask k.
  NPUSEG_ASSIGN_OR_RETURN(Matrix folded, Matrix::make(exec.budget, count, d, "mask embedding"));
  std::vector<float> constant(count);
  NPUSEG_RETURN_IF_ERROR(core::parallel_for(*exec.call, count, [&](size_t k, int) {
    const float* row = embedded.view().row(k);
    compute::sgemm(1, d, d, 1.0f, row, d, projection.data(), d, false, 0.0f, folded.view().row(k),
                   d);
    double dot = 0.0;
    for (size_t o = 0; o < d; ++o) {
      dot += static_cast<double>(row[o]) * static_cast<double>(bias[o]);
    }
    constant[k] = static_cast<float>(dot);
  }));
  NPUSEG_ASSIGN_OR_RETURN(Matrix masks,
                          Matrix::make(exec.budget, count, pixel_embedding.rows, "mask logits"));
  NPUSEG_RETURN_IF_ERROR(compute::linear(exec, folded.view(), pixel_embedding, masks.view()));
  NPUSEG_RETURN_IF_ERROR(core::parallel_for(*exec.call, count, [&](size_t k, int) {
    float* row = masks.view().row(k);
    for (size_t i = 0; i < masks.cols(); ++i) row[i] += constant[k];
  }));
  exec.call->advance();
  return masks;
}

Result<Matrix> run_semantic_head(const Model& model, const Exec& exec,
                                 ConstMatrixView pixel_embedding) {
  const auto& projection = model.weights().mask.semantic_projection;
  NPUSEG_ASSIGN_OR_RETURN(Matrix semantic,
                          Matrix::make(exec.budget, 1, pixel_embedding.rows, "semantic map"));
  const MatrixView column{semantic.data(), pixel_embedding.rows, 1, 1};
  NPUSEG_RETURN_IF_ERROR(linear(exec, pixel_embedding, projection, column));
  return semantic;
}

}  // namespace npuseg::sam3

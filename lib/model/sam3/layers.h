// SPDX-License-Identifier: Apache-2.0
// Pieces that several stages share: a linear layer with weights from the file, an attention block
// over separate q, k, v inputs, a transformer MLP.
#pragma once

#include "checkpoint/sam3_config.h"
#include "compute/attention.h"
#include "compute/gemm.h"
#include "model/sam3/weights.h"

namespace npuseg::sam3 {

compute::Activation to_activation(checkpoint::HiddenAct act);

// out = x * W^T + b, optionally activated, plus residual.
core::Status linear(const compute::Exec& exec, core::ConstMatrixView x,
                    const LinearWeights& weights, core::MatrixView out,
                    compute::Activation activation = compute::Activation::kNone,
                    core::ConstMatrixView residual = {});

// out = residual + o_proj(attention(q_proj(q), k_proj(k), v_proj(v))). out may alias residual.
// `shape` gives heads, scale is head_dim^-0.5; bias parts and grid of `shape` are used as they are.
struct AttentionInputs {
  core::ConstMatrixView query;
  core::ConstMatrixView key;
  core::ConstMatrixView value;
  size_t heads = 1;
  bool causal = false;
  const float* bias_y = nullptr;
  const float* bias_x = nullptr;
  size_t grid_height = 0;
  size_t grid_width = 0;
};
core::Status attention_block(const compute::Exec& exec, const AttentionInputs& inputs,
                             const AttentionWeights& weights, core::ConstMatrixView residual,
                             core::MatrixView out);
// The same where key and value of `inputs` are projected already.
core::Status attend_projected(const compute::Exec& exec, const AttentionInputs& inputs,
                              const AttentionWeights& weights, core::ConstMatrixView residual,
                              core::MatrixView out);

// out = residual + fc2(act(fc1(x))). out may alias residual.
core::Status mlp_block(const compute::Exec& exec, core::ConstMatrixView x,
                       const MlpWeights& weights, compute::Activation activation,
                       core::ConstMatrixView residual, core::MatrixView out);

// Linear, relu, ..., Linear: no activation behind the last layer.
template <size_t kCount>
core::Status relu_head(const compute::Exec& exec, core::ConstMatrixView x,
                       const LinearWeights (&layers)[kCount], core::MatrixView out);

// A stored [rows, cols] float tensor as float32.
core::Result<core::Matrix> to_matrix(const compute::Exec& exec, const core::TensorView& tensor,
                                     const char* what);

// NaN or infinity in a stage's output (weights too large for float32): CORRUPT_DATA naming it.
core::Status check_finite(core::ConstMatrixView values, const char* stage);

template <size_t kCount>
core::Status relu_head(const compute::Exec& exec, core::ConstMatrixView x,
                       const LinearWeights (&layers)[kCount], core::MatrixView out) {
  core::Matrix hidden;
  core::ConstMatrixView input = x;
  for (size_t i = 0; i + 1 < kCount; ++i) {
    NPUSEG_ASSIGN_OR_RETURN(
        core::Matrix next,
        core::Matrix::make(exec.budget, x.rows, layers[i].weight.shape[0], "head activations"));
    NPUSEG_RETURN_IF_ERROR(linear(exec, input, layers[i], next.view(), compute::Activation::kRelu));
    hidden = std::move(next);
    input = hidden.view();
  }
  return linear(exec, input, layers[kCount - 1], out);
}

}  // namespace npuseg::sam3

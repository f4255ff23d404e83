// SPDX-License-Identifier: Apache-2.0
#include "model/sam3/layers.h"

#include <cmath>

#include "compute/elementwise.h"

namespace npuseg::sam3 {

using compute::Exec;
using core::ConstMatrixView;
using core::Matrix;
using core::MatrixView;
using core::Result;
using core::Status;

compute::Activation to_activation(checkpoint::HiddenAct act) {
  switch (act) {
    case checkpoint::HiddenAct::kRelu:
      return compute::Activation::kRelu;
    case checkpoint::HiddenAct::kGelu:
      return compute::Activation::kGelu;
    case checkpoint::HiddenAct::kQuickGelu:
      return compute::Activation::kQuickGelu;
    case checkpoint::HiddenAct::kGeluTanh:
      return compute::Activation::kGeluTanh;
    case checkpoint::HiddenAct::kSilu:
      return compute::Activation::kSilu;
  }
  return compute::Activation::kNone;
}

Status linear(const Exec& exec, ConstMatrixView x, const LinearWeights& weights, MatrixView out,
              compute::Activation activation, ConstMatrixView residual) {
  compute::Epilogue epilogue;
  epilogue.bias = weights.bias;
  epilogue.activation = activation;
  epilogue.residual = residual;
  return compute::linear(exec, x, weights.weight, out, epilogue);
}

Status attention_block(const Exec& exec, const AttentionInputs& inputs,
                       const AttentionWeights& weights, ConstMatrixView residual, MatrixView out) {
  const size_t size = weights.q_proj.weight.shape[0];
  NPUSEG_ASSIGN_OR_RETURN(Matrix key_value,
                          Matrix::make(exec.budget, inputs.key.rows, 2 * size, "attention keys"));
  const MatrixView key = key_value.view().columns(0, size);
  const MatrixView value = key_value.view().columns(size, size);
  NPUSEG_RETURN_IF_ERROR(linear(exec, inputs.key, weights.k_proj, key));
  NPUSEG_RETURN_IF_ERROR(linear(exec, inputs.value, weights.v_proj, value));
  AttentionInputs projected = inputs;
  projected.key = key;
  projected.value = value;
  return attend_projected(exec, projected, weights, residual, out);
}

Status attend_projected(const Exec& exec, const AttentionInputs& inputs,
                        const AttentionWeights& weights, ConstMatrixView residual, MatrixView out) {
  const size_t size = weights.q_proj.weight.shape[0];
  NPUSEG_ASSIGN_OR_RETURN(Matrix query,
                          Matrix::make(exec.budget, inputs.query.rows, size, "attention queries"));
  NPUSEG_RETURN_IF_ERROR(linear(exec, inputs.query, weights.q_proj, query.view()));
  compute::Attention args;
  args.query = query.data();
  args.key = inputs.key.data;
  args.value = inputs.value.data;
  args.out = query.data();
  args.query_stride = size;
  args.key_stride = inputs.key.stride;
  args.value_stride = inputs.value.stride;
  args.out_stride = size;
  args.queries = inputs.query.rows;
  args.keys = inputs.key.rows;
  args.heads = inputs.heads;
  args.head_dim = size / inputs.heads;
  args.scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(args.head_dim)));
  args.causal = inputs.causal;
  args.bias_y = inputs.bias_y;
  args.bias_x = inputs.bias_x;
  args.grid_height = inputs.grid_height;
  args.grid_width = inputs.grid_width;
  NPUSEG_RETURN_IF_ERROR(compute::attention(exec, args));
  return linear(exec, query.view(), weights.o_proj, out, compute::Activation::kNone, residual);
}

Status mlp_block(const Exec& exec, ConstMatrixView x, const MlpWeights& weights,
                 compute::Activation activation, ConstMatrixView residual, MatrixView out) {
  NPUSEG_ASSIGN_OR_RETURN(
      Matrix hidden,
      Matrix::make(exec.budget, x.rows, weights.fc1.weight.shape[0], "MLP activations"));
  NPUSEG_RETURN_IF_ERROR(linear(exec, x, weights.fc1, hidden.view(), activation));
  return linear(exec, hidden.view(), weights.fc2, out, compute::Activation::kNone, residual);
}

Result<Matrix> to_matrix(const Exec& exec, const core::TensorView& tensor, const char* what) {
  const size_t rows = tensor.shape[0];
  NPUSEG_ASSIGN_OR_RETURN(Matrix matrix,
                          Matrix::make(exec.budget, rows, tensor.shape.elements() / rows, what));
  compute::widen(tensor, 0, tensor.shape.elements(), matrix.data());
  return matrix;
}

Status check_finite(ConstMatrixView values, const char* stage) {
  for (size_t r = 0; r < values.rows; ++r) {
    core::TensorView row;
    row.data = values.row(r);
    row.shape = {values.cols};
    const size_t bad = compute::find_non_finite(row);
    if (bad < values.cols) {
      return Status(core::Code::kCorruptData,
                    core::format("cannot compute: %s: value [%zu, %zu] is not finite; the model's "
                                 "weights overflow float32, check or convert them again",
                                 stage, r, bad));
    }
  }
  return {};
}

}  // namespace npuseg::sam3

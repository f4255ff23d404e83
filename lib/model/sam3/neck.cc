// SPDX-License-Identifier: Apache-2.0
#include "model/sam3/neck.h"

#include "compute/conv.h"
#include "model/sam3/layers.h"
#include "model/sam3/weights.h"

namespace npuseg::sam3 {

using compute::Exec;
using core::ConstMatrixView;
using core::Matrix;
using core::Result;

namespace {

Result<Matrix> run_level(const Model& model, const Exec& exec, ConstMatrixView vit, size_t index) {
  const FpnLayerWeights& level = model.weights().fpn[index];
  const size_t d = model.config().hidden_size;
  size_t side = model.config().vit.grid();
  Matrix scaled;
  ConstMatrixView map = vit;
  if (model.config().scale_factors[index] == 0.5) {
    NPUSEG_ASSIGN_OR_RETURN(
        scaled, Matrix::make(exec.budget, (side / 2) * (side / 2), vit.cols, "FPN map"));
    NPUSEG_RETURN_IF_ERROR(compute::max_pool2x2(exec, vit, side, side, scaled.view()));
    side /= 2;
    map = scaled.view();
  }
  for (size_t i = 0; i < level.scale_layers.size(); ++i) {
    const LinearWeights& layer = level.scale_layers[i];
    NPUSEG_ASSIGN_OR_RETURN(Matrix larger, Matrix::make(exec.budget, 4 * side * side,
                                                        layer.weight.shape[1], "FPN map"));
    compute::Epilogue epilogue;
    epilogue.bias = layer.bias;
    // The one activation of the neck sits between the two transposed convolutions.
    if (i + 1 < level.scale_layers.size()) epilogue.activation = compute::Activation::kGelu;
    NPUSEG_RETURN_IF_ERROR(
        compute::conv_transpose2x2(exec, map, side, side, layer.weight, larger.view(), epilogue));
    side *= 2;
    scaled = std::move(larger);
    map = scaled.view();
  }
  NPUSEG_ASSIGN_OR_RETURN(Matrix projected, Matrix::make(exec.budget, side * side, d, "FPN map"));
  NPUSEG_RETURN_IF_ERROR(linear(exec, map, level.proj1, projected.view()));
  scaled = Matrix();
  NPUSEG_ASSIGN_OR_RETURN(Matrix out, Matrix::make(exec.budget, side * side, d, "FPN level"));
  compute::Epilogue epilogue;
  epilogue.bias = level.proj2.bias;
  NPUSEG_RETURN_IF_ERROR(compute::conv3x3(exec, projected.view(), side, side, level.proj2.weight,
                                          out.view(), epilogue));
  return out;
}

}  // namespace

Result<std::vector<Matrix>> run_neck(const Model& model, const Exec& exec, ConstMatrixView vit) {
  const size_t count = model.config().kept_levels();
  exec.call->begin_stage(static_cast<uint32_t>(Stage::kNeck), count);
  std::vector<Matrix> levels(count);
  for (size_t i = 0; i < count; ++i) {
    NPUSEG_ASSIGN_OR_RETURN(levels[i], run_level(model, exec, vit, i));
    exec.call->advance();
  }
  return levels;
}

}  // namespace npuseg::sam3

// SPDX-License-Identifier: Apache-2.0
#include "model/embeddinggemma2/soft_tokens.h"

#include <algorithm>
#include <cmath>

#include "compute/rms_norm.h"
#include "model/embeddinggemma2/weights.h"

namespace npuseg::embeddinggemma2 {

using compute::Exec;
using core::ConstMatrixView;
using core::Matrix;
using core::Result;

Result<Matrix> pool_patches(const Exec& exec, ConstMatrixView tokens, size_t grid_width,
                            size_t pooling) {
  const size_t side = pooling;
  const size_t across = grid_width / side;
  const size_t hidden = tokens.cols;
  const auto members = static_cast<float>(side * side);
  const auto root = static_cast<float>(std::sqrt(static_cast<double>(hidden)));
  NPUSEG_ASSIGN_OR_RETURN(Matrix pooled, Matrix::make(exec.budget, tokens.rows / (side * side),
                                                      hidden, "pooled patches"));
  NPUSEG_RETURN_IF_ERROR(core::parallel_for(
      *exec.call, pooled.rows(),
      [&](size_t cell, int) {
        float* out = pooled.view().row(cell);
        std::fill_n(out, hidden, 0.0f);
        for (size_t y = 0; y < side; ++y) {
          for (size_t x = 0; x < side; ++x) {
            const float* from =
                tokens.row((cell / across * side + y) * grid_width + cell % across * side + x);
            for (size_t i = 0; i < hidden; ++i) out[i] += from[i];
          }
        }
        for (size_t i = 0; i < hidden; ++i) out[i] = out[i] / members * root;
      },
      static_cast<double>(tokens.rows * hidden)));
  return pooled;
}

Result<Matrix> project_soft_tokens(const Model& model, const Exec& exec, ConstMatrixView pooled) {
  NPUSEG_ASSIGN_OR_RETURN(Matrix normed,
                          Matrix::make(exec.budget, pooled.rows, pooled.cols, "pooled patches"));
  NPUSEG_RETURN_IF_ERROR(
      compute::rms_norm(exec, pooled, {{}, model.config().vision->rms_norm_eps}, normed.view()));
  NPUSEG_ASSIGN_OR_RETURN(
      Matrix soft,
      Matrix::make(exec.budget, pooled.rows, model.config().text.hidden_size, "soft tokens"));
  NPUSEG_RETURN_IF_ERROR(compute::linear(exec, normed.view(),
                                         model.weights().vision.embedding_projection, soft.view()));
  return soft;
}

}  // namespace npuseg::embeddinggemma2

// SPDX-License-Identifier: Apache-2.0
#include "model/sam3/scoring.h"

#include <algorithm>
#include <cmath>

#include "compute/norm.h"
#include "model/sam3/layers.h"
#include "model/sam3/weights.h"

namespace npuseg::sam3 {

using compute::Exec;
using core::ConstMatrixView;
using core::Matrix;
using core::MatrixView;
using core::Result;

Result<std::vector<float>> run_scoring(const Graph& graph, const Exec& exec, ConstMatrixView hidden,
                                       ConstMatrixView prompt) {
  const auto& weights = graph.weights().scoring;
  const size_t d = prompt.cols;
  NPUSEG_ASSIGN_OR_RETURN(Matrix text, Matrix::make(exec.budget, prompt.rows, d, "scoring text"));
  NPUSEG_ASSIGN_OR_RETURN(
      Matrix inner,
      Matrix::make(exec.budget, prompt.rows, weights.text_mlp[0].weight.shape[0], "scoring text"));
  NPUSEG_RETURN_IF_ERROR(
      linear(exec, prompt, weights.text_mlp[0], inner.view(), compute::Activation::kRelu));
  NPUSEG_RETURN_IF_ERROR(linear(exec, inner.view(), weights.text_mlp[1], text.view(),
                                compute::Activation::kNone, prompt));
  NPUSEG_RETURN_IF_ERROR(
      compute::layer_norm(exec, text.view(), weights.text_mlp_out_norm, text.view()));

  NPUSEG_ASSIGN_OR_RETURN(Matrix means, Matrix::make(exec.budget, 2, d, "scoring text"));
  const MatrixView mean = means.view().row_range(0, 1);
  const MatrixView projected = means.view().row_range(1, 1);
  for (size_t c = 0; c < d; ++c) {
    double sum = 0.0;
    for (size_t r = 0; r < text.rows(); ++r) sum += static_cast<double>(text.view().row(r)[c]);
    mean.data[c] = static_cast<float>(sum / static_cast<double>(text.rows()));
  }
  NPUSEG_RETURN_IF_ERROR(linear(exec, mean, weights.text_proj, projected));

  NPUSEG_ASSIGN_OR_RETURN(Matrix queries,
                          Matrix::make(exec.budget, hidden.rows, d, "scoring queries"));
  NPUSEG_RETURN_IF_ERROR(linear(exec, hidden, weights.query_proj, queries.view()));
  std::vector<float> logits(hidden.rows);
  const double scale = 1.0 / std::sqrt(static_cast<double>(d));
  for (size_t q = 0; q < logits.size(); ++q) {
    double dot = 0.0;
    const float* row = queries.view().row(q);
    for (size_t c = 0; c < d; ++c) {
      dot += static_cast<double>(row[c]) * static_cast<double>(projected.data[c]);
    }
    logits[q] = static_cast<float>(dot * scale);
  }
  NPUSEG_RETURN_IF_ERROR(
      check_finite(ConstMatrixView{logits.data(), 1, logits.size(), logits.size()}, "scoring"));
  for (float& logit : logits) logit = std::clamp(logit, -12.0f, 12.0f);
  return logits;
}

}  // namespace npuseg::sam3

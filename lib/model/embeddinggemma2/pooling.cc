// SPDX-License-Identifier: Apache-2.0
#include "model/embeddinggemma2/pooling.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace npuseg::embeddinggemma2 {

using compute::Exec;
using core::ConstMatrixView;
using core::Matrix;
using core::MatrixView;
using core::Result;
using core::Status;

namespace {

// The reference's guard against a vector of zeros.
constexpr double kLeastLength = 1e-12;

void to_unit_length(const float* in, size_t count, float* out) {
  double squares = 0.0;
  for (size_t i = 0; i < count; ++i) {
    const auto v = static_cast<double>(in[i]);
    squares += v * v;
  }
  const double length = std::max(std::sqrt(squares), kLeastLength);
  for (size_t i = 0; i < count; ++i) {
    out[i] = static_cast<float>(static_cast<double>(in[i]) / length);
  }
}

}  // namespace

Result<Matrix> pool_tokens(const Exec& exec, const compute::RmsNorm& norm, ConstMatrixView tokens,
                           std::span<const size_t> starts) {
  NPUSEG_ASSIGN_OR_RETURN(Matrix normed,
                          Matrix::make(exec.budget, tokens.rows, tokens.cols, "text activations"));
  NPUSEG_RETURN_IF_ERROR(compute::rms_norm(exec, tokens, norm, normed.view()));
  const size_t sequences = starts.size() - 1;
  NPUSEG_ASSIGN_OR_RETURN(Matrix pooled,
                          Matrix::make(exec.budget, sequences, tokens.cols, "pooled tokens"));
  NPUSEG_RETURN_IF_ERROR(core::parallel_for(
      *exec.call, sequences,
      [&](size_t s, int) {
        std::vector<double> sums(tokens.cols, 0.0);
        for (size_t r = starts[s]; r < starts[s + 1]; ++r) {
          const float* row = normed.view().row(r);
          for (size_t i = 0; i < tokens.cols; ++i) sums[i] += static_cast<double>(row[i]);
        }
        const auto count = static_cast<double>(starts[s + 1] - starts[s]);
        float* out = pooled.view().row(s);
        for (size_t i = 0; i < tokens.cols; ++i) out[i] = static_cast<float>(sums[i] / count);
      },
      static_cast<double>(tokens.rows * tokens.cols)));
  return pooled;
}

Status project_embeddings(const Exec& exec, const core::TensorView& projection,
                          ConstMatrixView pooled, MatrixView out) {
  NPUSEG_RETURN_IF_ERROR(compute::linear(exec, pooled, projection, out));
  for (size_t r = 0; r < out.rows; ++r) to_unit_length(out.row(r), out.cols, out.row(r));
  return {};
}

void shorten(std::span<const float> vector, size_t dims, float* out) {
  to_unit_length(vector.data(), std::min(dims, vector.size()), out);
}

}  // namespace npuseg::embeddinggemma2

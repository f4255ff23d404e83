// SPDX-License-Identifier: Apache-2.0
#include "model/sam3/npu_fold.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "compute/elementwise.h"
#include "model/sam3/layers.h"

namespace npuseg::sam3 {

using bundle::PackedLayout;
using compute::Exec;
using core::ConstMatrixView;
using core::Matrix;
using core::MatrixView;
using core::Result;
using core::Status;

namespace {

std::vector<float> bias_of(const LinearWeights& weights, size_t count) {
  std::vector<float> bias(count, 0.0f);
  if (!weights.bias.empty()) compute::widen(weights.bias, 0, count, bias.data());
  return bias;
}

// Rows of a linear layer's output for [prompt ; zeros], as many as out has.
Status project(const Exec& exec, ConstMatrixView prompt, const LinearWeights& weights,
               MatrixView out) {
  NPUSEG_RETURN_IF_ERROR(linear(exec, prompt, weights, out.row_range(0, prompt.rows)));
  const std::vector<float> bias = bias_of(weights, out.cols);
  for (size_t r = prompt.rows; r < out.rows; ++r) std::copy(bias.begin(), bias.end(), out.row(r));
  return {};
}

void add_scaled(const float* from, float factor, float* sums, size_t count) {
  for (size_t i = 0; i < count; ++i) sums[i] += from[i] * factor;
}

// columns [N, K]: one column of B a row.
Result<PackedBytes> pack(const PackedLayout& layout, ConstMatrixView b, bool rows_are_columns,
                         const std::vector<float>& bias, const char* what) {
  NPUSEG_RETURN_IF_ERROR(check_finite(b, what));
  NPUSEG_RETURN_IF_ERROR(check_finite({bias.data(), 1, bias.size(), bias.size()}, what));
  PackedBytes packed(layout.bytes());
  NPUSEG_RETURN_IF_ERROR(bundle::pack_matrix(layout, b.data, rows_are_columns ? 1 : b.stride,
                                             rows_are_columns ? b.stride : 1, bias.data(), packed));
  return packed;
}

}  // namespace

Result<FoldedPrompt> fold_prompt(const Exec& exec, const AttentionWeights& weights, size_t heads,
                                 size_t length, const PackedLayout& s, const PackedLayout& c,
                                 ConstMatrixView prompt) {
  const size_t d = prompt.cols;
  const size_t head = d / heads;
  if (prompt.rows > length) {
    return Status(core::Code::kInvalidArgument,
                  core::format("cannot encode text: %zu tokens, the bundle takes %zu; shorten the "
                               "prompt",
                               prompt.rows, length));
  }
  NPUSEG_ASSIGN_OR_RETURN(Matrix keys, Matrix::make(exec.budget, length, d, "prompt keys"));
  NPUSEG_ASSIGN_OR_RETURN(Matrix values, Matrix::make(exec.budget, length, d, "prompt values"));
  NPUSEG_RETURN_IF_ERROR(project(exec, prompt, weights.k_proj, keys.view()));
  NPUSEG_RETURN_IF_ERROR(project(exec, prompt, weights.v_proj, values.view()));
  NPUSEG_ASSIGN_OR_RETURN(const Matrix query,
                          to_matrix(exec, weights.q_proj.weight, "prompt attention"));
  NPUSEG_ASSIGN_OR_RETURN(const Matrix out,
                          to_matrix(exec, weights.o_proj.weight, "prompt attention"));
  NPUSEG_ASSIGN_OR_RETURN(Matrix inputs, Matrix::make(exec.budget, d, d, "prompt attention"));
  for (size_t r = 0; r < d; ++r) {
    for (size_t i = 0; i < d; ++i) inputs.view().row(i)[r] = out.view().row(r)[i];
  }
  const std::vector<float> query_bias = bias_of(weights.q_proj, d);
  const float scale = 1.0f / std::sqrt(static_cast<float>(head));
  const size_t columns = heads * length;
  NPUSEG_ASSIGN_OR_RETURN(Matrix scores, Matrix::make(exec.budget, columns, d, "folded prompt"));
  NPUSEG_ASSIGN_OR_RETURN(Matrix context, Matrix::make(exec.budget, columns, d, "folded prompt"));
  std::vector<float> score_bias(columns, 0.0f);
  NPUSEG_RETURN_IF_ERROR(core::parallel_for(
      *exec.call, columns,
      [&](size_t column, int) {
        const size_t first = column / length * head;
        const float* key = keys.view().row(column % length);
        const float* value = values.view().row(column % length);
        float* score = scores.view().row(column);
        float* part = context.view().row(column);
        std::fill_n(score, d, 0.0f);
        std::fill_n(part, d, 0.0f);
        float bias = 0.0f;
        for (size_t e = first; e < first + head; ++e) {
          add_scaled(query.view().row(e), key[e], score, d);
          add_scaled(inputs.view().row(e), value[e], part, d);
          bias += query_bias[e] * key[e];
        }
        for (size_t i = 0; i < d; ++i) score[i] *= scale;
        score_bias[column] = bias * scale;
      },
      static_cast<double>(columns * head * d)));
  FoldedPrompt folded;
  NPUSEG_ASSIGN_OR_RETURN(folded.scores,
                          pack(s, scores.view(), true, score_bias, "prompt attention"));
  NPUSEG_ASSIGN_OR_RETURN(folded.context, pack(c, context.view(), false, bias_of(weights.o_proj, d),
                                               "prompt attention"));
  return folded;
}

Result<PackedBytes> fold_masks(const Exec& exec, const Weights& weights, const PackedLayout& layout,
                               ConstMatrixView hidden, std::span<const uint32_t> queries) {
  const size_t d = hidden.cols;
  const size_t count = queries.size();
  NPUSEG_ASSIGN_OR_RETURN(Matrix b, Matrix::make(exec.budget, layout.n, d, "mask weights"));
  std::memset(b.data(), 0, layout.n * d * sizeof(float));
  std::vector<float> bias(layout.n, 0.0f);
  if (count != 0) {
    NPUSEG_ASSIGN_OR_RETURN(Matrix chosen, Matrix::make(exec.budget, count, d, "mask queries"));
    for (size_t i = 0; i < count; ++i) {
      std::memcpy(chosen.view().row(i), hidden.row(queries[i]), d * sizeof(float));
    }
    NPUSEG_ASSIGN_OR_RETURN(Matrix embedded, Matrix::make(exec.budget, count, d, "mask embedding"));
    NPUSEG_RETURN_IF_ERROR(
        relu_head(exec, chosen.view(), weights.mask.mask_embedder, embedded.view()));
    const LinearWeights& instance = weights.mask.instance_projection;
    NPUSEG_ASSIGN_OR_RETURN(const Matrix projection,
                            to_matrix(exec, instance.weight, "instance projection"));
    const std::vector<float> instance_bias = bias_of(instance, d);
    NPUSEG_RETURN_IF_ERROR(core::parallel_for(
        *exec.call, count,
        [&](size_t i, int) {
          const float* embedding = embedded.view().row(i);
          float* column = b.view().row(queries[i]);
          float constant = 0.0f;
          for (size_t o = 0; o < d; ++o) {
            add_scaled(projection.view().row(o), embedding[o], column, d);
            constant += embedding[o] * instance_bias[o];
          }
          bias[queries[i]] = constant;
        },
        static_cast<double>(count * d * d)));
  }
  compute::widen(weights.mask.semantic_projection.weight, 0, d, b.view().row(hidden.rows));
  bias[hidden.rows] = bias_of(weights.mask.semantic_projection, 1)[0];
  return pack(layout, b.view(), true, bias, "mask head");
}

}  // namespace npuseg::sam3

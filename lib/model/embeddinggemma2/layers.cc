// SPDX-License-Identifier: Apache-2.0
#include "model/embeddinggemma2/layers.h"

#include <algorithm>
#include <utility>

#include "compute/attention.h"
#include "compute/elementwise.h"
#include "compute/gated.h"
#include "compute/rms_norm.h"

namespace npuseg::embeddinggemma2 {

using compute::Exec;
using core::ConstMatrixView;
using core::Matrix;
using core::MatrixView;
using core::Result;
using core::Status;
using core::TensorView;

namespace {

// Tokens whose MLP activations exist at a time: the widest matrices of a layer.
constexpr size_t kMlpBand = 1280;

size_t band_rows(size_t tokens) {
  const size_t bands = (tokens + kMlpBand - 1) / kMlpBand;
  return bands == 0 ? 0 : (tokens + bands - 1) / bands;
}

MatrixView first_rows(Matrix& matrix, size_t rows) { return matrix.view().row_range(0, rows); }

// h += norm(branch)
Status add_normed(const Exec& exec, ConstMatrixView branch, const TensorView& gamma, float eps,
                  MatrixView h) {
  compute::RmsNormOptions options;
  options.residual = h;
  return compute::rms_norm(exec, branch, {gamma, eps}, h, options);
}

Status norm_heads(const Exec& exec, MatrixView x, size_t heads, const TensorView& gamma,
                  float eps) {
  compute::RmsNormOptions options;
  options.runs = heads;
  return compute::rms_norm(exec, x, {gamma, eps}, x, options);
}

}  // namespace

Result<LayerWork> LayerWork::make(const Exec& exec, size_t tokens, size_t hidden, size_t qkv_width,
                                  size_t intermediate) {
  LayerWork work;
  const char* what = "layer activations";
  NPUSEG_ASSIGN_OR_RETURN(work.normed, Matrix::make(exec.budget, tokens, hidden, what));
  NPUSEG_ASSIGN_OR_RETURN(work.branch, Matrix::make(exec.budget, tokens, hidden, what));
  NPUSEG_ASSIGN_OR_RETURN(work.qkv, Matrix::make(exec.budget, tokens, qkv_width, what));
  NPUSEG_ASSIGN_OR_RETURN(work.inner,
                          Matrix::make(exec.budget, band_rows(tokens), 2 * intermediate, what));
  return work;
}

Status attention_block(const Exec& exec, const LayerWeights& weights, const LayerShape& shape,
                       MatrixView h, LayerWork* work) {
  const MatrixView normed = first_rows(work->normed, h.rows);
  const MatrixView branch = first_rows(work->branch, h.rows);
  const MatrixView qkv = first_rows(work->qkv, h.rows);
  const size_t q_width = shape.heads * shape.head_dim;
  const size_t kv_width = shape.kv_heads * shape.head_dim;
  const MatrixView query = qkv.columns(0, q_width);
  const MatrixView key = qkv.columns(q_width, kv_width);
  const MatrixView value = qkv.columns(q_width + kv_width, kv_width);
  NPUSEG_RETURN_IF_ERROR(compute::rms_norm(exec, h, {weights.input_layernorm, shape.eps}, normed));
  NPUSEG_RETURN_IF_ERROR(compute::linear(exec, normed, weights.q_proj, query));
  NPUSEG_RETURN_IF_ERROR(compute::linear(exec, normed, weights.k_proj, key));
  NPUSEG_RETURN_IF_ERROR(compute::linear(exec, normed, weights.v_proj, value));
  NPUSEG_RETURN_IF_ERROR(norm_heads(exec, query, shape.heads, weights.q_norm, shape.eps));
  NPUSEG_RETURN_IF_ERROR(norm_heads(exec, key, shape.kv_heads, weights.k_norm, shape.eps));
  NPUSEG_RETURN_IF_ERROR(norm_heads(exec, value, shape.kv_heads, {}, shape.eps));
  NPUSEG_RETURN_IF_ERROR(
      compute::rope_halves(exec, query, shape.heads, shape.axes, *shape.rope, shape.positions));
  NPUSEG_RETURN_IF_ERROR(
      compute::rope_halves(exec, key, shape.kv_heads, shape.axes, *shape.rope, shape.positions));

  // No 1/sqrt(head_dim): the normed queries and keys stand for it.
  compute::Attention args;
  args.query = query.data;
  args.key = key.data;
  args.value = value.data;
  args.out = query.data;
  args.query_stride = args.key_stride = args.value_stride = args.out_stride = qkv.stride;
  args.batch = shape.starts.size() - 1;
  args.starts = shape.starts.data();
  args.heads = shape.heads;
  args.key_heads = shape.kv_heads;
  args.head_dim = shape.head_dim;
  args.radius = shape.radius;
  NPUSEG_RETURN_IF_ERROR(compute::attention(exec, args));
  NPUSEG_RETURN_IF_ERROR(compute::linear(exec, query, weights.o_proj, branch));
  return add_normed(exec, branch, weights.post_attention_layernorm, shape.eps, h);
}

Status mlp_block(const Exec& exec, const LayerWeights& weights, const LayerShape& shape,
                 MatrixView h, LayerWork* work) {
  const size_t inner = weights.gate_proj.shape[0];
  const size_t band = band_rows(h.rows);
  for (size_t first = 0; first < h.rows; first += band) {
    const size_t rows = std::min(band, h.rows - first);
    const MatrixView part = h.row_range(first, rows);
    const MatrixView normed = first_rows(work->normed, rows);
    const MatrixView branch = first_rows(work->branch, rows);
    const MatrixView both = first_rows(work->inner, rows);
    const MatrixView gate = both.columns(0, inner);
    const MatrixView up = both.columns(inner, inner);
    NPUSEG_RETURN_IF_ERROR(
        compute::rms_norm(exec, part, {weights.pre_feedforward_layernorm, shape.eps}, normed));
    NPUSEG_RETURN_IF_ERROR(compute::linear(exec, normed, weights.gate_proj, gate));
    NPUSEG_RETURN_IF_ERROR(compute::linear(exec, normed, weights.up_proj, up));
    NPUSEG_RETURN_IF_ERROR(compute::multiply_gated(exec, compute::Activation::kGeluTanh, gate, up));
    NPUSEG_RETURN_IF_ERROR(compute::linear(exec, gate, weights.down_proj, branch));
    NPUSEG_RETURN_IF_ERROR(
        add_normed(exec, branch, weights.post_feedforward_layernorm, shape.eps, part));
  }
  return {};
}

Status check_finite(ConstMatrixView values, const char* stage) {
  for (size_t r = 0; r < values.rows; ++r) {
    TensorView row;
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

}  // namespace npuseg::embeddinggemma2

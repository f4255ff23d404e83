// SPDX-License-Identifier: Apache-2.0
// Sequences on an NPU: ids and soft tokens -> unit vectors. Linear layers run on the device, norms
// and attention on the host (spec iron-bundle-embeddinggemma2.md, sections 12 and 13).
#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "compute/attention.h"
#include "compute/elementwise.h"
#include "compute/gated.h"
#include "model/embeddinggemma2/layers.h"
#include "model/embeddinggemma2/npu_kernels.h"
#include "model/embeddinggemma2/npu_model.h"
#include "model/embeddinggemma2/npu_rows.h"
#include "model/embeddinggemma2/npu_weights.h"
#include "model/embeddinggemma2/pooling.h"
#include "model/embeddinggemma2/rope_cache.h"
#include "model/embeddinggemma2/stage_timer.h"
#include "model/embeddinggemma2/text_embedder.h"

namespace npuseg::embeddinggemma2 {

using compute::Exec;
using core::Call;
using core::Code;
using core::format;
using core::Matrix;
using core::MatrixView;
using core::Result;
using core::Status;

namespace {

bool has_picture(const Sequence& sequence) {
  return std::any_of(sequence.begin(), sequence.end(),
                     [](const Part& part) { return part.soft_tokens.rows != 0; });
}

}  // namespace

Status NpuModel::check_input(const Sequence& sequence) const {
  const bool picture = has_picture(sequence);
  const size_t most = bundle_->gemma2().params.max_text_tokens;
  if (!picture && most == 0) {
    return {Code::kUnsupported,
            "cannot embed text: this bundle has no text path; use one exported with texts, or "
            "a checkpoint"};
  }
  const auto specials = picture ? special_.all() : std::vector<int64_t>();
  NPUSEG_ASSIGN_OR_RETURN(const size_t count, check_sequence(config_, sequence, specials));
  if (!picture && count > most) {
    return {Code::kLimitExceeded,
            format("cannot embed: %zu tokens, the bundle takes texts of at most %zu; shorten the "
                   "input",
                   count, most)};
  }
  return {};
}

void NpuModel::embed_id(int64_t id, bool beside_picture, float* out) const {
  const size_t width = config_.text.hidden_size;
  if (beside_picture) {
    const std::vector<int64_t> specials = special_.all();
    for (size_t i = 0; i < specials.size(); ++i) {
      if (id != specials[i]) continue;
      // Stored times sqrt(width) already.
      compute::widen(weights_->special, i * width, width, out);
      return;
    }
  }
  const float scale = std::sqrt(static_cast<float>(width));
  compute::widen(weights_->embeddings, static_cast<size_t>(id) * width, width, out);
  for (size_t i = 0; i < width; ++i) out[i] *= scale;
}

// qkv -> attention's output, in the columns of the queries.
Status NpuModel::text_attention(const Exec& exec, size_t layer, const PackedTokens& packed,
                                MatrixView qkv) const {
  const auto& text = config_.text;
  const auto& attention = text.attention(layer);
  const NpuWeights::TextLayer& weights = weights_->text[layer];
  const size_t q_width = text.q_width(layer);
  const size_t kv_width = text.kv_width(layer);
  const MatrixView q = qkv.columns(0, q_width);
  const MatrixView k = qkv.columns(q_width, kv_width);
  const MatrixView v = qkv.columns(q_width + kv_width, kv_width);
  const float eps = text.rms_norm_eps;
  compute::RmsNormOptions heads;
  heads.runs = text.heads;
  NPUSEG_RETURN_IF_ERROR(rms_rows(exec, q, {weights.q_norm, eps}, q, heads));
  heads.runs = attention.kv_heads;
  NPUSEG_RETURN_IF_ERROR(rms_rows(exec, k, {weights.k_norm, eps}, k, heads));
  NPUSEG_RETURN_IF_ERROR(rms_rows(exec, v, {{}, eps}, v, heads));
  const RopeCache& cache = text.is_full[layer] ? ropes_->full : ropes_->sliding;
  NPUSEG_ASSIGN_OR_RETURN(const auto rope, cache.get(*exec.call, packed.longest));
  NPUSEG_RETURN_IF_ERROR(rotate_rows(exec, q, text.heads, 1, *rope, packed.positions.data()));
  NPUSEG_RETURN_IF_ERROR(
      rotate_rows(exec, k, attention.kv_heads, 1, *rope, packed.positions.data()));
  compute::Attention args;
  args.query = q.data;
  args.key = k.data;
  args.value = v.data;
  args.out = q.data;
  args.query_stride = args.key_stride = args.value_stride = args.out_stride = qkv.stride;
  args.batch = packed.starts.size() - 1;
  args.starts = packed.starts.data();
  args.heads = text.heads;
  args.key_heads = attention.kv_heads;
  args.head_dim = attention.head_dim;
  if (!text.is_full[layer]) args.radius = text.sliding_window;
  return compute::attention(exec, args);
}

Status NpuModel::text_layer(const Exec& exec, size_t layer, const PackedTokens& packed,
                            MatrixView x, MatrixView branch, MatrixView gate,
                            MatrixView qkv) const {
  const auto& text = config_.text;
  const NpuWeights::TextLayer& weights = weights_->text[layer];
  NpuKernels& npu = *kernels_;
  Call& call = *exec.call;
  const size_t n = x.rows;
  const size_t width = text.hidden_size;
  const float eps = text.rms_norm_eps;
  compute::RmsNormOptions add;
  add.residual = x;

  NPUSEG_RETURN_IF_ERROR(rms_rows(exec, x, {{}, eps}, branch));
  NPUSEG_RETURN_IF_ERROR(npu.put(exec, branch, npu.text.a));
  NPUSEG_RETURN_IF_ERROR(npu.linear(exec, "t_qkv" + std::to_string(qkv.cols), weights.name + "qkv",
                                    npu.text.a, npu.text_qkv.find(qkv.cols)->second, qkv));
  NPUSEG_RETURN_IF_ERROR(text_attention(exec, layer, packed, qkv));
  const size_t q_width = text.q_width(layer);
  NPUSEG_RETURN_IF_ERROR(npu.put(exec, qkv.columns(0, q_width), npu.text.att));
  for (size_t s = 0; s < q_width / width; ++s) {
    NPUSEG_RETURN_IF_ERROR(npu.gemm(call, "t_o", weights.name + "o" + std::to_string(s),
                                    npu.text.att, s * width, npu.text.parts[s], n));
  }
  NPUSEG_RETURN_IF_ERROR(npu.get_sum(exec, npu.text, q_width / width, branch));
  NPUSEG_RETURN_IF_ERROR(rms_rows(exec, branch, {weights.post_attention, eps}, x, add));

  NPUSEG_RETURN_IF_ERROR(rms_rows(exec, x, {{}, eps}, branch));
  NPUSEG_RETURN_IF_ERROR(npu.put(exec, branch, npu.text.a));
  NPUSEG_RETURN_IF_ERROR(
      npu.gemm(call, "t_gu", weights.name + "gu", npu.text.a, 0, npu.text.gu, n));
  const size_t slices = text.intermediate_size / width;
  for (size_t s = 0; s < slices; ++s) {
    NPUSEG_RETURN_IF_ERROR(npu.gemm(call, "t_down", weights.name + "down" + std::to_string(s),
                                    npu.text.gu, s * width, npu.text.parts[s], n));
  }
  NPUSEG_RETURN_IF_ERROR(npu.get_sum(exec, npu.text, slices, branch));
  NPUSEG_RETURN_IF_ERROR(rms_rows(exec, branch, {weights.post_feedforward, eps}, x, add));

  // The gate reads x as it is; its kernel applies GELU.
  NPUSEG_RETURN_IF_ERROR(npu.put(exec, x, npu.text.a));
  NPUSEG_RETURN_IF_ERROR(
      npu.linear(exec, "t_pleg", weights.name + "pleg", npu.text.a, npu.text.c, gate));
  NPUSEG_RETURN_IF_ERROR(npu.get(exec, npu.per_layer, layer * width, branch));
  compute::RmsNormOptions scaled;
  scaled.input_scale = 1.0f / std::sqrt(static_cast<float>(width));
  NPUSEG_RETURN_IF_ERROR(rms_rows(exec, branch, {weights_->per_layer_norm, eps}, branch, scaled));
  NPUSEG_RETURN_IF_ERROR(compute::multiply_gated(exec, compute::Activation::kNone, gate, branch));
  NPUSEG_RETURN_IF_ERROR(npu.put(exec, gate, npu.text.a));
  NPUSEG_RETURN_IF_ERROR(
      npu.linear(exec, "t_plep", weights.name + "plep", npu.text.a, npu.text.c, branch));
  add.output_scale = weights.scalar;
  return rms_rows(exec, branch, {weights.post_per_layer, eps}, x, add);
}

Status NpuModel::embed_pack(const Exec& exec, std::span<const Sequence> sequences,
                            MatrixView out) const {
  const auto& text = config_.text;
  const size_t width = text.hidden_size;
  NPUSEG_ASSIGN_OR_RETURN(
      PackedTokens packed,
      pack_tokens(exec, width, sequences, [&](const Sequence& sequence, int64_t id, float* to) {
        embed_id(id, has_picture(sequence), to);
      }));
  const MatrixView x = packed.tokens.view();
  const size_t n = x.rows;
  const char* what = "text rows";
  NPUSEG_ASSIGN_OR_RETURN(Matrix branch, Matrix::make(exec.budget, n, width, what));
  NPUSEG_ASSIGN_OR_RETURN(Matrix gate, Matrix::make(exec.budget, n, width, what));
  NpuKernels& npu = *kernels_;
  // Inputs of all layers at once; they stay on the device until their layer comes.
  NPUSEG_RETURN_IF_ERROR(npu.put(exec, x, npu.text.a));
  NPUSEG_RETURN_IF_ERROR(npu.gemm(*exec.call, "t_ple", "t.ple", npu.text.a, 0, npu.per_layer, n));
  NPUSEG_RETURN_IF_ERROR(npu.get_ready(npu.per_layer, n));
  NPUSEG_ASSIGN_OR_RETURN(Matrix qkv,
                          Matrix::make(exec.budget, n, npu.text_qkv.rbegin()->first, what));
  for (size_t i = 0; i < text.layers; ++i) {
    const size_t columns = text.q_width(i) + 2 * text.kv_width(i);
    NPUSEG_RETURN_IF_ERROR(
        text_layer(exec, i, packed, x, branch.view(), gate.view(), qkv.view().columns(0, columns)));
    exec.call->advance();
  }
  NPUSEG_RETURN_IF_ERROR(check_finite(x, "text encoder"));
  NPUSEG_ASSIGN_OR_RETURN(const Matrix pooled,
                          pool_tokens(exec, {weights_->norm, text.rms_norm_eps}, x, packed.starts));
  return project_embeddings(exec, weights_->projection, pooled.view(), out);
}

Result<Matrix> NpuModel::embed(Call& call, std::span<const Sequence> sequences,
                               StageTimes* times) const {
  const StageTimer timer(times, Stage::kText);
  const Exec exec{&call, budget_};
  for (size_t s = 0; s < sequences.size(); ++s) {
    Status status = check_input(sequences[s]);
    if (!status.ok()) return std::move(status).with_context(format("input %zu", s));
  }
  // Rows do not depend on each other, so sequences share a run as far as the buffers reach.
  const std::vector<size_t> ends = pack_ends(sequences, bundle_->gemma2().params.t_rows);
  NPUSEG_ASSIGN_OR_RETURN(Matrix out, Matrix::make(budget_, sequences.size(),
                                                   config_.text.embedding_dim, "embeddings"));
  const std::lock_guard lock(mutex_);
  call.begin_stage(static_cast<uint32_t>(Stage::kText), ends.size() * config_.text.layers);
  size_t first = 0;
  for (const size_t end : ends) {
    NPUSEG_RETURN_IF_ERROR(embed_pack(exec, sequences.subspan(first, end - first),
                                      out.view().row_range(first, end - first)));
    first = end;
  }
  return out;
}

}  // namespace npuseg::embeddinggemma2

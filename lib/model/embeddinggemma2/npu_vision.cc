// SPDX-License-Identifier: Apache-2.0
// Pictures on an NPU: patches -> soft tokens (spec iron-bundle-embeddinggemma2.md, section 11).
#include <algorithm>
#include <vector>

#include "compute/elementwise.h"
#include "compute/row_bands.h"
#include "compute/simd_kernels.h"
#include "model/embeddinggemma2/layers.h"
#include "model/embeddinggemma2/npu_kernels.h"
#include "model/embeddinggemma2/npu_model.h"
#include "model/embeddinggemma2/npu_rows.h"
#include "model/embeddinggemma2/npu_weights.h"
#include "model/embeddinggemma2/rope_cache.h"
#include "model/embeddinggemma2/soft_tokens.h"
#include "model/embeddinggemma2/stage_timer.h"
#include "model/embeddinggemma2/vision_embedder.h"
#include "model/embeddinggemma2/vision_encoder.h"

namespace npuseg::embeddinggemma2 {

using compute::Exec;
using core::Call;
using core::Code;
using core::Matrix;
using core::MatrixView;
using core::Result;
using core::Status;

namespace {

// Attention takes powers of two.
constexpr float kLog2E = 1.44269504f;

}  // namespace

Status NpuModel::vision_layer(const Exec& exec, size_t layer, const compute::RopeTable& rope,
                              const int32_t* positions, MatrixView x, MatrixView branch,
                              MatrixView qkv) const {
  const auto& vision = *config_.vision;
  const NpuWeights::VisionLayer& weights = weights_->vision[layer];
  NpuKernels& npu = *kernels_;
  const size_t n = x.rows;
  const size_t width = vision.hidden_size;
  const float eps = vision.rms_norm_eps;
  // The norms in front of both branches have no weights: those are in the packed matrices.
  NPUSEG_RETURN_IF_ERROR(rms_rows(exec, x, {{}, eps}, branch));
  NPUSEG_RETURN_IF_ERROR(npu.put(exec, branch, npu.vision.a));
  NPUSEG_RETURN_IF_ERROR(
      npu.linear(exec, "v_qkv", weights.name + "qkv", npu.vision.a, npu.vision_qkv, qkv));
  const MatrixView q = qkv.columns(0, width);
  const MatrixView k = qkv.columns(width, width);
  const MatrixView v = qkv.columns(2 * width, width);
  compute::RmsNormOptions heads;
  heads.runs = vision.heads;
  NPUSEG_RETURN_IF_ERROR(rms_rows(exec, q, {weights.q_norm, eps}, q, heads));
  NPUSEG_RETURN_IF_ERROR(rms_rows(exec, k, {weights.k_norm, eps}, k, heads));
  NPUSEG_RETURN_IF_ERROR(rms_rows(exec, v, {{}, eps}, v, heads));
  NPUSEG_RETURN_IF_ERROR(rotate_rows(exec, q, vision.heads, 2, rope, positions));
  NPUSEG_RETURN_IF_ERROR(rotate_rows(exec, k, vision.heads, 2, rope, positions));
  NPUSEG_RETURN_IF_ERROR(compute::over_rows(
      exec, n, width, [&](size_t r) { compute::scale_row(q.row(r), kLog2E, width); }));
  NPUSEG_RETURN_IF_ERROR(npu.put(exec, qkv, npu.vision.att));
  NPUSEG_RETURN_IF_ERROR(npu.attend(*exec.call, n));
  // The attention's output is the next input where it lies.
  NPUSEG_RETURN_IF_ERROR(
      npu.linear(exec, "v_o", weights.name + "o", npu.vision.a, npu.vision.c, branch));
  compute::RmsNormOptions add;
  add.residual = x;
  NPUSEG_RETURN_IF_ERROR(rms_rows(exec, branch, {weights.post_attention, eps}, x, add));

  NPUSEG_RETURN_IF_ERROR(rms_rows(exec, x, {{}, eps}, branch));
  NPUSEG_RETURN_IF_ERROR(npu.put(exec, branch, npu.vision.a));
  NPUSEG_RETURN_IF_ERROR(
      npu.gemm(*exec.call, "v_gu", weights.name + "gu", npu.vision.a, 0, npu.vision.gu, n));
  for (size_t s = 0; s < npu.vision.parts.size(); ++s) {
    NPUSEG_RETURN_IF_ERROR(npu.gemm(*exec.call, "v_down", weights.name + "down" + std::to_string(s),
                                    npu.vision.gu, s * width, npu.vision.parts[s], n));
  }
  NPUSEG_RETURN_IF_ERROR(npu.get_sum(exec, npu.vision, npu.vision.parts.size(), branch));
  return rms_rows(exec, branch, {weights.post_feedforward, eps}, x, add);
}

Status NpuModel::encode_rows(const Exec& exec, const Patches& patches, MatrixView x) const {
  NpuKernels& npu = *kernels_;
  const auto& vision = *config_.vision;
  NPUSEG_ASSIGN_OR_RETURN(const PatchRows rows,
                          prepare_patches(exec, *config_.vision, weights_->positions, patches));
  NPUSEG_RETURN_IF_ERROR(npu.put(exec, rows.centred.view(), npu.vision.a));
  NPUSEG_RETURN_IF_ERROR(npu.linear(exec, "v_patch", "v.patch", npu.vision.a, npu.vision.c, x));
  NPUSEG_RETURN_IF_ERROR(compute::add(exec, x, rows.positions.view(), x));
  NPUSEG_ASSIGN_OR_RETURN(Matrix branch, Matrix::make(exec.budget, x.rows, x.cols, "vision rows"));
  NPUSEG_ASSIGN_OR_RETURN(Matrix qkv,
                          Matrix::make(exec.budget, x.rows, 3 * vision.hidden_size, "vision rows"));
  NPUSEG_ASSIGN_OR_RETURN(
      const auto rope,
      ropes_->vision.get(*exec.call, std::max(patches.grid_width, patches.grid_height)));
  const std::vector<int32_t> positions = patch_positions(x.rows, patches.grid_width);
  for (size_t i = 0; i < vision.layers; ++i) {
    NPUSEG_RETURN_IF_ERROR(
        vision_layer(exec, i, *rope, positions.data(), x, branch.view(), qkv.view()));
    exec.call->advance();
  }
  return check_finite(x, "vision encoder");
}

Result<Matrix> NpuModel::encode_picture(Call& call, const Patches& patches,
                                        StageTimes* times) const {
  const StageTimer timer(times, Stage::kVision);
  const Exec exec{&call, budget_};
  const auto& vision = *config_.vision;
  NPUSEG_RETURN_IF_ERROR(check_patches(config_, patches));
  const size_t n = patches.pixels.rows;
  const auto& params = bundle_->gemma2().params;
  const size_t most =
      std::min(params.v_rows, params.max_soft_tokens * vision.pooling * vision.pooling);
  if (n > most) {
    return Status(
        Code::kLimitExceeded,
        core::format("cannot embed picture: %zu patches, the bundle takes at most %zu", n, most));
  }
  const std::lock_guard lock(mutex_);
  call.begin_stage(static_cast<uint32_t>(Stage::kVision), vision.layers);
  NPUSEG_ASSIGN_OR_RETURN(Matrix x, Matrix::make(budget_, n, vision.hidden_size, "vision rows"));
  NPUSEG_RETURN_IF_ERROR(encode_rows(exec, patches, x.view()));
  NPUSEG_ASSIGN_OR_RETURN(Matrix pooled,
                          pool_patches(exec, x.view(), patches.grid_width, vision.pooling));
  NPUSEG_RETURN_IF_ERROR(rms_rows(exec, pooled.view(), {{}, vision.rms_norm_eps}, pooled.view()));
  NpuKernels& npu = *kernels_;
  NPUSEG_RETURN_IF_ERROR(npu.put(exec, pooled.view(), npu.vision.a));
  NPUSEG_ASSIGN_OR_RETURN(
      Matrix soft, Matrix::make(budget_, pooled.rows(), config_.text.hidden_size, "soft tokens"));
  NPUSEG_RETURN_IF_ERROR(
      npu.linear(exec, "v_ev", "v.ev", npu.vision.a, npu.soft_tokens, soft.view()));
  return soft;
}

}  // namespace npuseg::embeddinggemma2

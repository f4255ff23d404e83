// SPDX-License-Identifier: Apache-2.0
// The mask decoder on an NPU (spec iron-bundle-sam3.md, 7.12).
#include <vector>

#include "compute/row_bands.h"
#include "compute/simd_kernels.h"
#include "compute/weight_forms.h"
#include "core/bf16.h"
#include "model/sam3/layers.h"
#include "model/sam3/npu_rows.h"
#include "model/sam3/npu_stages.h"
#include "model/sam3/npu_transfer.h"

namespace npuseg::sam3 {

using compute::Exec;
using core::ConstMatrixView;
using core::Matrix;
using core::Result;
using core::Status;

namespace {
constexpr size_t kGroups = 8;
constexpr float kGroupNormEps = 1e-5f;
}  // namespace

Result<Matrix> run_npu_pixel_decoder(const NpuParts& npu, const Exec& exec,
                                     const std::vector<Matrix>& levels, ConstMatrixView memory,
                                     std::span<const PackedBytes> folded, size_t tokens) {
  const bundle::Sam3Params& p = npu.params();
  const auto& weights = npu.weights->mask;
  const size_t d = p.d_model;
  exec.call->begin_stage(static_cast<uint32_t>(Stage::kMaskDecoder), 4);
  NPUSEG_ASSIGN_OR_RETURN(Matrix x, Matrix::make(exec.budget, memory.rows, d, "pixel map"));
  NPUSEG_RETURN_IF_ERROR(attend_to_prompt(npu, exec, weights.prompt_cross_attn_norm, "m.",
                                          folded.subspan(2 * p.d_layers).first<2>(), tokens, memory,
                                          x.view()));
  exec.call->advance();
  for (size_t i = 0; i < 2; ++i) {
    const size_t side = p.grid << (i + 1);
    const ConstMatrixView skip = levels[1 - i].view();
    const auto pixel = [&](size_t y, size_t at, uint16_t* work) -> const uint16_t* {
      const float* low = x.view().row(y / 2 * (side / 2) + at / 2);
      const float* high = skip.row(y * side + at);
      for (size_t c = 0; c < d; ++c) work[c] = core::to_bf16(low[c] + high[c]);
      return work;
    };
    NPUSEG_ASSIGN_OR_RETURN(Matrix next, Matrix::make(exec.budget, side * side, d, "pixel map"));
    NPUSEG_RETURN_IF_ERROR(convolve_map(npu, exec, side, "m.conv" + std::to_string(i),
                                        weights.conv_layers[i].bias, next.view(), pixel));
    NPUSEG_RETURN_IF_ERROR(group_norm_relu(
        exec, kGroups, static_cast<const float*>(weights.norms[i].weight.data),
        static_cast<const float*>(weights.norms[i].bias.data), kGroupNormEps, next.view()));
    x = std::move(next);
    exec.call->advance();
  }
  NPUSEG_RETURN_IF_ERROR(check_finite(x.view(), "mask decoder"));
  return x;
}

Result<NpuMasks> run_npu_mask_head(const NpuParts& npu, const Exec& exec, ConstMatrixView hidden,
                                   std::span<const uint32_t> queries,
                                   ConstMatrixView pixel_embedding) {
  NpuKernels& kernels = *npu.kernels;
  const size_t pixels = pixel_embedding.rows;
  NPUSEG_ASSIGN_OR_RETURN(const PackedBytes packed,
                          fold_masks(exec, *npu.weights, npu.layout("m_head"), hidden, queries));
  NPUSEG_RETURN_IF_ERROR(kernels.fill_slot("m.head", packed));
  NPUSEG_ASSIGN_OR_RETURN(const DeviceRows in, kernels.input("m_head"));
  NPUSEG_ASSIGN_OR_RETURN(const DeviceRows out, kernels.output("m_head"));
  NPUSEG_RETURN_IF_ERROR(put_rows(exec, pixel_embedding, in));
  NPUSEG_RETURN_IF_ERROR(kernels.gemm(*exec.call, "m_head", "m.head"));
  NPUSEG_RETURN_IF_ERROR(out.download(pixels));
  NpuMasks result;
  if (!queries.empty()) {
    NPUSEG_ASSIGN_OR_RETURN(result.masks,
                            Matrix::make(exec.budget, queries.size(), pixels, "mask logits"));
  }
  NPUSEG_ASSIGN_OR_RETURN(result.semantic, Matrix::make(exec.budget, 1, pixels, "semantic map"));
  NPUSEG_RETURN_IF_ERROR(
      compute::over_bands(exec, pixels, queries.size() + 1, [&](size_t first, size_t end) {
        for (size_t i = 0; i <= queries.size(); ++i) {
          const size_t column = i < queries.size() ? queries[i] : hidden.rows;
          float* to = i < queries.size() ? result.masks.view().row(i) : result.semantic.data();
          for (size_t r = first; r < end; ++r) to[r] = core::from_bf16(out.row(r)[column]);
        }
      }));
  exec.call->advance();
  return result;
}

}  // namespace npuseg::sam3

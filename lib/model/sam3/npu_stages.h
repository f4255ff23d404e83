// SPDX-License-Identifier: Apache-2.0
// The stages of the NPU graph, each one function (spec iron-bundle-sam3.md, 7.4 to 7.12). What they
// share with the float graph (text encoder, queries of the DETR decoder, scoring) is there.
//
// All of them pass rows through the buffers of one NpuKernels, so one call runs at a time.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "bundle/bundle.h"
#include "model/sam3/detr_decoder.h"
#include "model/sam3/npu_fold.h"
#include "model/sam3/npu_kernels.h"
#include "model/sam3/npu_weights.h"
#include "model/sam3/sam3.h"

namespace npuseg::sam3 {

struct NpuParts {
  std::shared_ptr<const bundle::Bundle> bundle;
  const Weights* weights = nullptr;
  NpuTables tables;
  std::vector<uint16_t> gelu;  // of every bfloat16 value
  std::unique_ptr<NpuKernels> kernels;

  [[nodiscard]] const bundle::Sam3Params& params() const { return bundle->sam3().params; }
  [[nodiscard]] const bundle::PackedLayout& layout(std::string_view key) const {
    return bundle->sam3().gemms.find(key)->second.b;
  }
};

// pixels [3, S, S] normalised -> [tokens, vit_dim] in raster order.
core::Result<core::Matrix> run_npu_vit(const NpuParts& npu, const compute::Exec& exec,
                                       const float* pixels);
// The layers of a ViT whose norms, rotations and sums the host does. x [tokens, vit_dim] in window
// order.
core::Status run_npu_vit_layers_by_host(const NpuParts& npu, const compute::Exec& exec,
                                        core::MatrixView x);

// vit [tokens, vit_dim] -> three maps [side * side, D], finest first.
core::Result<std::vector<core::Matrix>> run_npu_neck(const NpuParts& npu, const compute::Exec& exec,
                                                     core::ConstMatrixView vit);

// Layer by layer d_s, d_c, and those of the mask decoder: TextFeatures::folded.
core::Result<std::vector<PackedBytes>> fold_all_prompts(const NpuParts& npu,
                                                        const compute::Exec& exec,
                                                        core::ConstMatrixView prompt);

// As the functions of the float graph (detr_encoder.h). `tokens`: how many of a prompt are real.
core::Result<core::Matrix> run_npu_encoder_input(const NpuParts& npu, const compute::Exec& exec,
                                                 core::ConstMatrixView map);
core::Result<core::Matrix> run_npu_encoder(const NpuParts& npu, const compute::Exec& exec,
                                           core::ConstMatrixView encoder_input,
                                           std::span<const PackedBytes> folded, size_t tokens);
// out = x + attention of norm(x) to a prompt of `tokens` tokens. `slot` names its weights.
core::Status attend_to_prompt(const NpuParts& npu, const compute::Exec& exec,
                              const compute::LayerNorm& norm, const std::string& slot,
                              std::span<const PackedBytes, 2> folded, size_t tokens,
                              core::ConstMatrixView x, core::MatrixView out);

// Runs dec_kv over the encoder's result; what it gives is good until it runs again.
core::Result<VisionKeys> make_npu_vision_keys(const NpuParts& npu, const compute::Exec& exec,
                                              core::ConstMatrixView memory);

// Pixel embedding [mask_size^2, D].
core::Result<core::Matrix> run_npu_pixel_decoder(const NpuParts& npu, const compute::Exec& exec,
                                                 const std::vector<core::Matrix>& levels,
                                                 core::ConstMatrixView memory,
                                                 std::span<const PackedBytes> folded,
                                                 size_t tokens);
struct NpuMasks {
  core::Matrix masks;     // [queries.size(), mask_size^2] logits; empty without queries
  core::Matrix semantic;  // [1, mask_size^2]
};
core::Result<NpuMasks> run_npu_mask_head(const NpuParts& npu, const compute::Exec& exec,
                                         core::ConstMatrixView hidden,
                                         std::span<const uint32_t> queries,
                                         core::ConstMatrixView pixel_embedding);

// The 3x3 convolution of a map. pixel(y, x, work) gives its D bfloat16 values, in `work` (D of
// them) or elsewhere, and is asked once for each. out [side * side, D] = convolution + bias.
template <class Pixel>
core::Status convolve_map(const NpuParts& npu, const compute::Exec& exec, size_t side,
                          const std::string& weight, const core::TensorView& bias,
                          core::MatrixView out, const Pixel& pixel);

// The parts of it.
void put_pixel(const NpuKernels::Convolution& rows, size_t side, size_t y, size_t x,
               const uint16_t* values, size_t channels);
core::Status finish_convolution(const NpuParts& npu, const compute::Exec& exec, size_t side,
                                const std::string& weight, const core::TensorView& bias,
                                core::MatrixView out);

template <class Pixel>
core::Status convolve_map(const NpuParts& npu, const compute::Exec& exec, size_t side,
                          const std::string& weight, const core::TensorView& bias,
                          core::MatrixView out, const Pixel& pixel) {
  NPUSEG_ASSIGN_OR_RETURN(const NpuKernels::Convolution rows, npu.kernels->convolution(side));
  const size_t channels = npu.params().d_model;
  NPUSEG_RETURN_IF_ERROR(core::parallel_for(
      *exec.call, side,
      [&](size_t y, int) {
        std::vector<uint16_t> work(channels);
        for (size_t x = 0; x < side; ++x) {
          put_pixel(rows, side, y, x, pixel(y, x, work.data()), channels);
        }
      },
      static_cast<double>(side * side * channels)));
  return finish_convolution(npu, exec, side, weight, bias, out);
}

}  // namespace npuseg::sam3

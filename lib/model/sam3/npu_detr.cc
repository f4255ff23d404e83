// SPDX-License-Identifier: Apache-2.0
// The DETR encoder on an NPU, attention to a prompt, and the keys of the decoder (spec
// iron-bundle-sam3.md, 7.8 to 7.10).
#include <algorithm>
#include <cstring>

#include "compute/row_bands.h"
#include "compute/simd_kernels.h"
#include "compute/weight_forms.h"
#include "model/sam3/layers.h"
#include "model/sam3/npu_rows.h"
#include "model/sam3/npu_stages.h"
#include "model/sam3/npu_transfer.h"

namespace npuseg::sam3 {

using bundle::Sam3Params;
using compute::Exec;
using compute::over_rows;
using core::ConstMatrixView;
using core::Matrix;
using core::MatrixView;
using core::Result;
using core::Status;

namespace {

std::string layer_name(size_t layer) { return "d." + std::to_string(layer) + "."; }

// out = x + self-attention of norm(x), heads padded to those of the kernel.
Status attend_to_itself(const NpuParts& npu, const Exec& exec, size_t layer, ConstMatrixView x,
                        MatrixView out) {
  NpuKernels& kernels = *npu.kernels;
  const std::string name = layer_name(layer);
  NPUSEG_ASSIGN_OR_RETURN(const DeviceRows in, kernels.input("d_qkv"));
  NPUSEG_ASSIGN_OR_RETURN(const DeviceRows qkv, kernels.output("d_qkv"));
  NPUSEG_ASSIGN_OR_RETURN(const DeviceRows attended, kernels.output("d_o"));
  NPUSEG_RETURN_IF_ERROR(put_placed(exec, &npu.weights->detr_encoder[layer].layer_norm1,
                                    npu.tables.map_positions, x, in));
  NPUSEG_RETURN_IF_ERROR(kernels.gemm(*exec.call, "d_qkv", name + "qkv"));
  NPUSEG_RETURN_IF_ERROR(qkv.download(x.rows));
  const size_t width = qkv.stride / 3;
  DeviceRows parts[3];
  for (size_t i = 0; i < 3; ++i) {
    NPUSEG_ASSIGN_OR_RETURN(parts[i], kernels.attention_rows("mha_d", i));
  }
  NPUSEG_RETURN_IF_ERROR(over_rows(exec, x.rows, qkv.stride, [&](size_t r) {
    for (size_t i = 0; i < 3; ++i) {
      std::memcpy(parts[i].row(r), qkv.row(r) + i * width, width * sizeof(uint16_t));
    }
  }));
  for (const DeviceRows& part : parts) NPUSEG_RETURN_IF_ERROR(part.upload(x.rows));
  // Its output is the input of d_o where it lies.
  NPUSEG_RETURN_IF_ERROR(kernels.attend(*exec.call, "mha_d"));
  NPUSEG_RETURN_IF_ERROR(kernels.gemm(*exec.call, "d_o", name + "o"));
  return add_output(exec, attended, {}, x, out);
}

// x += MLP of norm(x).
Status add_mlp(const NpuParts& npu, const Exec& exec, size_t layer, MatrixView x) {
  NpuKernels& kernels = *npu.kernels;
  const EncoderLayerWeights& weights = npu.weights->detr_encoder[layer];
  const std::string name = layer_name(layer);
  NPUSEG_ASSIGN_OR_RETURN(const DeviceRows in, kernels.input("d_fc1"));
  NPUSEG_ASSIGN_OR_RETURN(const DeviceRows out, kernels.output("d_fc2"));
  NPUSEG_RETURN_IF_ERROR(put_norm(exec, weights.layer_norm3, x, in));
  NPUSEG_RETURN_IF_ERROR(kernels.gemm(*exec.call, "d_fc1", name + "fc1"));
  NPUSEG_RETURN_IF_ERROR(kernels.gemm(*exec.call, "d_fc2", name + "fc2"));
  return add_output(exec, out, weights.mlp.fc2.bias, x, x);
}

}  // namespace

Status attend_to_prompt(const NpuParts& npu, const Exec& exec, const compute::LayerNorm& norm,
                        const std::string& slot, std::span<const PackedBytes, 2> folded,
                        size_t tokens, ConstMatrixView x, MatrixView out) {
  NpuKernels& kernels = *npu.kernels;
  const Sam3Params& p = npu.params();
  NPUSEG_RETURN_IF_ERROR(kernels.fill_slot(slot + "s", folded[0]));
  NPUSEG_RETURN_IF_ERROR(kernels.fill_slot(slot + "c", folded[1]));
  NPUSEG_ASSIGN_OR_RETURN(const DeviceRows in, kernels.input("d_s"));
  NPUSEG_ASSIGN_OR_RETURN(const DeviceRows scores, kernels.output("d_s"));
  NPUSEG_ASSIGN_OR_RETURN(const DeviceRows weights, kernels.input("d_c"));
  NPUSEG_ASSIGN_OR_RETURN(const DeviceRows context, kernels.output("d_c"));
  NPUSEG_RETURN_IF_ERROR(put_norm(exec, norm, x, in));
  NPUSEG_RETURN_IF_ERROR(kernels.gemm(*exec.call, "d_s", slot + "s"));
  NPUSEG_RETURN_IF_ERROR(scores.download(x.rows));
  const size_t columns = p.d_heads * p.text_len;
  NPUSEG_RETURN_IF_ERROR(compute::over_bands(
      exec, x.rows, columns,
      [&](size_t first, size_t end) {
        std::vector<float> row(columns);
        for (size_t r = first; r < end; ++r) {
          compute::widen_bf16(scores.row(r), row.data(), columns);
          for (size_t head = 0; head < p.d_heads; ++head) {
            softmax_row(row.data() + head * p.text_len, tokens, p.text_len);
          }
          compute::narrow_bf16(row.data(), weights.row(r), columns);
        }
      },
      compute::kBandValues, 4.0));
  NPUSEG_RETURN_IF_ERROR(weights.upload(x.rows));
  NPUSEG_RETURN_IF_ERROR(kernels.gemm(*exec.call, "d_c", slot + "c"));
  return add_output(exec, context, {}, x, out);
}

Result<std::vector<PackedBytes>> fold_all_prompts(const NpuParts& npu, const Exec& exec,
                                                  ConstMatrixView prompt) {
  const Sam3Params& p = npu.params();
  std::vector<PackedBytes> all;
  for (size_t i = 0; i <= p.d_layers; ++i) {
    const AttentionWeights& weights = i < p.d_layers ? npu.weights->detr_encoder[i].cross_attn
                                                     : npu.weights->mask.prompt_cross_attn;
    NPUSEG_ASSIGN_OR_RETURN(FoldedPrompt folded,
                            fold_prompt(exec, weights, p.d_heads, p.text_len, npu.layout("d_s"),
                                        npu.layout("d_c"), prompt));
    all.push_back(std::move(folded.scores));
    all.push_back(std::move(folded.context));
  }
  return all;
}

Result<Matrix> run_npu_encoder_input(const NpuParts& npu, const Exec& exec, ConstMatrixView map) {
  NPUSEG_ASSIGN_OR_RETURN(Matrix x,
                          Matrix::make(exec.budget, map.rows, map.cols, "DETR encoder tokens"));
  NPUSEG_RETURN_IF_ERROR(attend_to_itself(npu, exec, 0, map, x.view()));
  return x;
}

Result<Matrix> run_npu_encoder(const NpuParts& npu, const Exec& exec, ConstMatrixView encoder_input,
                               std::span<const PackedBytes> folded, size_t tokens) {
  const auto& layers = npu.weights->detr_encoder;
  exec.call->begin_stage(static_cast<uint32_t>(Stage::kDetrEncoder), layers.size());
  NPUSEG_ASSIGN_OR_RETURN(Matrix x, Matrix::make(exec.budget, encoder_input.rows,
                                                 encoder_input.cols, "DETR encoder tokens"));
  std::memcpy(x.data(), encoder_input.data, x.rows() * x.cols() * sizeof(float));
  for (size_t i = 0; i < layers.size(); ++i) {
    if (i != 0) NPUSEG_RETURN_IF_ERROR(attend_to_itself(npu, exec, i, x.view(), x.view()));
    NPUSEG_RETURN_IF_ERROR(attend_to_prompt(npu, exec, layers[i].layer_norm2, layer_name(i),
                                            folded.subspan(2 * i).first<2>(), tokens, x.view(),
                                            x.view()));
    NPUSEG_RETURN_IF_ERROR(add_mlp(npu, exec, i, x.view()));
    exec.call->advance();
  }
  NPUSEG_RETURN_IF_ERROR(check_finite(x.view(), "DETR encoder"));
  return x;
}

Result<VisionKeys> make_npu_vision_keys(const NpuParts& npu, const Exec& exec,
                                        ConstMatrixView memory) {
  NPUSEG_ASSIGN_OR_RETURN(const DeviceRows in, npu.kernels->input("dec_kv"));
  NPUSEG_ASSIGN_OR_RETURN(const DeviceRows out, npu.kernels->output("dec_kv"));
  NPUSEG_RETURN_IF_ERROR(put_placed(exec, nullptr, npu.tables.map_positions, memory, in));
  NPUSEG_RETURN_IF_ERROR(npu.kernels->gemm(*exec.call, "dec_kv", "dec.kv"));
  NPUSEG_RETURN_IF_ERROR(out.download(memory.rows));
  const size_t d = memory.cols;
  return VisionKeys([out, exec, d](size_t layer, MatrixView keys, MatrixView values) {
    return over_rows(exec, keys.rows, 2 * d, [&](size_t r) {
      compute::widen_bf16(out.row(r) + 2 * d * layer, keys.row(r), d);
      compute::widen_bf16(out.row(r) + 2 * d * layer + d, values.row(r), d);
    });
  });
}

}  // namespace npuseg::sam3

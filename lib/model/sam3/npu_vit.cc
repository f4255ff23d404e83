// SPDX-License-Identifier: Apache-2.0
// The vision encoder on an NPU: wholly, between patches and the last sums, or its products alone
// (spec iron-bundle-sam3.md, 7.4 to 7.6).
#include <algorithm>
#include <cstring>

#include "compute/elementwise.h"
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
using core::Matrix;
using core::MatrixView;
using core::Result;
using core::Status;

namespace {

std::string layer_name(size_t layer) { return "v." + std::to_string(layer) + "."; }

bool is_global(const Sam3Params& p, size_t layer) {
  return std::find(p.vit_global.begin(), p.vit_global.end(), layer) != p.vit_global.end();
}

// x0 [tokens, vit_dim] in window order: patches, positions, the norm before the first layer.
Status embed(const NpuParts& npu, const Exec& exec, const float* pixels, MatrixView x) {
  const Sam3Params& p = npu.params();
  NPUSEG_ASSIGN_OR_RETURN(const DeviceRows in, npu.kernels->input("v_embed"));
  NPUSEG_ASSIGN_OR_RETURN(const DeviceRows out, npu.kernels->output("v_embed"));
  const size_t patch = p.patch;
  const size_t size = p.image_size;
  NPUSEG_RETURN_IF_ERROR(over_rows(exec, x.rows, in.stride, [&](size_t r) {
    const auto raster = static_cast<size_t>(npu.tables.raster[r]);
    const float* corner = pixels + raster / p.grid * patch * size + raster % p.grid * patch;
    for (size_t line = 0; line < 3 * patch; ++line) {
      compute::narrow_bf16(corner + (line / patch * size + line % patch) * size,
                           in.row(r) + line * patch, patch);
    }
  }));
  NPUSEG_RETURN_IF_ERROR(in.upload(x.rows));
  NPUSEG_RETURN_IF_ERROR(npu.kernels->gemm(*exec.call, "v_embed", "v.embed"));
  NPUSEG_RETURN_IF_ERROR(out.download(x.rows));
  const RowNorm norm(npu.weights->backbone.layer_norm, x.cols);
  const auto* positions = static_cast<const float*>(npu.tables.positions.data);
  return over_rows(exec, x.rows, x.cols, [&](size_t r) {
    compute::widen_bf16(out.row(r), x.row(r), x.cols);
    compute::add_rows(x.row(r), positions + r * x.cols, x.row(r), x.cols);
    norm.apply(x.row(r), x.row(r));
  });
}

// The layers on the device; x is their input and their result.
Status run_layers(const NpuParts& npu, const Exec& exec, MatrixView x) {
  const Sam3Params& p = npu.params();
  NpuKernels& kernels = *npu.kernels;
  core::Call& call = *exec.call;
  NPUSEG_ASSIGN_OR_RETURN(const DeviceRows stream, kernels.residual(0));
  NPUSEG_RETURN_IF_ERROR(over_rows(exec, x.rows, x.cols, [&](size_t r) {
    if (p.vit_res_f32) {
      std::memcpy(stream.float_row(r), x.row(r), x.cols * sizeof(float));
    } else {
      // The first norm is of the rounded values.
      compute::narrow_bf16(x.row(r), stream.row(r), x.cols);
      compute::widen_bf16(stream.row(r), x.row(r), x.cols);
    }
  }));
  NPUSEG_RETURN_IF_ERROR(stream.upload(x.rows));
  NPUSEG_ASSIGN_OR_RETURN(const DeviceRows in, kernels.input("v_qkv"));
  NPUSEG_RETURN_IF_ERROR(put_norm(exec, {{}, {}, p.vit_eps}, x, in));
  for (size_t i = 0; i < p.vit_layers; ++i) {
    const std::string name = layer_name(i);
    const bool global = is_global(p, i);
    NPUSEG_RETURN_IF_ERROR(kernels.gemm(call, "v_qkv", name + "qkv"));
    NPUSEG_RETURN_IF_ERROR(kernels.rotate(call, global));
    NPUSEG_RETURN_IF_ERROR(kernels.attend_in_place(call, global));
    NPUSEG_RETURN_IF_ERROR(kernels.gemm(call, "v_o", name + "o"));
    NPUSEG_RETURN_IF_ERROR(kernels.add_norm(call, 0, "v_o", "v_fc1"));
    NPUSEG_RETURN_IF_ERROR(kernels.gemm(call, "v_fc1", name + "fc1"));
    NPUSEG_RETURN_IF_ERROR(kernels.gemm(call, "v_fc2", name + "fc2"));
    NPUSEG_RETURN_IF_ERROR(kernels.add_norm(call, 1, "v_fc2", "v_qkv"));
    call.advance();
  }
  NPUSEG_RETURN_IF_ERROR(stream.download(x.rows));
  return over_rows(exec, x.rows, x.cols, [&](size_t r) {
    if (p.vit_res_f32) {
      std::memcpy(x.row(r), stream.float_row(r), x.cols * sizeof(float));
    } else {
      compute::widen_bf16(stream.row(r), x.row(r), x.cols);
    }
  });
}

// Where head `head` of token r lies in the buffers of the layer's attention.
struct HeadPlaces {
  bool global;
  size_t heads;
  size_t area;
  size_t dim;

  [[nodiscard]] uint16_t* at(const DeviceRows& rows, size_t r, size_t head) const {
    if (global) return rows.row(r) + head * dim;
    return rows.row((r / area * heads + head) * area + r % area);
  }
};

// half-split rotation of a head.
void rotate_head(const float* x, const float* cosine, const float* sine, size_t half, float* out) {
  for (size_t j = 0; j < half; ++j) {
    out[j] = x[j] * cosine[j] - x[half + j] * sine[j];
    out[half + j] = x[half + j] * cosine[j] + x[j] * sine[j];
  }
}

Status attention_by_host(const NpuParts& npu, const Exec& exec, bool global) {
  const Sam3Params& p = npu.params();
  NpuKernels& kernels = *npu.kernels;
  const char* key = global ? "mha_glob" : "mha_win";
  DeviceRows qkvo[4];
  for (size_t i = 0; i < 4; ++i) {
    NPUSEG_ASSIGN_OR_RETURN(qkvo[i], kernels.attention_rows(key, i));
  }
  NPUSEG_ASSIGN_OR_RETURN(const DeviceRows from, kernels.output("v_qkv"));
  NPUSEG_ASSIGN_OR_RETURN(const DeviceRows to, kernels.input("v_o"));
  const size_t width = p.vit_dim;
  const HeadPlaces places{global, p.vit_heads, p.window * p.window, width / p.vit_heads};
  const size_t dim = places.dim;
  const auto* cosine = static_cast<const float*>(npu.tables.cosine[global ? 1 : 0].data);
  const auto* sine = static_cast<const float*>(npu.tables.sine[global ? 1 : 0].data);
  NPUSEG_RETURN_IF_ERROR(from.download(p.tokens()));
  NPUSEG_RETURN_IF_ERROR(
      compute::over_bands(exec, p.tokens(), 3 * width, [&](size_t first, size_t end) {
        std::vector<float> row(3 * width);
        std::vector<float> head(dim);
        for (size_t r = first; r < end; ++r) {
          compute::widen_bf16(from.row(r), row.data(), 3 * width);
          for (size_t run = 0; run < 3 * p.vit_heads; ++run) {
            uint16_t* out = places.at(qkvo[run / p.vit_heads], r, run % p.vit_heads);
            const float* x = row.data() + run * dim;
            if (run < 2 * p.vit_heads) {
              rotate_head(x, cosine + r * dim / 2, sine + r * dim / 2, dim / 2, head.data());
              x = head.data();
            }
            compute::narrow_bf16(x, out, dim);
          }
        }
      }));
  for (size_t i = 0; i < 3; ++i) NPUSEG_RETURN_IF_ERROR(qkvo[i].upload(qkvo[i].rows));
  NPUSEG_RETURN_IF_ERROR(kernels.attend(*exec.call, key));
  NPUSEG_RETURN_IF_ERROR(qkvo[3].download(qkvo[3].rows));
  NPUSEG_RETURN_IF_ERROR(over_rows(exec, p.tokens(), width, [&](size_t r) {
    for (size_t head = 0; head < p.vit_heads; ++head) {
      std::memcpy(to.row(r) + head * dim, places.at(qkvo[3], r, head), dim * sizeof(uint16_t));
    }
  }));
  return to.upload(p.tokens());
}

}  // namespace

Status run_npu_vit_layers_by_host(const NpuParts& npu, const Exec& exec, MatrixView x) {
  const Sam3Params& p = npu.params();
  NpuKernels& kernels = *npu.kernels;
  core::Call& call = *exec.call;
  NPUSEG_ASSIGN_OR_RETURN(const DeviceRows qkv, kernels.input("v_qkv"));
  NPUSEG_ASSIGN_OR_RETURN(const DeviceRows attended, kernels.output("v_o"));
  NPUSEG_ASSIGN_OR_RETURN(const DeviceRows fc1, kernels.input("v_fc1"));
  NPUSEG_ASSIGN_OR_RETURN(const DeviceRows fc2, kernels.output("v_fc2"));
  for (size_t i = 0; i < p.vit_layers; ++i) {
    const std::string name = layer_name(i);
    const VitLayerWeights& layer = npu.weights->backbone.layers[i];
    NPUSEG_RETURN_IF_ERROR(put_norm(exec, layer.layer_norm1, x, qkv));
    NPUSEG_RETURN_IF_ERROR(kernels.gemm(call, "v_qkv", name + "qkv"));
    NPUSEG_RETURN_IF_ERROR(attention_by_host(npu, exec, is_global(p, i)));
    NPUSEG_RETURN_IF_ERROR(kernels.gemm(call, "v_o", name + "o"));
    NPUSEG_RETURN_IF_ERROR(add_output(exec, attended, {}, x, x));
    NPUSEG_RETURN_IF_ERROR(put_norm(exec, layer.layer_norm2, x, fc1));
    NPUSEG_RETURN_IF_ERROR(kernels.gemm(call, "v_fc1", name + "fc1"));
    NPUSEG_RETURN_IF_ERROR(kernels.gemm(call, "v_fc2", name + "fc2"));
    NPUSEG_RETURN_IF_ERROR(add_output(exec, fc2, layer.mlp.fc2.bias, x, x));
    call.advance();
  }
  return {};
}

Result<Matrix> run_npu_vit(const NpuParts& npu, const Exec& exec, const float* pixels) {
  const Sam3Params& p = npu.params();
  exec.call->begin_stage(static_cast<uint32_t>(Stage::kVit), p.vit_layers);
  NPUSEG_ASSIGN_OR_RETURN(Matrix x,
                          Matrix::make(exec.budget, p.tokens(), p.vit_dim, "ViT activations"));
  NPUSEG_RETURN_IF_ERROR(embed(npu, exec, pixels, x.view()));
  NPUSEG_RETURN_IF_ERROR(p.vit_device ? run_layers(npu, exec, x.view())
                                      : run_npu_vit_layers_by_host(npu, exec, x.view()));
  NPUSEG_RETURN_IF_ERROR(check_finite(x.view(), "vision encoder"));
  NPUSEG_ASSIGN_OR_RETURN(Matrix out,
                          Matrix::make(exec.budget, p.tokens(), p.vit_dim, "ViT activations"));
  NPUSEG_RETURN_IF_ERROR(over_rows(exec, p.tokens(), p.vit_dim, [&](size_t r) {
    std::memcpy(out.view().row(static_cast<size_t>(npu.tables.raster[r])), x.view().row(r),
                p.vit_dim * sizeof(float));
  }));
  return out;
}

}  // namespace npuseg::sam3

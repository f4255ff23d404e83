// SPDX-License-Identifier: Apache-2.0
#include "model/sam3/vit.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "compute/attention.h"
#include "compute/elementwise.h"
#include "compute/norm.h"
#include "model/sam3/constants.h"
#include "model/sam3/layers.h"
#include "model/sam3/weights.h"

namespace npuseg::sam3 {

using compute::Exec;
using core::Matrix;
using core::MatrixView;
using core::Result;
using core::Status;

namespace {

// Patches as rows [grid*grid, channels*P*P], inputs ordered (channel, row, column) like the kernel.
Result<Matrix> gather_patches(const Model& model, const Exec& exec, const float* pixels) {
  const auto& vit = model.config().vit;
  const size_t grid = vit.grid();
  const size_t p = vit.patch_size;
  const size_t side = vit.image_size;
  NPUSEG_ASSIGN_OR_RETURN(Matrix patches,
                          Matrix::make(exec.budget, grid * grid, vit.channels * p * p, "patches"));
  NPUSEG_RETURN_IF_ERROR(core::parallel_for(
      *exec.call, grid,
      [&](size_t y, int) {
        for (size_t x = 0; x < grid; ++x) {
          float* row = patches.view().row(y * grid + x);
          for (size_t c = 0; c < vit.channels; ++c) {
            for (size_t i = 0; i < p; ++i) {
              std::memcpy(row + (c * p + i) * p, pixels + (c * side + y * p + i) * side + x * p,
                          p * sizeof(float));
            }
          }
        }
      },
      static_cast<double>(patches.rows() * patches.cols())));
  return patches;
}

// Patch projection plus the tiled position table, then the norm before the first layer.
Result<Matrix> embed(const Model& model, const Exec& exec, const float* pixels) {
  const auto& vit = model.config().vit;
  const auto& weights = model.weights().backbone;
  const size_t grid = vit.grid();
  const size_t n = vit.position_rows;
  NPUSEG_ASSIGN_OR_RETURN(const Matrix patches, gather_patches(model, exec, pixels));
  core::TensorView flat_table = weights.position_embeddings;
  flat_table.shape = {n * n, vit.hidden_size};
  NPUSEG_ASSIGN_OR_RETURN(const Matrix table, to_matrix(exec, flat_table, "position table"));
  NPUSEG_ASSIGN_OR_RETURN(Matrix tokens,
                          Matrix::make(exec.budget, grid * grid, vit.hidden_size, "ViT tokens"));
  NPUSEG_RETURN_IF_ERROR(core::parallel_for(
      *exec.call, grid,
      [&](size_t y, int) {
        for (size_t x = 0; x < grid; ++x) {
          std::memcpy(tokens.view().row(y * grid + x), table.view().row((y % n) * n + x % n),
                      vit.hidden_size * sizeof(float));
        }
      },
      static_cast<double>(tokens.rows() * tokens.cols())));
  compute::Epilogue epilogue;
  epilogue.residual = tokens.view();
  NPUSEG_RETURN_IF_ERROR(
      compute::linear(exec, patches.view(), weights.patch_projection, tokens.view(), epilogue));
  NPUSEG_RETURN_IF_ERROR(
      compute::layer_norm(exec, tokens.view(), weights.layer_norm, tokens.view()));
  return tokens;
}

// Activations that every layer uses again.
struct Work {
  Matrix normed;  // [window-major padded tokens, V]
  Matrix qkv;     // [same, 3V]
  Matrix hidden;  // [tokens, intermediate]
};

Status attention_part(const Model& model, const Exec& exec, const VitLayerWeights& layer,
                      bool windowed, MatrixView tokens, Work* work) {
  const auto& vit = model.config().vit;
  const Constants& constants = model.constants();
  const size_t v = vit.hidden_size;
  const size_t rows = windowed ? constants.from_window.size() : tokens.rows;
  const MatrixView normed{work->normed.data(), rows, v, v};
  if (windowed && rows != tokens.rows) {
    // Padding is added behind the norm: padded tokens are exact zero vectors that take part.
    std::fill_n(normed.data, rows * v, 0.0f);
  }
  NPUSEG_RETURN_IF_ERROR(compute::layer_norm(exec, tokens, layer.layer_norm1, normed,
                                             windowed ? constants.to_window.data() : nullptr));
  const MatrixView qkv{work->qkv.data(), rows, 3 * v, 3 * v};
  const MatrixView query = qkv.columns(0, v);
  const MatrixView key = qkv.columns(v, v);
  const MatrixView value = qkv.columns(2 * v, v);
  NPUSEG_RETURN_IF_ERROR(linear(exec, normed, layer.attention.q_proj, query));
  NPUSEG_RETURN_IF_ERROR(linear(exec, normed, layer.attention.k_proj, key));
  NPUSEG_RETURN_IF_ERROR(linear(exec, normed, layer.attention.v_proj, value));
  const RopeTable& rope = windowed ? constants.window_rope : constants.global_rope;
  for (const MatrixView& part : {query, key}) {
    NPUSEG_RETURN_IF_ERROR(compute::rope_interleaved(
        exec, part, vit.heads, vit.head_dim(), rope.cosine.data(), rope.sine.data(), rope.rows));
  }
  compute::Attention args;
  args.query = query.data;
  args.key = key.data;
  args.value = value.data;
  args.out = query.data;
  args.query_stride = args.key_stride = args.value_stride = args.out_stride = qkv.stride;
  args.batch = windowed ? constants.windows : 1;
  args.queries = args.keys = rows / args.batch;
  args.heads = vit.heads;
  args.head_dim = vit.head_dim();
  args.scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(args.head_dim)));
  NPUSEG_RETURN_IF_ERROR(compute::attention(exec, args));

  compute::Epilogue epilogue;
  epilogue.bias = layer.attention.o_proj.bias;
  epilogue.residual = tokens;
  epilogue.out_rows = windowed ? constants.from_window.data() : nullptr;
  return compute::linear(exec, query, layer.attention.o_proj.weight, tokens, epilogue);
}

}  // namespace

Result<Matrix> run_vit(const Model& model, const Exec& exec, const float* pixels) {
  const auto& vit = model.config().vit;
  const auto& weights = model.weights().backbone;
  exec.call->begin_stage(static_cast<uint32_t>(Stage::kVit), vit.layers);
  NPUSEG_ASSIGN_OR_RETURN(Matrix tokens, embed(model, exec, pixels));
  const size_t padded = std::max(tokens.rows(), model.constants().from_window.size());
  Work work;
  NPUSEG_ASSIGN_OR_RETURN(work.normed,
                          Matrix::make(exec.budget, padded, vit.hidden_size, "ViT activations"));
  NPUSEG_ASSIGN_OR_RETURN(
      work.qkv, Matrix::make(exec.budget, padded, 3 * vit.hidden_size, "ViT activations"));
  NPUSEG_ASSIGN_OR_RETURN(work.hidden, Matrix::make(exec.budget, tokens.rows(),
                                                    vit.intermediate_size, "ViT activations"));
  for (size_t i = 0; i < vit.layers; ++i) {
    const VitLayerWeights& layer = weights.layers[i];
    const bool global =
        std::find(vit.global_layers.begin(), vit.global_layers.end(), i) != vit.global_layers.end();
    NPUSEG_RETURN_IF_ERROR(attention_part(model, exec, layer, !global, tokens.view(), &work));
    const MatrixView normed{work.normed.data(), tokens.rows(), vit.hidden_size, vit.hidden_size};
    NPUSEG_RETURN_IF_ERROR(compute::layer_norm(exec, tokens.view(), layer.layer_norm2, normed));
    NPUSEG_RETURN_IF_ERROR(
        linear(exec, normed, layer.mlp.fc1, work.hidden.view(), to_activation(vit.act)));
    NPUSEG_RETURN_IF_ERROR(linear(exec, work.hidden.view(), layer.mlp.fc2, tokens.view(),
                                  compute::Activation::kNone, tokens.view()));
    exec.call->advance();
  }
  NPUSEG_RETURN_IF_ERROR(check_finite(tokens.view(), "vision encoder"));
  return tokens;
}

}  // namespace npuseg::sam3

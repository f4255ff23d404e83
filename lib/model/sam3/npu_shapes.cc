// SPDX-License-Identifier: Apache-2.0
// How large the buffers between kernels are (spec iron-bundle-sam3.md, 4.3, 4.4 and 8.2).
#include <algorithm>

#include "model/sam3/npu_kernels.h"

namespace npuseg::sam3 {

using bundle::Sam3Gemm;
using bundle::Sam3Manifest;
using bundle::Sam3Mha;
using bundle::Sam3Params;

namespace {

const Sam3Gemm& gemm_of(const Sam3Manifest& manifest, std::string_view key) {
  return manifest.gemms.find(key)->second;
}

// As many as whole runs take.
size_t stage_rows(const Sam3Manifest& manifest, std::string_view key) {
  const size_t m = gemm_of(manifest, key).m;
  return (NpuKernels::used_rows(manifest, key) + m - 1) / m * m;
}

}  // namespace

size_t NpuKernels::used_rows(const Sam3Manifest& manifest, std::string_view key) {
  const Sam3Params& p = manifest.params;
  if (key == "n_up") return 4 * p.tokens();
  if (key == "m_head") return p.mask_size * p.mask_size;
  return p.tokens();
}

size_t NpuKernels::used_convolution_rows(const Sam3Manifest& manifest, size_t side) {
  const Sam3Gemm& gemm = gemm_of(manifest, "conv");
  // Rows of A overlap by two bordered pixels.
  const size_t depth = (gemm.b.k - gemm.lda) / 2;
  const size_t step = gemm.lda / depth;
  return (side * (side + 2) + step - 1) / step;
}

NpuKernels::Shape NpuKernels::input_shape(const Sam3Manifest& manifest, std::string_view key) {
  Shape shape{stage_rows(manifest, key), gemm_of(manifest, key).lda};
  // Attention of the DETR encoder writes straight into it.
  if (key == "d_o") shape.rows = std::max(shape.rows, attention_shape(manifest, "mha_d").rows);
  return shape;
}

NpuKernels::Shape NpuKernels::output_shape(const Sam3Manifest& manifest, std::string_view key) {
  return {stage_rows(manifest, key), gemm_of(manifest, key).b.n};
}

// As the manifest says what the kernel may touch, which is what it computes or more.
NpuKernels::Shape NpuKernels::attention_shape(const Sam3Manifest& manifest, std::string_view key) {
  const Sam3Mha& mha = manifest.mhas.find(key)->second;
  const size_t stride = mha.token_major ? mha.heads * mha.d : mha.d;
  return {(mha.elems + stride - 1) / stride, stride};
}

std::pair<NpuKernels::Shape, NpuKernels::Shape> NpuKernels::convolution_shapes(
    const Sam3Manifest& manifest, size_t side) {
  const Sam3Gemm& gemm = gemm_of(manifest, "conv");
  const size_t depth = (gemm.b.k - gemm.lda) / 2;
  const size_t step = gemm.lda / depth;
  const size_t rows = used_convolution_rows(manifest, side);
  const size_t whole = (rows + gemm.m - 1) / gemm.m * gemm.m;
  return {{whole * step + 2, depth}, {whole, gemm.b.n}};
}

NpuKernels::Shape NpuKernels::residual_shape(const Sam3Manifest& manifest) {
  const Sam3Params& p = manifest.params;
  return {p.tokens(), p.vit_dim, p.vit_res_f32 ? sizeof(float) : sizeof(uint16_t)};
}

NpuKernels::Shape NpuKernels::rotated_shape(const Sam3Manifest& manifest) {
  return {manifest.params.tokens(), 2 * manifest.params.vit_dim};
}

size_t NpuKernels::row_bytes(const Sam3Manifest& manifest) {
  size_t sum = 0;
  const auto add = [&](const Shape& shape, size_t count) {
    sum += count * shape.rows * shape.stride * shape.value;
  };
  for (const auto& [key, gemm] : manifest.gemms) {
    if (key == "conv") continue;
    // Their inputs are the outputs of fc1.
    if (key != "v_fc2" && key != "d_fc2") add(input_shape(manifest, key), 1);
    add(output_shape(manifest, key), 1);
  }
  for (const size_t scale : {size_t{1}, size_t{2}, size_t{4}}) {
    const auto [a, c] = convolution_shapes(manifest, scale * manifest.params.grid);
    add(a, 1);
    add(c, 1);
  }
  add(attention_shape(manifest, "mha_d"), 3);
  if (manifest.params.vit_device) {
    add(residual_shape(manifest), 2);
    add(rotated_shape(manifest), 1);
  } else {
    add(attention_shape(manifest, "mha_win"), 4);
    add(attention_shape(manifest, "mha_glob"), 4);
  }
  return sum;
}

}  // namespace npuseg::sam3

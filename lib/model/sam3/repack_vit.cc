// SPDX-License-Identifier: Apache-2.0
// The backbone for the NPU (spec iron-bundle-sam3.md, 6.1 and 6.2).
#include <algorithm>
#include <cmath>

#include "core/bf16.h"
#include "model/sam3/repack_packer.h"

namespace npuseg::sam3 {

using core::Code;
using core::Status;

namespace {

// The kernel rotates channel c with channel c + half, the model 2c with 2c + 1.
void half_split(const Dense& from, size_t heads, size_t to, Dense* out) {
  const size_t half = from.n / heads / 2;
  for (size_t head = 0; head < heads; ++head) {
    for (size_t c = 0; c < half; ++c) {
      const size_t even = (head * half + c) * 2;
      out->take(from, even, 1, to + head * 2 * half + c);
      out->take(from, even + 1, 1, to + head * 2 * half + half + c);
    }
  }
}

// GELU(8) is 8 in float32 and in bfloat16, whichever way it is computed.
constexpr float kConstant = 8.0f;

// Where the kernel adds no bias, a column of fc1 with no weights is a constant, and fc2's row of it
// the bias over that constant. What eight bits leave of it goes to further columns; those of a
// block of eight inputs would share its exponent, so each takes a block of its own.
Status carry_bias(const Packer& packer, Dense* fc1, Dense* fc2) {
  constexpr size_t kMostColumns = 3;
  const size_t padded = packer.params().vit_ffn_pad;
  const size_t first = (fc1->n + bundle::kBlockValues - 1) / bundle::kBlockValues;
  if (first * bundle::kBlockValues >= padded) {
    return Status(Code::kUnsupported,
                  core::format("cannot repack: kernel v_fc2 adds no bias, and vit_ffn_pad %zu has "
                               "no block of eight columns to spare above %zu; use a bundle with a "
                               "wider one",
                               padded, fc1->n));
  }
  Dense wide1(padded, fc1->k);
  wide1.take(*fc1, 0, fc1->n, 0);
  Dense wide2(fc2->n, padded);
  wide2.take(*fc2, 0, fc2->n, 0);
  for (size_t out = 0; out < fc2->n; ++out) {
    double rest = static_cast<double>(fc2->b[out]) / kConstant;
    for (size_t i = 0; i < kMostColumns && (first + i) * bundle::kBlockValues < padded; ++i) {
      const size_t column = (first + i) * bundle::kBlockValues;
      wide1.b[column] = kConstant;
      const float value = static_cast<float>(rest);
      unsigned char block[bundle::kBlockBytes];
      float values[bundle::kBlockValues] = {value};
      bundle::pack_block(values, 1, block);
      bundle::unpack_block(block, values);
      wide2.row(out)[column] = value;
      rest -= static_cast<double>(values[0]);
    }
    wide2.b[out] = 0;
  }
  *fc1 = wide1;
  *fc2 = wide2;
  return {};
}

Status repack_layer(Packer& packer, size_t index) {
  const auto& vit = packer.config().vit;
  const VitLayerWeights& layer = packer.weights().backbone.layers[index];
  const bool on_device = packer.params().vit_device;
  const std::string name = "v." + std::to_string(index) + ".";
  const size_t v = vit.hidden_size;
  Dense qkv(3 * v, v);
  half_split(Dense(layer.attention.q_proj), vit.heads, 0, &qkv);
  half_split(Dense(layer.attention.k_proj), vit.heads, v, &qkv);
  qkv.take(Dense(layer.attention.v_proj), 0, v, 2 * v);
  Dense fc1(layer.mlp.fc1);
  Dense fc2(layer.mlp.fc2);
  Floats added = fc2.b;  // by the host
  if (on_device) {
    qkv.fold(layer.layer_norm1);
    fc1.fold(layer.layer_norm2);
    if (!packer.gemm("v_fc2").b.bias) NPUSEG_RETURN_IF_ERROR(carry_bias(packer, &fc1, &fc2));
  } else {
    std::fill(fc2.b.begin(), fc2.b.end(), 0.0f);
  }
  NPUSEG_RETURN_IF_ERROR(packer.packed(name + "qkv", "v_qkv", qkv));
  NPUSEG_RETURN_IF_ERROR(packer.packed(name + "o", "v_o", Dense(layer.attention.o_proj)));
  NPUSEG_RETURN_IF_ERROR(packer.packed(name + "fc1", "v_fc1", fc1));
  NPUSEG_RETURN_IF_ERROR(packer.packed(name + "fc2", "v_fc2", fc2));
  if (on_device) return {};
  NPUSEG_RETURN_IF_ERROR(packer.norm(name + "ln1", layer.layer_norm1));
  NPUSEG_RETURN_IF_ERROR(packer.norm(name + "ln2", layer.layer_norm2));
  return packer.floats(name + "fc2.b", {added.size()}, added);
}

// Cosines and sines of every token in window order: as two tables, or as pairs in bfloat16.
Status repack_rope(Packer& packer, const std::string& kind, const RopeTable& table,
                   const std::vector<size_t>& rows) {
  const size_t half = packer.config().vit.head_dim() / 2;
  Floats cosines;
  Floats sines;
  Floats pairs;
  for (const size_t row : rows) {
    for (size_t i = row * half; i < (row + 1) * half; ++i) {
      cosines.push_back(table.cosine[i]);
      sines.push_back(table.sine[i]);
      pairs.insert(pairs.end(), {table.cosine[i], table.sine[i]});
    }
  }
  if (packer.params().vit_device) {
    return packer.halves("v.rope_tab." + kind, {rows.size(), 2 * half}, pairs);
  }
  NPUSEG_RETURN_IF_ERROR(packer.floats("v.rope." + kind + ".cos", {rows.size(), half}, cosines));
  return packer.floats("v.rope." + kind + ".sin", {rows.size(), half}, sines);
}

}  // namespace

Status repack_vit(Packer& packer) {
  const auto& vit = packer.config().vit;
  const auto& backbone = packer.weights().backbone;
  const std::vector<int32_t>& order = packer.constants().from_window;  // no padding: grid % window
  const size_t tokens = order.size();
  const size_t n = vit.position_rows;
  const Floats table = floats_of(backbone.position_embeddings);
  Floats positions;
  std::vector<size_t> in_window;
  std::vector<size_t> in_grid;
  for (size_t token = 0; token < tokens; ++token) {
    const auto raster = static_cast<size_t>(order[token]);
    const size_t row = raster / vit.grid() % n * n + raster % vit.grid() % n;
    const auto from = table.begin() + static_cast<std::ptrdiff_t>(row * vit.hidden_size);
    positions.insert(positions.end(), from, from + static_cast<std::ptrdiff_t>(vit.hidden_size));
    in_window.push_back(token % (vit.window_size * vit.window_size));
    in_grid.push_back(raster);
  }
  LinearWeights projection;
  projection.weight = backbone.patch_projection;
  NPUSEG_RETURN_IF_ERROR(packer.packed("v.embed", "v_embed", Dense(projection)));
  NPUSEG_RETURN_IF_ERROR(packer.integers("v.perm", order));
  NPUSEG_RETURN_IF_ERROR(packer.floats("v.pos", {tokens, vit.hidden_size}, positions));
  NPUSEG_RETURN_IF_ERROR(packer.norm("v.ln_pre", backbone.layer_norm));
  NPUSEG_RETURN_IF_ERROR(repack_rope(packer, "win", packer.constants().window_rope, in_window));
  NPUSEG_RETURN_IF_ERROR(repack_rope(packer, "glob", packer.constants().global_rope, in_grid));
  for (size_t i = 0; i < vit.layers; ++i) NPUSEG_RETURN_IF_ERROR(repack_layer(packer, i));
  return {};
}

}  // namespace npuseg::sam3

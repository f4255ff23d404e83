// SPDX-License-Identifier: Apache-2.0
// The text encoder, which runs on the host: its matrices as bfloat16 (spec
// iron-bundle-sam3.md, 3.3).
#include "model/sam3/repack_packer.h"

namespace npuseg::sam3 {

using core::Status;

namespace {

Status half_linear(Packer& packer, const std::string& name, const Dense& dense) {
  NPUSEG_RETURN_IF_ERROR(packer.halves(name + ".w", {dense.n, dense.k}, dense.w));
  return packer.floats(name + ".b", {dense.n}, dense.b);
}

}  // namespace

Status repack_text(Packer& packer) {
  const auto& text = packer.weights().text;
  const size_t width = packer.config().text.hidden_size;
  NPUSEG_RETURN_IF_ERROR(packer.halves("t.tok_emb", text.token_embedding));
  NPUSEG_RETURN_IF_ERROR(packer.floats("t.pos_emb", text.position_embedding));
  for (size_t i = 0; i < text.layers.size(); ++i) {
    const TextLayerWeights& layer = text.layers[i];
    const std::string name = "t." + std::to_string(i) + ".";
    Dense qkv(3 * width, width);
    qkv.take(Dense(layer.self_attn.q_proj), 0, width, 0);
    qkv.take(Dense(layer.self_attn.k_proj), 0, width, width);
    qkv.take(Dense(layer.self_attn.v_proj), 0, width, 2 * width);
    NPUSEG_RETURN_IF_ERROR(packer.norm(name + "ln1", layer.layer_norm1));
    NPUSEG_RETURN_IF_ERROR(packer.norm(name + "ln2", layer.layer_norm2));
    NPUSEG_RETURN_IF_ERROR(half_linear(packer, name + "qkv", qkv));
    NPUSEG_RETURN_IF_ERROR(half_linear(packer, name + "o", Dense(layer.self_attn.o_proj)));
    NPUSEG_RETURN_IF_ERROR(half_linear(packer, name + "fc1", Dense(layer.mlp.fc1)));
    NPUSEG_RETURN_IF_ERROR(half_linear(packer, name + "fc2", Dense(layer.mlp.fc2)));
  }
  NPUSEG_RETURN_IF_ERROR(packer.norm("t.final_ln", text.final_layer_norm));
  return packer.linear("t.proj", text.projection);
}

}  // namespace npuseg::sam3

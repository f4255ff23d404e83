// SPDX-License-Identifier: Apache-2.0
// DETR encoder and decoder, scoring and mask decoder for the NPU (spec iron-bundle-sam3.md, 6.4 and
// 6.5): products on the device packed, the rest as float32 for the host.
#include <algorithm>
#include <cmath>
#include <utility>

#include "model/sam3/repack_packer.h"

namespace npuseg::sam3 {

using core::Status;

namespace {

// The attention kernel's heads are wider than the model's: real channels first, zeros behind. Its
// scale is that of its own width, so queries are multiplied by the root of the ratio.
Dense encoder_qkv(const Packer& packer, const AttentionWeights& attention) {
  const size_t d = packer.config().hidden_size;
  const size_t heads = packer.config().detr_encoder.heads;
  const size_t real = d / heads;
  const size_t padded = packer.mha("mha_d").d;
  const double scale = std::sqrt(static_cast<double>(padded) / static_cast<double>(real));
  Dense out(3 * heads * padded, 2 * d);
  const LinearWeights* parts[] = {&attention.q_proj, &attention.k_proj, &attention.v_proj};
  for (size_t part = 0; part < 3; ++part) {
    Dense dense(*parts[part]);
    if (part == 0) {
      const auto scaled = [&](float v) { return static_cast<float>(v * scale); };
      std::transform(dense.w.begin(), dense.w.end(), dense.w.begin(), scaled);
      std::transform(dense.b.begin(), dense.b.end(), dense.b.begin(), scaled);
    }
    // Inputs are [normed + positions | normed]; values read the second.
    for (size_t head = 0; head < heads; ++head) {
      out.take(dense, head * real, real, (part * heads + head) * padded, part == 2 ? d : 0);
    }
  }
  return out;
}

Dense encoder_output(const Packer& packer, const LinearWeights& o_proj) {
  const size_t heads = packer.config().detr_encoder.heads;
  const size_t padded = packer.mha("mha_d").d;
  const Dense dense(o_proj);
  const size_t real = dense.k / heads;
  Dense out(dense.n, heads * padded);
  out.b = dense.b;
  for (size_t i = 0; i < dense.n; ++i) {
    for (size_t head = 0; head < heads; ++head) {
      std::copy_n(dense.w.data() + i * dense.k + head * real, real, out.row(i) + head * padded);
    }
  }
  return out;
}

template <size_t kCount>
Status head(Packer& packer, const std::string& name, const LinearWeights (&layers)[kCount],
            size_t first = 1) {
  for (size_t i = 0; i < kCount; ++i) {
    NPUSEG_RETURN_IF_ERROR(packer.linear(name + "." + std::to_string(first + i), layers[i]));
  }
  return {};
}

Status decoder_layer(Packer& packer, const std::string& name, const DecoderLayerWeights& layer) {
  NPUSEG_RETURN_IF_ERROR(packer.attention(name + "sa", layer.self_attn));
  NPUSEG_RETURN_IF_ERROR(packer.attention(name + "tca", layer.text_cross_attn));
  // Keys and values of all layers are in dec.kv.
  NPUSEG_RETURN_IF_ERROR(packer.linear(name + "vca.q", layer.vision_cross_attn.q_proj));
  NPUSEG_RETURN_IF_ERROR(packer.linear(name + "vca.o", layer.vision_cross_attn.o_proj));
  NPUSEG_RETURN_IF_ERROR(packer.norm(name + "sa_ln", layer.self_attn_layer_norm));
  NPUSEG_RETURN_IF_ERROR(packer.norm(name + "tca_ln", layer.text_cross_attn_layer_norm));
  NPUSEG_RETURN_IF_ERROR(packer.norm(name + "vca_ln", layer.vision_cross_attn_layer_norm));
  NPUSEG_RETURN_IF_ERROR(packer.norm(name + "mlp_ln", layer.mlp_layer_norm));
  NPUSEG_RETURN_IF_ERROR(packer.linear(name + "fc1", layer.mlp.fc1));
  return packer.linear(name + "fc2", layer.mlp.fc2);
}

Status repack_scoring(Packer& packer) {
  const auto& scoring = packer.weights().scoring;
  NPUSEG_RETURN_IF_ERROR(head(packer, "score.text_mlp", scoring.text_mlp));
  NPUSEG_RETURN_IF_ERROR(packer.norm("score.text_ln", scoring.text_mlp_out_norm));
  NPUSEG_RETURN_IF_ERROR(packer.linear("score.text_proj", scoring.text_proj));
  return packer.linear("score.query_proj", scoring.query_proj);
}

}  // namespace

Status repack_encoder(Packer& packer) {
  const size_t d = packer.config().hidden_size;
  const Floats& positions = packer.constants().positions;
  NPUSEG_RETURN_IF_ERROR(packer.floats("d.pos", {positions.size() / d, d}, positions));
  for (size_t i = 0; i < packer.weights().detr_encoder.size(); ++i) {
    const EncoderLayerWeights& layer = packer.weights().detr_encoder[i];
    const std::string name = "d." + std::to_string(i) + ".";
    NPUSEG_RETURN_IF_ERROR(packer.norm(name + "ln1", layer.layer_norm1));
    NPUSEG_RETURN_IF_ERROR(packer.norm(name + "ln2", layer.layer_norm2));
    NPUSEG_RETURN_IF_ERROR(packer.norm(name + "ln3", layer.layer_norm3));
    NPUSEG_RETURN_IF_ERROR(
        packer.packed(name + "qkv", "d_qkv", encoder_qkv(packer, layer.self_attn)));
    NPUSEG_RETURN_IF_ERROR(
        packer.packed(name + "o", "d_o", encoder_output(packer, layer.self_attn.o_proj)));
    NPUSEG_RETURN_IF_ERROR(packer.attention(name + "ca", layer.cross_attn));
    NPUSEG_RETURN_IF_ERROR(packer.packed(name + "fc1", "d_fc1", Dense(layer.mlp.fc1)));
    Dense fc2(layer.mlp.fc2);
    const Floats added = std::exchange(fc2.b, Floats(fc2.n));  // by the host
    NPUSEG_RETURN_IF_ERROR(packer.packed(name + "fc2", "d_fc2", fc2));
    NPUSEG_RETURN_IF_ERROR(packer.floats(name + "fc2.b", {added.size()}, added));
  }
  return {};
}

Status repack_decoder(Packer& packer) {
  const auto& decoder = packer.weights().decoder;
  const size_t d = packer.config().hidden_size;
  Dense kv(2 * d * decoder.layers.size(), 2 * d);
  for (size_t i = 0; i < decoder.layers.size(); ++i) {
    const AttentionWeights& attention = decoder.layers[i].vision_cross_attn;
    // Inputs are [memory + positions | memory].
    kv.take(Dense(attention.k_proj), 0, d, 2 * d * i);
    kv.take(Dense(attention.v_proj), 0, d, 2 * d * i + d, d);
  }
  NPUSEG_RETURN_IF_ERROR(packer.packed("dec.kv", "dec_kv", kv));
  NPUSEG_RETURN_IF_ERROR(packer.floats("dec.reference_points", decoder.reference_points));
  NPUSEG_RETURN_IF_ERROR(packer.floats("dec.query_embed", decoder.query_embed));
  NPUSEG_RETURN_IF_ERROR(packer.floats("dec.presence_token", decoder.presence_token));
  NPUSEG_RETURN_IF_ERROR(head(packer, "dec.ref_point_head", decoder.ref_point_head));
  NPUSEG_RETURN_IF_ERROR(head(packer, "dec.rpb_x", decoder.box_rpb_embed_x));
  NPUSEG_RETURN_IF_ERROR(head(packer, "dec.rpb_y", decoder.box_rpb_embed_y));
  for (size_t i = 0; i < decoder.layers.size(); ++i) {
    NPUSEG_RETURN_IF_ERROR(
        decoder_layer(packer, "dec." + std::to_string(i) + ".", decoder.layers[i]));
  }
  NPUSEG_RETURN_IF_ERROR(packer.norm("dec.out_ln", decoder.output_layer_norm));
  NPUSEG_RETURN_IF_ERROR(packer.norm("dec.presence_ln", decoder.presence_layer_norm));
  NPUSEG_RETURN_IF_ERROR(head(packer, "dec.box_head", decoder.box_head));
  NPUSEG_RETURN_IF_ERROR(head(packer, "dec.presence_head", decoder.presence_head));
  return repack_scoring(packer);
}

Status repack_masks(Packer& packer) {
  const auto& mask = packer.weights().mask;
  NPUSEG_RETURN_IF_ERROR(packer.attention("m.ca", mask.prompt_cross_attn));
  NPUSEG_RETURN_IF_ERROR(packer.norm("m.ca_ln", mask.prompt_cross_attn_norm));
  for (size_t i = 0; i < mask.conv_layers.size(); ++i) {
    const std::string index = std::to_string(i);
    NPUSEG_RETURN_IF_ERROR(packer.convolution("m.conv" + index, mask.conv_layers[i]));
    NPUSEG_RETURN_IF_ERROR(packer.floats("m.gn" + index + ".w", mask.norms[i].weight));
    NPUSEG_RETURN_IF_ERROR(packer.floats("m.gn" + index + ".b", mask.norms[i].bias));
  }
  NPUSEG_RETURN_IF_ERROR(head(packer, "m.embed", mask.mask_embedder, 0));
  NPUSEG_RETURN_IF_ERROR(packer.linear("m.inst", mask.instance_projection));
  NPUSEG_RETURN_IF_ERROR(packer.floats("m.sem.w", {mask.semantic_projection.weight.row_elements()},
                                       floats_of(mask.semantic_projection.weight)));
  Floats bias = floats_of(mask.semantic_projection.bias);
  bias.resize(1);
  return packer.floats("m.sem.b", {1}, bias);
}

}  // namespace npuseg::sam3

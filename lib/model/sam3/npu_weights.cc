// SPDX-License-Identifier: Apache-2.0
#include "model/sam3/npu_weights.h"

#include <string>
#include <vector>

#include "compute/elementwise.h"

namespace npuseg::sam3 {

using bundle::Bundle;
using bundle::Sam3Params;
using core::Code;
using core::DType;
using core::format;
using core::Shape;
using core::Status;
using core::TensorView;

namespace {

constexpr float kDetrEps = 1e-5f;  // of every norm outside of ViT and text encoder

// Keeps the first fault.
class Binder {
 public:
  Binder(const Bundle& bundle, bool check_values, Weights* out)
      : bundle_(bundle), check_values_(check_values), out_(out) {}

  [[nodiscard]] const Status& status() const { return status_; }

  void tensor(const std::string& name, DType dtype, const Shape& shape, TensorView* view) {
    if (!status_.ok()) return;
    auto found = bundle_.tensors().get(name, dtype, shape);
    if (!found.ok()) {
      status_ = found.status();
      return;
    }
    *view = found.value();
    view->shape = shape;
    use(name, *view);
  }
  void floats(const std::string& name, const Shape& shape, TensorView* view) {
    tensor(name, DType::kF32, shape, view);
  }
  void halves(const std::string& name, const Shape& shape, TensorView* view) {
    tensor(name, DType::kBF16, shape, view);
  }
  void norm(const std::string& name, size_t size, float eps, compute::LayerNorm* norm) {
    floats(name + ".w", {size}, &norm->gamma);
    floats(name + ".b", {size}, &norm->beta);
    norm->eps = eps;
  }
  // Its bias may be absent.
  void linear(const std::string& name, size_t out, size_t in, LinearWeights* weights) {
    floats(name + ".w", {out, in}, &weights->weight);
    if (bundle_.tensors().find(name + ".b") != nullptr) bias(name + ".b", out, weights);
  }
  void half_linear(const std::string& name, size_t out, size_t in, LinearWeights* weights) {
    halves(name + ".w", {out, in}, &weights->weight);
    bias(name + ".b", out, weights);
  }
  void bias(const std::string& name, size_t out, LinearWeights* weights) {
    floats(name, {out}, &weights->bias);
  }
  void attention(const std::string& name, size_t size, AttentionWeights* weights) {
    linear(name + ".q", size, size, &weights->q_proj);
    linear(name + ".k", size, size, &weights->k_proj);
    linear(name + ".v", size, size, &weights->v_proj);
    linear(name + ".o", size, size, &weights->o_proj);
  }
  // Layers name.1 .. name.N between inputs and outputs, `inner` wide between them.
  template <size_t kCount>
  void head(const std::string& name, size_t in, size_t inner, size_t out,
            LinearWeights (&layers)[kCount]) {
    for (size_t i = 0; i < kCount; ++i) {
      linear(name + "." + std::to_string(i + 1), i + 1 == kCount ? out : inner, i == 0 ? in : inner,
             &layers[i]);
    }
  }
  // Rows of a tensor of which only the width is known; 0 when it is absent or of another kind.
  size_t rows(const std::string& name, DType dtype, size_t width) {
    const bundle::StoredTensor* tensor = bundle_.tensors().find(name);
    const size_t values = tensor == nullptr ? 0 : tensor->view.shape.elements();
    if (tensor != nullptr && tensor->view.dtype == dtype && values != 0 && values % width == 0) {
      return values / width;
    }
    refuse(tensor == nullptr
               ? "there is no tensor " + name
               : format("tensor %s should be %s rows of %zu values, it is %s with %zu values",
                        name.c_str(), core::dtype_name(dtype), width,
                        core::dtype_name(tensor->view.dtype), values));
    return 0;
  }
  void refuse(const std::string& why) {
    if (!status_.ok()) return;
    status_ = {Code::kCorruptData, "cannot use bundle: " + bundle_.directory() + ": " + why +
                                       "; export the bundle again"};
  }

 private:
  void use(const std::string& name, const TensorView& view) {
    out_->used.emplace_back(name, view);
    // The text encoder's large matrices are not read at load; its output is checked.
    if (!check_values_ || view.dtype != DType::kF32) return;
    const size_t bad = compute::find_non_finite(view);
    if (bad != view.shape.elements()) {
      refuse(format("value %zu of tensor %s is not finite", bad, name.c_str()));
    }
  }

  const Bundle& bundle_;
  bool check_values_;
  Weights* out_;
  Status status_;
};

void bind_vit(const Bundle& bundle, Binder* bind, Weights* out, NpuTables* tables) {
  const Sam3Params& p = bundle.sam3().params;
  const size_t tokens = p.tokens();
  TensorView raster;
  bind->tensor("v.perm", DType::kI32, {tokens}, &raster);
  if (raster.empty()) return;
  tables->raster = static_cast<const int32_t*>(raster.data);
  std::vector<bool> seen(tokens, false);
  for (size_t i = 0; i < tokens; ++i) {
    const auto at = static_cast<size_t>(static_cast<uint32_t>(tables->raster[i]));
    if (at >= tokens || seen[at]) {
      bind->refuse(format("value %zu of tensor v.perm is %d, no order of %zu tokens", i,
                          tables->raster[i], tokens));
      return;
    }
    seen[at] = true;
  }
  bind->floats("v.pos", {tokens, p.vit_dim}, &tables->positions);
  bind->norm("v.ln_pre", p.vit_dim, p.vit_eps, &out->backbone.layer_norm);
  if (p.vit_device) return;
  const size_t half = p.vit_dim / p.vit_heads / 2;
  for (const size_t global : {size_t{0}, size_t{1}}) {
    const std::string name = global == 1 ? "v.rope.glob" : "v.rope.win";
    bind->floats(name + ".cos", {tokens, half}, &tables->cosine[global]);
    bind->floats(name + ".sin", {tokens, half}, &tables->sine[global]);
  }
  out->backbone.layers.resize(p.vit_layers);
  for (size_t i = 0; i < p.vit_layers; ++i) {
    const std::string name = "v." + std::to_string(i);
    VitLayerWeights& layer = out->backbone.layers[i];
    bind->norm(name + ".ln1", p.vit_dim, p.vit_eps, &layer.layer_norm1);
    bind->norm(name + ".ln2", p.vit_dim, p.vit_eps, &layer.layer_norm2);
    bind->bias(name + ".fc2.b", p.vit_dim, &layer.mlp.fc2);
  }
}

void bind_text(const Bundle& bundle, Binder* bind, Weights* out) {
  const Sam3Params& p = bundle.sam3().params;
  const size_t w = p.text_dim;
  auto& text = out->text;
  bind->halves("t.tok_emb", {bind->rows("t.tok_emb", DType::kBF16, w), w}, &text.token_embedding);
  bind->floats("t.pos_emb", {p.text_len, w}, &text.position_embedding);
  text.layers.resize(p.text_layers);
  for (size_t i = 0; i < p.text_layers; ++i) {
    const std::string name = "t." + std::to_string(i);
    TextLayerWeights& layer = text.layers[i];
    bind->norm(name + ".ln1", w, p.text_eps, &layer.layer_norm1);
    bind->norm(name + ".ln2", w, p.text_eps, &layer.layer_norm2);
    LinearWeights qkv;
    bind->half_linear(name + ".qkv", 3 * w, w, &qkv);
    bind->half_linear(name + ".o", w, w, &layer.self_attn.o_proj);
    bind->half_linear(name + ".fc1", p.text_ffn, w, &layer.mlp.fc1);
    bind->half_linear(name + ".fc2", w, p.text_ffn, &layer.mlp.fc2);
    if (!bind->status().ok()) return;
    size_t part = 0;
    for (LinearWeights* one :
         {&layer.self_attn.q_proj, &layer.self_attn.k_proj, &layer.self_attn.v_proj}) {
      *one = {qkv.weight.rows(part * w, w), qkv.bias.rows(part * w, w)};
      ++part;
    }
  }
  bind->norm("t.final_ln", w, p.text_eps, &text.final_layer_norm);
  bind->linear("t.proj", p.d_model, w, &text.projection);
}

void bind_encoder(const Bundle& bundle, Binder* bind, Weights* out, NpuTables* tables) {
  const Sam3Params& p = bundle.sam3().params;
  const size_t d = p.d_model;
  bind->floats("d.pos", {p.tokens(), d}, &tables->map_positions);
  out->detr_encoder.resize(p.d_layers);
  for (size_t i = 0; i < p.d_layers; ++i) {
    const std::string name = "d." + std::to_string(i);
    EncoderLayerWeights& layer = out->detr_encoder[i];
    bind->norm(name + ".ln1", d, kDetrEps, &layer.layer_norm1);
    bind->norm(name + ".ln2", d, kDetrEps, &layer.layer_norm2);
    bind->norm(name + ".ln3", d, kDetrEps, &layer.layer_norm3);
    bind->attention(name + ".ca", d, &layer.cross_attn);
    bind->bias(name + ".fc2.b", d, &layer.mlp.fc2);
  }
}

void bind_decoder(const Bundle& bundle, Binder* bind, Weights* out) {
  const Sam3Params& p = bundle.sam3().params;
  const size_t d = p.d_model;
  auto& decoder = out->decoder;
  bind->floats("dec.reference_points", {p.queries, 4}, &decoder.reference_points);
  bind->floats("dec.query_embed", {p.queries, d}, &decoder.query_embed);
  bind->floats("dec.presence_token", {1, d}, &decoder.presence_token);
  bind->head("dec.ref_point_head", 2 * d, d, d, decoder.ref_point_head);
  bind->head("dec.rpb_x", 2, d, p.d_heads, decoder.box_rpb_embed_x);
  bind->head("dec.rpb_y", 2, d, p.d_heads, decoder.box_rpb_embed_y);
  decoder.layers.resize(p.dec_layers);
  for (size_t i = 0; i < p.dec_layers; ++i) {
    const std::string name = "dec." + std::to_string(i);
    DecoderLayerWeights& layer = decoder.layers[i];
    bind->attention(name + ".sa", d, &layer.self_attn);
    bind->attention(name + ".tca", d, &layer.text_cross_attn);
    // Its keys and values come from a kernel.
    bind->linear(name + ".vca.q", d, d, &layer.vision_cross_attn.q_proj);
    bind->linear(name + ".vca.o", d, d, &layer.vision_cross_attn.o_proj);
    bind->norm(name + ".sa_ln", d, kDetrEps, &layer.self_attn_layer_norm);
    bind->norm(name + ".tca_ln", d, kDetrEps, &layer.text_cross_attn_layer_norm);
    bind->norm(name + ".vca_ln", d, kDetrEps, &layer.vision_cross_attn_layer_norm);
    bind->norm(name + ".mlp_ln", d, kDetrEps, &layer.mlp_layer_norm);
    bind->linear(name + ".fc1", p.d_ffn, d, &layer.mlp.fc1);
    bind->linear(name + ".fc2", d, p.d_ffn, &layer.mlp.fc2);
  }
  bind->norm("dec.out_ln", d, kDetrEps, &decoder.output_layer_norm);
  bind->norm("dec.presence_ln", d, kDetrEps, &decoder.presence_layer_norm);
  bind->head("dec.box_head", d, d, 4, decoder.box_head);
  bind->head("dec.presence_head", d, d, 1, decoder.presence_head);
  auto& scoring = out->scoring;
  const size_t inner = bind->rows("score.text_mlp.1.w", DType::kF32, d);
  bind->head("score.text_mlp", d, inner, d, scoring.text_mlp);
  bind->norm("score.text_ln", d, kDetrEps, &scoring.text_mlp_out_norm);
  bind->linear("score.text_proj", d, d, &scoring.text_proj);
  bind->linear("score.query_proj", d, d, &scoring.query_proj);
}

void bind_maps(const Bundle& bundle, Binder* bind, Weights* out) {
  const size_t d = bundle.sam3().params.d_model;
  out->fpn.resize(3);
  for (size_t i = 0; i < 3; ++i) {
    bind->bias("n.conv" + std::to_string(i) + ".b", d, &out->fpn[i].proj2);
  }
  auto& mask = out->mask;
  mask.conv_layers.resize(2);
  mask.norms.resize(2);
  for (size_t i = 0; i < 2; ++i) {
    const std::string index = std::to_string(i);
    bind->bias("m.conv" + index + ".b", d, &mask.conv_layers[i]);
    bind->floats("m.gn" + index + ".w", {d}, &mask.norms[i].weight);
    bind->floats("m.gn" + index + ".b", {d}, &mask.norms[i].bias);
  }
  bind->attention("m.ca", d, &mask.prompt_cross_attn);
  bind->norm("m.ca_ln", d, kDetrEps, &mask.prompt_cross_attn_norm);
  for (size_t i = 0; i < 3; ++i) {
    bind->linear("m.embed." + std::to_string(i), d, d, &mask.mask_embedder[i]);
  }
  bind->linear("m.inst", d, d, &mask.instance_projection);
  bind->linear("m.sem", 1, d, &mask.semantic_projection);
}

}  // namespace

Status bind_npu_weights(const Bundle& bundle, bool check_values, Weights* weights,
                        NpuTables* tables) {
  Binder bind(bundle, check_values, weights);
  bind_vit(bundle, &bind, weights, tables);
  bind_text(bundle, &bind, weights);
  bind_encoder(bundle, &bind, weights, tables);
  bind_decoder(bundle, &bind, weights);
  bind_maps(bundle, &bind, weights);
  return bind.status();
}

}  // namespace npuseg::sam3

// SPDX-License-Identifier: Apache-2.0
#include "model/sam3/weights.h"

#include <array>

namespace npuseg::sam3 {

using checkpoint::Sam3Config;
using core::Code;
using core::Shape;
using core::Status;
using core::TensorView;

namespace {

// LayerNorm and GroupNorm outside of ViT and text tower keep PyTorch's default (spec 2.6).
constexpr float kDefaultEps = 1e-5f;

std::string shape_text(const Shape& shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.rank; ++i) {
    if (i != 0) text += ", ";
    text += std::to_string(shape[i]);
  }
  return text + "]";
}

// Looks tensors up and gathers what is wrong, so that one message can name several faults.
class Binder {
 public:
  Binder(const checkpoint::Checkpoint& files, Weights* out) : files_(files), out_(out) {}

  void tensor(const std::string& name, const Shape& shape, TensorView* view) {
    const checkpoint::TensorEntry* entry = files_.find("detector_model." + name);
    if (entry == nullptr) entry = files_.find(name);
    if (entry == nullptr) {
      complain("tensor " + name + " is missing");
      return;
    }
    const core::DType type = entry->view.dtype;
    if (type != core::DType::kF32 && type != core::DType::kF16 && type != core::DType::kBF16 &&
        type != core::DType::kF64) {
      complain("tensor " + name + " has type " + entry->dtype_name +
               ", but weights must be F32, F16, BF16 or F64");
      return;
    }
    if (!(entry->view.shape == shape)) {
      complain("tensor " + name + " has shape " + shape_text(entry->view.shape) +
               ", but the config asks for " + shape_text(shape));
      return;
    }
    *view = entry->view;
    out_->used.emplace_back(name, entry->view);
  }

  void linear(const std::string& name, size_t out, size_t in, LinearWeights* weights) {
    tensor(name + ".weight", {out, in}, &weights->weight);
    tensor(name + ".bias", {out}, &weights->bias);
  }

  void conv(const std::string& name, size_t out, size_t in, size_t kernel, LinearWeights* weights) {
    tensor(name + ".weight", {out, in, kernel, kernel}, &weights->weight);
    tensor(name + ".bias", {out}, &weights->bias);
  }

  void conv_transpose(const std::string& name, size_t in, size_t out, LinearWeights* weights) {
    tensor(name + ".weight", {in, out, 2, 2}, &weights->weight);
    tensor(name + ".bias", {out}, &weights->bias);
  }

  void norm(const std::string& name, size_t size, float eps, compute::LayerNorm* norm) {
    tensor(name + ".weight", {size}, &norm->gamma);
    tensor(name + ".bias", {size}, &norm->beta);
    norm->eps = eps;
  }

  void attention(const std::string& name, size_t size, const char* output,
                 AttentionWeights* weights) {
    linear(name + ".q_proj", size, size, &weights->q_proj);
    linear(name + ".k_proj", size, size, &weights->k_proj);
    linear(name + ".v_proj", size, size, &weights->v_proj);
    linear(name + "." + output, size, size, &weights->o_proj);
  }

  void mlp(const std::string& name, size_t size, size_t inner, MlpWeights* weights) {
    linear(name + ".fc1", inner, size, &weights->fc1);
    linear(name + ".fc2", size, inner, &weights->fc2);
  }

  void encoder_layer(const std::string& name, size_t size, size_t inner,
                     EncoderLayerWeights* layer) {
    norm(name + ".layer_norm1", size, kDefaultEps, &layer->layer_norm1);
    norm(name + ".layer_norm2", size, kDefaultEps, &layer->layer_norm2);
    norm(name + ".layer_norm3", size, kDefaultEps, &layer->layer_norm3);
    attention(name + ".self_attn", size, "o_proj", &layer->self_attn);
    attention(name + ".cross_attn", size, "o_proj", &layer->cross_attn);
    mlp(name + ".mlp", size, inner, &layer->mlp);
  }

  // layer1 .. layerN, inner width = `inner` between them.
  template <size_t kCount>
  void head(const std::string& name, size_t in, size_t inner, size_t out,
            LinearWeights (&layers)[kCount]) {
    for (size_t i = 0; i < kCount; ++i) {
      linear(name + ".layer" + std::to_string(i + 1), i + 1 == kCount ? out : inner,
             i == 0 ? in : inner, &layers[i]);
    }
  }

  Status finish(const std::string& directory) {
    if (faults_ == 0) return {};
    std::string text = "cannot use model: " + directory + ": " + message_;
    if (faults_ > kNamed) text += core::format(" (and %zu more)", faults_ - kNamed);
    return Status(Code::kCorruptData,
                  text + "; the files do not belong together or are incomplete, get them again");
  }

 private:
  static constexpr size_t kNamed = 3;

  void complain(const std::string& fault) {
    if (faults_ < kNamed) message_ += (faults_ == 0 ? "" : ", ") + fault;
    ++faults_;
  }

  const checkpoint::Checkpoint& files_;
  Weights* out_;
  std::string message_;
  size_t faults_ = 0;
};

void bind_vision(const Sam3Config& config, Binder* bind, Weights* out) {
  const auto& vit = config.vit;
  const size_t v = vit.hidden_size;
  const size_t d = config.hidden_size;
  const std::string backbone = "vision_encoder.backbone.";
  bind->tensor(backbone + "embeddings.patch_embeddings.projection.weight",
               {v, vit.channels, vit.patch_size, vit.patch_size}, &out->backbone.patch_projection);
  bind->tensor(backbone + "embeddings.position_embeddings",
               {1, vit.position_rows * vit.position_rows, v}, &out->backbone.position_embeddings);
  bind->norm(backbone + "layer_norm", v, vit.layer_norm_eps, &out->backbone.layer_norm);
  out->backbone.layers.resize(vit.layers);
  for (size_t i = 0; i < vit.layers; ++i) {
    const std::string name = backbone + "layers." + std::to_string(i);
    VitLayerWeights& layer = out->backbone.layers[i];
    bind->norm(name + ".layer_norm1", v, vit.layer_norm_eps, &layer.layer_norm1);
    bind->norm(name + ".layer_norm2", v, vit.layer_norm_eps, &layer.layer_norm2);
    bind->attention(name + ".attention", v, "o_proj", &layer.attention);
    bind->mlp(name + ".mlp", v, vit.intermediate_size, &layer.mlp);
  }
  out->fpn.resize(config.kept_levels());
  for (size_t i = 0; i < out->fpn.size(); ++i) {
    const std::string name = "vision_encoder.neck.fpn_layers." + std::to_string(i);
    FpnLayerWeights& level = out->fpn[i];
    size_t width = v;
    if (config.scale_factors[i] == 4.0) {
      level.scale_layers.resize(2);
      bind->conv_transpose(name + ".scale_layers.0", v, v / 2, &level.scale_layers[0]);
      bind->conv_transpose(name + ".scale_layers.2", v / 2, v / 4, &level.scale_layers[1]);
      width = v / 4;
    } else if (config.scale_factors[i] == 2.0) {
      level.scale_layers.resize(1);
      bind->conv_transpose(name + ".scale_layers.0", v, v / 2, &level.scale_layers[0]);
      width = v / 2;
    }
    bind->conv(name + ".proj1", d, width, 1, &level.proj1);
    bind->conv(name + ".proj2", d, d, 3, &level.proj2);
  }
}

void bind_text(const Sam3Config& config, Binder* bind, Weights* out) {
  const auto& text = config.text;
  const size_t w = text.hidden_size;
  const std::string model = "text_encoder.text_model.";
  bind->tensor(model + "embeddings.token_embedding.weight", {text.vocab_size, w},
               &out->text.token_embedding);
  bind->tensor(model + "embeddings.position_embedding.weight", {text.positions, w},
               &out->text.position_embedding);
  out->text.layers.resize(text.layers);
  for (size_t i = 0; i < text.layers; ++i) {
    const std::string name = model + "encoder.layers." + std::to_string(i);
    TextLayerWeights& layer = out->text.layers[i];
    bind->norm(name + ".layer_norm1", w, text.layer_norm_eps, &layer.layer_norm1);
    bind->norm(name + ".layer_norm2", w, text.layer_norm_eps, &layer.layer_norm2);
    bind->attention(name + ".self_attn", w, "out_proj", &layer.self_attn);
    bind->mlp(name + ".mlp", w, text.intermediate_size, &layer.mlp);
  }
  bind->norm(model + "final_layer_norm", w, text.layer_norm_eps, &out->text.final_layer_norm);
  bind->linear("text_projection", config.hidden_size, w, &out->text.projection);
}

void bind_geometry(const Sam3Config& config, Binder* bind, Weights* out) {
  const size_t d = config.hidden_size;
  const std::string name = "geometry_encoder.";
  bind->tensor(name + "label_embed.weight", {2, d}, &out->geometry.label_embed);
  bind->tensor(name + "cls_embed.weight", {1, d}, &out->geometry.cls_embed);
  bind->linear(name + "boxes_direct_project", d, 4, &out->geometry.boxes_direct_project);
  bind->conv(name + "boxes_pool_project", d, d, config.roi_size, &out->geometry.boxes_pool_project);
  bind->linear(name + "boxes_pos_enc_project", d, d + 2, &out->geometry.boxes_pos_enc_project);
  bind->norm(name + "vision_layer_norm", d, kDefaultEps, &out->geometry.vision_layer_norm);
  bind->norm(name + "prompt_layer_norm", d, kDefaultEps, &out->geometry.prompt_layer_norm);
  bind->norm(name + "output_layer_norm", d, kDefaultEps, &out->geometry.output_layer_norm);
  bind->linear(name + "final_proj", d, d, &out->geometry.final_proj);
  out->geometry.layers.resize(config.geometry.layers);
  for (size_t i = 0; i < config.geometry.layers; ++i) {
    bind->encoder_layer(name + "layers." + std::to_string(i), d, config.geometry.intermediate_size,
                        &out->geometry.layers[i]);
  }
}

void bind_detr(const Sam3Config& config, Binder* bind, Weights* out) {
  const size_t d = config.hidden_size;
  out->detr_encoder.resize(config.detr_encoder.layers);
  for (size_t i = 0; i < config.detr_encoder.layers; ++i) {
    bind->encoder_layer("detr_encoder.layers." + std::to_string(i), d,
                        config.detr_encoder.intermediate_size, &out->detr_encoder[i]);
  }
  auto& decoder = out->decoder;
  const std::string name = "detr_decoder.";
  decoder.layers.resize(config.detr_decoder.layers);
  for (size_t i = 0; i < config.detr_decoder.layers; ++i) {
    const std::string at = name + "layers." + std::to_string(i);
    DecoderLayerWeights& layer = decoder.layers[i];
    bind->attention(at + ".self_attn", d, "o_proj", &layer.self_attn);
    bind->attention(at + ".text_cross_attn", d, "o_proj", &layer.text_cross_attn);
    bind->attention(at + ".vision_cross_attn", d, "o_proj", &layer.vision_cross_attn);
    bind->norm(at + ".self_attn_layer_norm", d, kDefaultEps, &layer.self_attn_layer_norm);
    bind->norm(at + ".text_cross_attn_layer_norm", d, kDefaultEps,
               &layer.text_cross_attn_layer_norm);
    bind->norm(at + ".vision_cross_attn_layer_norm", d, kDefaultEps,
               &layer.vision_cross_attn_layer_norm);
    bind->norm(at + ".mlp_layer_norm", d, kDefaultEps, &layer.mlp_layer_norm);
    bind->mlp(at + ".mlp", d, config.detr_decoder.intermediate_size, &layer.mlp);
  }
  bind->norm(name + "output_layer_norm", d, kDefaultEps, &decoder.output_layer_norm);
  bind->head(name + "box_head", d, d, 4, decoder.box_head);
  bind->tensor(name + "query_embed.weight", {config.queries, d}, &decoder.query_embed);
  bind->tensor(name + "reference_points.weight", {config.queries, 4}, &decoder.reference_points);
  bind->tensor(name + "presence_token.weight", {1, d}, &decoder.presence_token);
  bind->head(name + "presence_head", d, d, 1, decoder.presence_head);
  bind->norm(name + "presence_layer_norm", d, kDefaultEps, &decoder.presence_layer_norm);
  bind->head(name + "ref_point_head", 2 * d, d, d, decoder.ref_point_head);
  bind->head(name + "box_rpb_embed_x", 2, d, config.detr_decoder.heads, decoder.box_rpb_embed_x);
  bind->head(name + "box_rpb_embed_y", 2, d, config.detr_decoder.heads, decoder.box_rpb_embed_y);

  auto& scoring = out->scoring;
  const std::string score = "dot_product_scoring.";
  bind->head(score + "text_mlp", d, config.detr_decoder.intermediate_size, d, scoring.text_mlp);
  bind->norm(score + "text_mlp_out_norm", d, kDefaultEps, &scoring.text_mlp_out_norm);
  bind->linear(score + "text_proj", d, d, &scoring.text_proj);
  bind->linear(score + "query_proj", d, d, &scoring.query_proj);
}

void bind_mask(const Sam3Config& config, Binder* bind, Weights* out) {
  const size_t d = config.hidden_size;
  auto& mask = out->mask;
  const std::string name = "mask_decoder.";
  const size_t stages = config.kept_levels() - 1;
  mask.conv_layers.resize(stages);
  mask.norms.resize(stages);
  for (size_t i = 0; i < stages; ++i) {
    const std::string index = std::to_string(i);
    bind->conv(name + "pixel_decoder.conv_layers." + index, d, d, 3, &mask.conv_layers[i]);
    bind->tensor(name + "pixel_decoder.norms." + index + ".weight", {d}, &mask.norms[i].weight);
    bind->tensor(name + "pixel_decoder.norms." + index + ".bias", {d}, &mask.norms[i].bias);
  }
  for (size_t i = 0; i < 3; ++i) {
    bind->linear(name + "mask_embedder.layers." + std::to_string(i), d, d, &mask.mask_embedder[i]);
  }
  bind->conv(name + "instance_projection", d, d, 1, &mask.instance_projection);
  bind->conv(name + "semantic_projection", 1, d, 1, &mask.semantic_projection);
  bind->attention(name + "prompt_cross_attn", d, "o_proj", &mask.prompt_cross_attn);
  bind->norm(name + "prompt_cross_attn_norm", d, kDefaultEps, &mask.prompt_cross_attn_norm);
}

}  // namespace

Status Weights::bind(const checkpoint::Checkpoint& files, const Sam3Config& config,
                     const std::string& directory, Weights* out) {
  Binder binder(files, out);
  bind_vision(config, &binder, out);
  bind_text(config, &binder, out);
  bind_geometry(config, &binder, out);
  bind_detr(config, &binder, out);
  bind_mask(config, &binder, out);
  return binder.finish(directory);
}

}  // namespace npuseg::sam3

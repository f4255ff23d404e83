// SPDX-License-Identifier: Apache-2.0
#include "model/embeddinggemma2/weights.h"

#include <set>

namespace npuseg::embeddinggemma2 {

using checkpoint::EmbeddingGemma2Config;
using core::Code;
using core::Shape;
using core::Status;
using core::TensorView;

namespace {

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
    const checkpoint::TensorEntry* entry = files_.find(name);
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

  void linear(const std::string& name, const Shape& shape, TensorView* view) {
    const size_t before = out_->used.size();
    tensor(name, shape, view);
    if (out_->used.size() != before) out_->linears.push_back({before, view});
  }

  struct LayerSizes {
    size_t hidden;
    size_t inner;
    size_t q_width;
    size_t kv_width;
    size_t head_dim;
  };

  // weight: what stands behind a linear layer's name.
  void layer(const std::string& name, const LayerSizes& sizes, const std::string& weight,
             LayerWeights* layer) {
    const size_t h = sizes.hidden;
    tensor(name + ".input_layernorm.weight", {h}, &layer->input_layernorm);
    tensor(name + ".post_attention_layernorm.weight", {h}, &layer->post_attention_layernorm);
    tensor(name + ".pre_feedforward_layernorm.weight", {h}, &layer->pre_feedforward_layernorm);
    tensor(name + ".post_feedforward_layernorm.weight", {h}, &layer->post_feedforward_layernorm);
    const std::string attention = name + ".self_attn.";
    linear(attention + "q_proj" + weight, {sizes.q_width, h}, &layer->q_proj);
    linear(attention + "k_proj" + weight, {sizes.kv_width, h}, &layer->k_proj);
    linear(attention + "v_proj" + weight, {sizes.kv_width, h}, &layer->v_proj);
    linear(attention + "o_proj" + weight, {h, sizes.q_width}, &layer->o_proj);
    tensor(attention + "q_norm.weight", {sizes.head_dim}, &layer->q_norm);
    tensor(attention + "k_norm.weight", {sizes.head_dim}, &layer->k_norm);
    const std::string mlp = name + ".mlp.";
    linear(mlp + "gate_proj" + weight, {sizes.inner, h}, &layer->gate_proj);
    linear(mlp + "up_proj" + weight, {sizes.inner, h}, &layer->up_proj);
    linear(mlp + "down_proj" + weight, {h, sizes.inner}, &layer->down_proj);
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

void bind_text(const EmbeddingGemma2Config& config, Binder* bind, TextWeights* out) {
  const auto& text = config.text;
  const size_t h = text.hidden_size;
  const size_t p = text.per_layer_size;
  const std::string model = "language_model.";
  bind->tensor(model + "embed_tokens.weight", {text.vocab_size, h}, &out->embed_tokens);
  bind->linear(model + "ple.per_layer_model_projection.weight", {text.layers * p, h},
               &out->per_layer_model_projection);
  bind->tensor(model + "ple.per_layer_projection_norm.weight", {p},
               &out->per_layer_projection_norm);
  out->layers.resize(text.layers);
  for (size_t i = 0; i < text.layers; ++i) {
    const std::string name = model + "layers." + std::to_string(i);
    TextLayerWeights& layer = out->layers[i];
    bind->layer(
        name,
        {h, text.intermediate_size, text.q_width(i), text.kv_width(i), text.attention(i).head_dim},
        ".weight", &layer.shared);
    const std::string block = name + ".ple_block.";
    bind->linear(block + "per_layer_input_gate.weight", {p, h}, &layer.per_layer_input_gate);
    bind->linear(block + "per_layer_projection.weight", {h, p}, &layer.per_layer_projection);
    bind->tensor(block + "post_per_layer_input_norm.weight", {h}, &layer.post_per_layer_input_norm);
    bind->tensor(name + ".layer_scalar", {1}, &layer.layer_scalar);
  }
  bind->tensor(model + "norm.weight", {h}, &out->norm);
  bind->linear(model + "embedding_projection.weight", {text.embedding_dim, h},
               &out->embedding_projection);
}

void bind_vision(const EmbeddingGemma2Config& config, Binder* bind, VisionWeights* out) {
  const auto& vision = *config.vision;
  const size_t c = vision.hidden_size;
  const std::string tower = "vision_tower.";
  bind->linear(tower + "patch_embedder.input_proj.weight", {c, vision.patch_values()},
               &out->input_proj);
  bind->tensor(tower + "patch_embedder.position_embedding_table", {2, vision.position_rows, c},
               &out->position_embedding_table);
  out->layers.resize(vision.layers);
  for (size_t i = 0; i < vision.layers; ++i) {
    bind->layer(tower + "encoder.layers." + std::to_string(i),
                {c, vision.intermediate_size, vision.heads * vision.head_dim,
                 vision.kv_heads * vision.head_dim, vision.head_dim},
                ".linear.weight", &out->layers[i]);
  }
  bind->linear("embed_vision.embedding_projection.weight", {config.text.hidden_size, c},
               &out->embedding_projection);
}

}  // namespace

Status Weights::bind(const checkpoint::Checkpoint& files, const EmbeddingGemma2Config& config,
                     const std::string& directory, Weights* out) {
  Binder binder(files, out);
  bind_text(config, &binder, &out->text);
  if (config.vision.has_value()) bind_vision(config, &binder, &out->vision);
  NPUSEG_RETURN_IF_ERROR(binder.finish(directory));
  std::set<std::string_view> used;
  for (const auto& [name, view] : out->used) used.insert(name);
  for (const auto& [name, entry] : files.tensors()) {
    if (checkpoint::wants_tensor(config, name) && used.find(name) == used.end()) {
      out->surplus.push_back(name);
    }
  }
  return {};
}

}  // namespace npuseg::embeddinggemma2

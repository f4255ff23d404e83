// SPDX-License-Identifier: Apache-2.0
#include "hash_weights.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <utility>

namespace npuseg::test {

using checkpoint::Sam3Config;

namespace {

// Names and shapes in the order of the model's parts.
class Lister {
 public:
  void tensor(const std::string& name, std::vector<size_t> shape) {
    list.push_back({name, std::move(shape)});
  }
  void linear(const std::string& name, size_t out, size_t in) {
    tensor(name + ".weight", {out, in});
    tensor(name + ".bias", {out});
  }
  void conv(const std::string& name, size_t out, size_t in, size_t kernel) {
    tensor(name + ".weight", {out, in, kernel, kernel});
    tensor(name + ".bias", {out});
  }
  void conv_transpose(const std::string& name, size_t in, size_t out) {
    tensor(name + ".weight", {in, out, 2, 2});
    tensor(name + ".bias", {out});
  }
  void norm(const std::string& name, size_t size) {
    tensor(name + ".weight", {size});
    tensor(name + ".bias", {size});
  }
  void attention(const std::string& name, size_t size, const char* output = "o_proj") {
    for (const char* part : {"q_proj", "k_proj", "v_proj", output}) {
      linear(name + "." + part, size, size);
    }
  }
  void mlp(const std::string& name, size_t size, size_t inner) {
    linear(name + ".fc1", inner, size);
    linear(name + ".fc2", size, inner);
  }
  void encoder_layer(const std::string& name, size_t size, size_t inner) {
    for (const char* part : {".layer_norm1", ".layer_norm2", ".layer_norm3"}) {
      norm(name + part, size);
    }
    attention(name + ".self_attn", size);
    attention(name + ".cross_attn", size);
    mlp(name + ".mlp", size, inner);
  }
  void head(const std::string& name, const std::vector<size_t>& widths) {
    for (size_t i = 0; i + 1 < widths.size(); ++i) {
      linear(name + ".layer" + std::to_string(i + 1), widths[i + 1], widths[i]);
    }
  }

  std::vector<HashTensor> list;
};

void list_vision(const Sam3Config& config, Lister* out) {
  const auto& vit = config.vit;
  const size_t v = vit.hidden_size;
  const std::string backbone = "vision_encoder.backbone.";
  out->tensor(backbone + "embeddings.patch_embeddings.projection.weight",
              {v, vit.channels, vit.patch_size, vit.patch_size});
  out->tensor(backbone + "embeddings.position_embeddings",
              {1, vit.position_rows * vit.position_rows, v});
  out->norm(backbone + "layer_norm", v);
  for (size_t i = 0; i < vit.layers; ++i) {
    const std::string name = backbone + "layers." + std::to_string(i);
    out->norm(name + ".layer_norm1", v);
    out->norm(name + ".layer_norm2", v);
    out->attention(name + ".attention", v);
    out->mlp(name + ".mlp", v, vit.intermediate_size);
  }
  for (size_t i = 0; i < config.scale_factors.size(); ++i) {
    const std::string name = "vision_encoder.neck.fpn_layers." + std::to_string(i);
    size_t width = v;
    for (double scale = config.scale_factors[i], step = 0; scale > 1.0; scale /= 2, step += 2) {
      const std::string index = std::to_string(static_cast<int>(step));
      out->conv_transpose(name + ".scale_layers." + index, width, width / 2);
      width /= 2;
    }
    out->conv(name + ".proj1", config.hidden_size, width, 1);
    out->conv(name + ".proj2", config.hidden_size, config.hidden_size, 3);
  }
}

void list_text(const Sam3Config& config, size_t projection, Lister* out) {
  const auto& text = config.text;
  const size_t w = text.hidden_size;
  const std::string model = "text_encoder.text_model.";
  out->tensor(model + "embeddings.token_embedding.weight", {text.vocab_size, w});
  out->tensor(model + "embeddings.position_embedding.weight", {text.positions, w});
  for (size_t i = 0; i < text.layers; ++i) {
    const std::string name = model + "encoder.layers." + std::to_string(i);
    out->norm(name + ".layer_norm1", w);
    out->norm(name + ".layer_norm2", w);
    out->attention(name + ".self_attn", w, "out_proj");
    out->mlp(name + ".mlp", w, text.intermediate_size);
  }
  out->norm(model + "final_layer_norm", w);
  out->tensor("text_encoder.text_projection.weight", {projection, w});
  out->linear("text_projection", config.hidden_size, w);
}

void list_geometry(const Sam3Config& config, Lister* out) {
  const size_t d = config.hidden_size;
  const std::string name = "geometry_encoder.";
  out->tensor(name + "label_embed.weight", {2, d});
  out->tensor(name + "cls_embed.weight", {1, d});
  out->linear(name + "boxes_direct_project", d, 4);
  out->conv(name + "boxes_pool_project", d, d, config.roi_size);
  out->linear(name + "boxes_pos_enc_project", d, d + 2);
  out->norm(name + "vision_layer_norm", d);
  out->norm(name + "prompt_layer_norm", d);
  out->norm(name + "output_layer_norm", d);
  out->linear(name + "final_proj", d, d);
  for (size_t i = 0; i < config.geometry.layers; ++i) {
    out->encoder_layer(name + "layers." + std::to_string(i), d, config.geometry.intermediate_size);
  }
}

void list_detr(const Sam3Config& config, Lister* out) {
  const size_t d = config.hidden_size;
  for (size_t i = 0; i < config.detr_encoder.layers; ++i) {
    out->encoder_layer("detr_encoder.layers." + std::to_string(i), d,
                       config.detr_encoder.intermediate_size);
  }
  const std::string name = "detr_decoder.";
  for (size_t i = 0; i < config.detr_decoder.layers; ++i) {
    const std::string at = name + "layers." + std::to_string(i);
    for (const char* part : {".self_attn", ".text_cross_attn", ".vision_cross_attn"}) {
      out->attention(at + part, d);
      out->norm(at + part + "_layer_norm", d);
    }
    out->norm(at + ".mlp_layer_norm", d);
    out->mlp(at + ".mlp", d, config.detr_decoder.intermediate_size);
  }
  const size_t heads = config.detr_decoder.heads;
  out->norm(name + "output_layer_norm", d);
  out->head(name + "box_head", {d, d, d, 4});
  out->tensor(name + "query_embed.weight", {config.queries, d});
  out->tensor(name + "reference_points.weight", {config.queries, 4});
  out->tensor(name + "presence_token.weight", {1, d});
  out->head(name + "presence_head", {d, d, d, 1});
  out->norm(name + "presence_layer_norm", d);
  out->head(name + "ref_point_head", {2 * d, d, d});
  out->head(name + "box_rpb_embed_x", {2, d, heads});
  out->head(name + "box_rpb_embed_y", {2, d, heads});
  const std::string score = "dot_product_scoring.";
  out->head(score + "text_mlp", {d, config.detr_decoder.intermediate_size, d});
  out->norm(score + "text_mlp_out_norm", d);
  out->linear(score + "text_proj", d, d);
  out->linear(score + "query_proj", d, d);
}

void list_mask(const Sam3Config& config, Lister* out) {
  const size_t d = config.hidden_size;
  const std::string name = "mask_decoder.";
  for (size_t i = 0; i < config.upsampling_stages; ++i) {
    out->conv(name + "pixel_decoder.conv_layers." + std::to_string(i), d, d, 3);
    out->norm(name + "pixel_decoder.norms." + std::to_string(i), d);
  }
  for (size_t i = 0; i < 3; ++i) {
    out->linear(name + "mask_embedder.layers." + std::to_string(i), d, d);
  }
  out->conv(name + "instance_projection", d, d, 1);
  out->conv(name + "semantic_projection", 1, d, 1);
  out->attention(name + "prompt_cross_attn", d);
  out->norm(name + "prompt_cross_attn_norm", d);
}

bool ends_with_any(std::string_view name, std::initializer_list<std::string_view> ends) {
  return std::any_of(ends.begin(), ends.end(),
                     [&](std::string_view end) { return name.ends_with(end); });
}

std::string stored_bytes(const HashTensor& tensor, core::DType dtype) {
  const std::vector<float> values = hash_values(tensor);
  std::string bytes(values.size() * core::dtype_bytes(dtype), '\0');
  if (dtype == core::DType::kF32) {
    std::memcpy(bytes.data(), values.data(), bytes.size());
    return bytes;
  }
  for (size_t i = 0; i < values.size(); ++i) {
    uint32_t bits = 0;
    std::memcpy(&bits, &values[i], sizeof bits);
    const auto half = static_cast<uint16_t>((bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16);
    std::memcpy(bytes.data() + 2 * i, &half, sizeof half);
  }
  return bytes;
}

bool write_file(const std::string& path, const std::string& bytes) {
  std::ofstream out(path, std::ios::binary);
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  return static_cast<bool>(out.flush());
}

bool write_tensors(const std::string& path, const std::vector<HashTensor>& tensors,
                   const HashCheckpoint& how) {
  std::string header = "{";
  std::string data;
  for (const HashTensor& tensor : tensors) {
    const size_t begin = data.size();
    data += stored_bytes(tensor, how.dtype);
    const bool own = tensor.name.starts_with("tracker_");
    header += header.size() == 1 ? "\"" : ",\"";
    header += (how.prefix && !own ? "detector_model." : "") + tensor.name + "\":{\"dtype\":\"" +
              core::dtype_name(how.dtype) + "\",\"shape\":[";
    for (size_t i = 0; i < tensor.shape.size(); ++i) {
      header += (i == 0 ? "" : ",") + std::to_string(tensor.shape[i]);
    }
    header += "],\"data_offsets\":[" + std::to_string(begin) + "," + std::to_string(data.size());
    header += "]}";
  }
  header += "}";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  std::string length(8, '\0');
  for (size_t i = 0; i < 8; ++i) length[i] = static_cast<char>((header.size() >> (8 * i)) & 0xFF);
  return write_file(path, length + header + data);
}

}  // namespace

size_t HashTensor::elements() const {
  size_t count = 1;
  for (size_t dim : shape) count *= dim;
  return count;
}

std::vector<HashTensor> hash_tensors(const Sam3Config& config, size_t projection) {
  Lister lister;
  list_vision(config, &lister);
  list_text(config, projection, &lister);
  list_geometry(config, &lister);
  list_detr(config, &lister);
  list_mask(config, &lister);
  std::sort(lister.list.begin(), lister.list.end(),
            [](const HashTensor& a, const HashTensor& b) { return a.name < b.name; });
  return lister.list;
}

std::vector<float> hash_values(const HashTensor& tensor) {
  uint64_t hash = 14695981039346656037u;
  for (const char c : tensor.name) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
  double centre = 0.0;
  double width = 0.1;
  if (tensor.shape.size() == 1) {
    centre = tensor.name.ends_with("weight") ? 1.0 : 0.0;
  } else if (ends_with_any(tensor.name, {"embeddings.position_embeddings", "token_embedding.weight",
                                         "position_embedding.weight", "label_embed.weight",
                                         "cls_embed.weight", "query_embed.weight",
                                         "reference_points.weight", "presence_token.weight"})) {
    width = 1.0;
  } else {
    const bool transposed = tensor.name.find("scale_layers") != std::string::npos;
    const size_t fan = transposed ? tensor.shape[0] : tensor.elements() / tensor.shape[0];
    width = std::sqrt(3.0 / static_cast<double>(fan));
  }
  std::vector<float> values(tensor.elements());
  for (size_t i = 0; i < values.size(); ++i) {
    uint64_t z = hash + i + 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    z ^= z >> 31;
    const double r = 2.0 * (static_cast<double>(z >> 40) * 0x1p-24) - 1.0;
    values[i] = static_cast<float>(centre + width * r);
  }
  return values;
}

bool write_hash_checkpoint(const std::string& directory, std::string_view detector,
                           const HashCheckpoint& how) {
  auto config = checkpoint::parse_sam3_config(detector, "config.json");
  if (!config.ok()) return false;
  const std::string text(detector);
  if (!write_file(directory + "/config.json",
                  how.form_a ? "{\"model_type\":\"sam3_video\",\"detector_config\":" + text +
                                   ",\"tracker_config\":{\"model_type\":\"sam3_tracker_video\"}}"
                             : text)) {
    return false;
  }
  const std::string side = std::to_string(config.value().vit.image_size);
  if (!write_file(directory + "/processor_config.json",
                  "{\"image_processor\":{\"size\":{\"height\":" + side + ",\"width\":" + side +
                      "},\"image_mean\":[0.5,0.5,0.5],\"image_std\":[0.5,0.5,0.5]}}")) {
    return false;
  }
  std::vector<HashTensor> tensors = hash_tensors(config.value(), how.projection);
  if (how.prefix) {
    tensors.push_back({"tracker_model.x.weight", {3, 2}});
    tensors.push_back({"tracker_neck.fpn_layers.0.proj1.bias", {5}});
  }
  if (how.shards <= 1) return write_tensors(directory + "/model.safetensors", tensors, how);

  std::string index = "{\"metadata\":{},\"weight_map\":{";
  const size_t each = (tensors.size() + how.shards - 1) / how.shards;
  for (size_t first = 0; first < tensors.size(); first += each) {
    const size_t last = std::min(first + each, tensors.size());
    const std::string file = "model-" + std::to_string(first / each + 1) + ".safetensors";
    const auto at = [&](size_t i) { return tensors.begin() + static_cast<std::ptrdiff_t>(i); };
    const std::vector<HashTensor> part(at(first), at(last));
    if (!write_tensors(directory + "/" + file, part, how)) return false;
    for (const HashTensor& tensor : part) {
      const bool own = tensor.name.starts_with("tracker_");
      index += index.ends_with('{') ? "\"" : ",\"";
      index += (how.prefix && !own ? "detector_model." : "") + tensor.name + "\":\"" + file + "\"";
    }
  }
  return write_file(directory + "/model.safetensors.index.json", index + "}}");
}

std::string golden_config() {
  return R"({"model_type":"sam3","architectures":["Sam3Model"],
"vision_config":{"model_type":"sam3_vision_model","fpn_hidden_size":32,
 "scale_factors":[4.0,2.0,1.0,0.5],
 "backbone_config":{"model_type":"sam3_vit_model","hidden_size":64,"intermediate_size":96,
  "num_hidden_layers":4,"num_attention_heads":4,"num_channels":3,"image_size":112,"patch_size":14,
  "window_size":3,"global_attn_indexes":[1,3],"pretrain_image_size":42,"hidden_act":"gelu",
  "layer_norm_eps":1e-6,"rope_parameters":{"rope_type":"axial","rope_theta":10000.0}}},
"text_config":{"model_type":"clip_text_model","vocab_size":1000,"hidden_size":48,
 "intermediate_size":192,"projection_dim":20,"num_hidden_layers":3,"num_attention_heads":4,
 "max_position_embeddings":16,"hidden_act":"gelu","layer_norm_eps":1e-5},
"geometry_encoder_config":{"model_type":"sam3_geometry_encoder","hidden_size":32,"num_layers":2,
 "num_attention_heads":4,"intermediate_size":48,"roi_size":7,"hidden_act":"relu"},
"detr_encoder_config":{"model_type":"sam3_detr_encoder","hidden_size":32,"num_layers":2,
 "num_attention_heads":4,"intermediate_size":48,"hidden_act":"relu"},
"detr_decoder_config":{"model_type":"sam3_detr_decoder","hidden_size":32,"num_layers":3,
 "num_queries":7,"num_attention_heads":4,"intermediate_size":48,"hidden_act":"relu"},
"mask_decoder_config":{"model_type":"sam3_mask_decoder","hidden_size":32,
 "num_upsampling_stages":3,"num_attention_heads":4}})";
}

}  // namespace npuseg::test

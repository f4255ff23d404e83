// SPDX-License-Identifier: Apache-2.0
#include "gemma_weights.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <utility>

namespace npuseg::test {

using checkpoint::EmbeddingGemma2Config;

namespace {

class Lister {
 public:
  void tensor(const std::string& name, std::vector<size_t> shape) {
    list.push_back({name, std::move(shape)});
  }
  struct Sizes {
    size_t hidden, inner, q_width, kv_width, head_dim;
  };
  void layer(const std::string& name, const Sizes& sizes, const std::string& linear) {
    for (const char* norm : {"input_layernorm", "post_attention_layernorm",
                             "pre_feedforward_layernorm", "post_feedforward_layernorm"}) {
      tensor(name + "." + norm + ".weight", {sizes.hidden});
    }
    const std::string attention = name + ".self_attn.";
    tensor(attention + "q_proj" + linear, {sizes.q_width, sizes.hidden});
    tensor(attention + "k_proj" + linear, {sizes.kv_width, sizes.hidden});
    tensor(attention + "v_proj" + linear, {sizes.kv_width, sizes.hidden});
    tensor(attention + "o_proj" + linear, {sizes.hidden, sizes.q_width});
    tensor(attention + "q_norm.weight", {sizes.head_dim});
    tensor(attention + "k_norm.weight", {sizes.head_dim});
    tensor(name + ".mlp.gate_proj" + linear, {sizes.inner, sizes.hidden});
    tensor(name + ".mlp.up_proj" + linear, {sizes.inner, sizes.hidden});
    tensor(name + ".mlp.down_proj" + linear, {sizes.hidden, sizes.inner});
  }

  std::vector<GemmaTensor> list;
};

bool ends_with_any(std::string_view name, std::initializer_list<std::string_view> ends) {
  for (const std::string_view end : ends) {
    if (name.ends_with(end)) return true;
  }
  return false;
}

bool write_file(const std::string& path, const std::string& bytes) {
  std::ofstream out(path, std::ios::binary);
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  return static_cast<bool>(out.flush());
}

std::string stored_bytes(const std::vector<float>& values, core::DType dtype) {
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

}  // namespace

size_t GemmaTensor::elements() const {
  size_t count = 1;
  for (const size_t dim : shape) count *= dim;
  return count;
}

std::vector<GemmaTensor> gemma_tensors(const EmbeddingGemma2Config& config) {
  Lister out;
  const auto& text = config.text;
  const size_t h = text.hidden_size;
  const size_t p = text.per_layer_size;
  out.tensor("language_model.embed_tokens.weight", {text.vocab_size, h});
  out.tensor("language_model.ple.per_layer_model_projection.weight", {text.layers * p, h});
  out.tensor("language_model.ple.per_layer_projection_norm.weight", {p});
  for (size_t i = 0; i < text.layers; ++i) {
    const std::string name = "language_model.layers." + std::to_string(i);
    out.layer(
        name,
        {h, text.intermediate_size, text.q_width(i), text.kv_width(i), text.attention(i).head_dim},
        ".weight");
    out.tensor(name + ".ple_block.per_layer_input_gate.weight", {p, h});
    out.tensor(name + ".ple_block.per_layer_projection.weight", {h, p});
    out.tensor(name + ".ple_block.post_per_layer_input_norm.weight", {h});
    out.tensor(name + ".layer_scalar", {1});
  }
  out.tensor("language_model.norm.weight", {h});
  out.tensor("language_model.embedding_projection.weight", {text.embedding_dim, h});
  if (!config.vision.has_value()) return out.list;
  const auto& vision = *config.vision;
  const size_t c = vision.hidden_size;
  out.tensor("vision_tower.patch_embedder.input_proj.weight", {c, vision.patch_values()});
  out.tensor("vision_tower.patch_embedder.position_embedding_table", {2, vision.position_rows, c});
  for (size_t i = 0; i < vision.layers; ++i) {
    out.layer("vision_tower.encoder.layers." + std::to_string(i),
              {c, vision.intermediate_size, vision.heads * vision.head_dim,
               vision.kv_heads * vision.head_dim, vision.head_dim},
              ".linear.weight");
  }
  out.tensor("embed_vision.embedding_projection.weight", {h, c});
  return out.list;
}

std::vector<float> golden_a_values(const GemmaTensor& tensor) {
  std::vector<float> values(tensor.elements());
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>((static_cast<double>(i % 17) - 8.0) * 0.05);
  }
  return values;
}

std::vector<float> golden_b_values(const GemmaTensor& tensor) {
  uint32_t state = 0x811C9DC5u;
  for (const char c : tensor.name) state = (state ^ static_cast<unsigned char>(c)) * 0x01000193u;
  const bool around_one = tensor.shape.size() == 1;  // norm weights and layer_scalar
  std::vector<float> values(tensor.elements());
  for (float& value : values) {
    state = 1664525u * state + 1013904223u;
    const double v = (static_cast<double>(state >> 8) * 0x1p-24 - 0.5) * 0.5;
    value = static_cast<float>(around_one ? 1.0 + v : v);
  }
  return values;
}

std::vector<float> stage_values(const GemmaTensor& tensor) {
  uint64_t hash = 14695981039346656037u;
  for (const char c : tensor.name) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
  double centre = 0.0;
  double width = 0.5;
  if (ends_with_any(tensor.name, {"q_norm.weight", "k_norm.weight"})) {
    centre = 1.5 / std::sqrt(std::sqrt(static_cast<double>(tensor.shape[0])));
    width = 0.2 * centre;
  } else if (tensor.shape.size() == 1) {
    centre = 1.0;
    width = 0.2;
  } else if (!tensor.name.ends_with("position_embedding_table")) {
    width = std::sqrt(3.0 / static_cast<double>(tensor.shape.back()));
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

bool write_gemma_tensors(const std::string& directory, const std::vector<GemmaTensor>& tensors,
                         core::DType dtype, const GemmaRule& rule) {
  std::string header = "{";
  std::string data;
  for (const GemmaTensor& tensor : tensors) {
    const size_t begin = data.size();
    data += stored_bytes(rule(tensor), dtype);
    header += header.size() == 1 ? "\"" : ",\"";
    header += tensor.name + "\":{\"dtype\":\"" + core::dtype_name(dtype) + "\",\"shape\":[";
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
  return write_file(directory + "/model.safetensors", length + header + data);
}

bool write_gemma_checkpoint(const std::string& directory, std::string_view config,
                            core::DType dtype, const GemmaRule& rule) {
  const auto parsed = checkpoint::parse_embeddinggemma2_config(config, "config.json");
  if (!parsed.ok()) return false;
  return write_file(directory + "/config.json", std::string(config)) &&
         write_gemma_tensors(directory, gemma_tensors(parsed.value()), dtype, rule);
}

}  // namespace npuseg::test

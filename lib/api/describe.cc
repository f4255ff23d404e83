// SPDX-License-Identifier: Apache-2.0
#include "api/describe.h"

#include "api/structs.h"

namespace npuseg::api {

namespace {

void describe_common(const engine::WeightFacts& weights, uint64_t memory_estimate,
                     const engine::DeviceChoice& device, const char* kind, const char* source,
                     npuseg_model_info* info) {
  info->parameters = weights.parameters;
  info->weight_bytes = weights.weight_bytes;
  info->memory_estimate = memory_estimate;
  copy_text(kind, info->kind);
  copy_text(source, info->source);
  copy_text(weights.dtype, info->dtype);
  copy_text(device.asked, info->device_asked);
  copy_text(device.used, info->device_used);
  copy_text(device.why, info->device_why);
}

}  // namespace

const char* kind_name(checkpoint::ModelKind kind) {
  return kind == checkpoint::ModelKind::kSam3 ? "sam3" : "embeddinggemma2";
}

const char* source_name(engine::ModelSource source) {
  return source == engine::ModelSource::kBundle ? "bundle" : "checkpoint";
}

npuseg_model_info describe(const engine::Sam3Facts& facts) {
  npuseg_model_info info{};
  info.image_side = static_cast<uint32_t>(facts.config.vit.image_size);
  info.mask_side = static_cast<uint32_t>(facts.config.mask_side());
  info.queries = static_cast<uint32_t>(facts.config.queries);
  info.max_tokens = static_cast<uint32_t>(facts.config.text.positions);
  info.vision_layers = static_cast<uint32_t>(facts.config.vit.layers);
  info.text_layers = static_cast<uint32_t>(facts.config.text.layers);
  info.hidden_size = static_cast<uint32_t>(facts.config.vit.hidden_size);
  info.npu_contexts = static_cast<uint32_t>(facts.npu_contexts);
  describe_common(facts, facts.memory_estimate, facts.device,
                  kind_name(checkpoint::ModelKind::kSam3), source_name(facts.source), &info);
  return info;
}

npuseg_model_info describe(const engine::EmbeddingGemma2Facts& facts) {
  npuseg_model_info info{};
  info.max_tokens = static_cast<uint32_t>(facts.most_text_tokens != 0 ? facts.most_text_tokens
                                                                      : facts.most_picture_tokens);
  info.text_layers = static_cast<uint32_t>(facts.config.text.layers);
  info.embedding_dim = static_cast<uint32_t>(facts.config.text.embedding_dim);
  if (const auto& vision = facts.config.vision) {
    info.vision_layers = static_cast<uint32_t>(vision->layers);
    info.hidden_size = static_cast<uint32_t>(vision->hidden_size);
    info.soft_tokens = static_cast<uint32_t>(facts.processor.max_soft_tokens);
  }
  info.npu_contexts = static_cast<uint32_t>(facts.npu_contexts);
  describe_common(facts, facts.memory_estimate, facts.device,
                  kind_name(checkpoint::ModelKind::kEmbeddingGemma2), source_name(facts.source),
                  &info);
  return info;
}

core::Status check_directory(const char* directory) {
  if (directory != nullptr && *directory != '\0') return {};
  return invalid("cannot open model: directory: is NULL or empty; pass a path");
}

}  // namespace npuseg::api

// SPDX-License-Identifier: Apache-2.0
// Opening an EmbeddingGemma 2 model: a checkpoint or a bundle, with its tokenizer.
#include <algorithm>
#include <span>

#include "engine/embeddinggemma2_engine.h"
#include "model/embeddinggemma2/npu_model.h"
#include "model/embeddinggemma2/weights.h"

namespace npuseg::engine {

using bundle::Bundle;
using core::Call;
using core::Code;
using core::format;
using core::Result;
using core::Status;
using embeddinggemma2::NpuModel;

namespace {

// Shorter vectors that the model was trained for.
constexpr size_t kShorterDims[] = {512, 256, 128};
constexpr image::PatchRule kLargestRule{65535, 256, 256};

embeddinggemma2::WeightForm form_of(Precision precision) {
  switch (precision) {
    case Precision::kAuto:
    case Precision::kF32:
      break;
    case Precision::kBf16:
      return embeddinggemma2::WeightForm::kBf16;
    case Precision::kInt8:
      return embeddinggemma2::WeightForm::kInt8;
  }
  return embeddinggemma2::WeightForm::kAsStored;
}

// Activations of the larger tower for one picture, in bytes.
uint64_t activation_estimate(const EmbeddingGemma2Facts& facts) {
  const auto& text = facts.config.text;
  uint64_t widest = 0;
  for (size_t i = 0; i < text.layers; ++i) {
    widest = std::max<uint64_t>(widest, text.q_width(i) + 2 * text.kv_width(i));
  }
  uint64_t floats = facts.processor.max_soft_tokens *
                    (4 * text.hidden_size + widest + 2 * text.intermediate_size);
  if (const auto& vision = facts.config.vision) {
    const uint64_t patches = facts.processor.max_soft_tokens * vision->pooling * vision->pooling;
    const uint64_t row = vision->patch_values() + 3 * vision->hidden_size +
                         (vision->heads + 2 * vision->kv_heads) * vision->head_dim +
                         2 * vision->intermediate_size;
    floats = std::max(floats, patches * row);
  }
  return floats * sizeof(float);
}

Status read_checkpoint_facts(const std::string& directory, EmbeddingGemma2Facts* facts) {
  NPUSEG_ASSIGN_OR_RETURN(facts->config, checkpoint::read_embeddinggemma2_config(directory));
  NPUSEG_ASSIGN_OR_RETURN(facts->processor, checkpoint::read_embeddinggemma2_processor_config(
                                                directory, facts->config));
  NPUSEG_ASSIGN_OR_RETURN(facts->sentence,
                          checkpoint::read_sentence_config(directory, facts->config));
  facts->most_text_tokens = facts->most_picture_tokens =
      std::min(facts->sentence.max_tokens, facts->config.text.max_positions);
  return {};
}

Status read_bundle_facts(const Bundle& bundle, EmbeddingGemma2Facts* facts) {
  NPUSEG_ASSIGN_OR_RETURN(const NpuModel::Facts found, NpuModel::read_facts(bundle));
  const bundle::Gemma2Manifest& manifest = bundle.gemma2();
  const bundle::Gemma2Params& params = manifest.params;
  if (params.max_soft_tokens > kLargestRule.max_soft_tokens ||
      params.v_patch > kLargestRule.patch_size || params.v_pool > kLargestRule.pooling) {
    return {
        Code::kUnsupported,
        format("cannot use bundle: %s: max_soft_tokens %zu, v.patch %zu or v.pool %zu is above "
               "%zu, %zu, %zu; use a bundle of EmbeddingGemma 2",
               bundle.directory().c_str(), params.max_soft_tokens, params.v_patch, params.v_pool,
               kLargestRule.max_soft_tokens, kLargestRule.patch_size, kLargestRule.pooling)};
  }
  facts->source = ModelSource::kBundle;
  facts->config = found.config;
  facts->processor.max_soft_tokens = params.max_soft_tokens;
  facts->processor.patch_size = params.v_patch;
  facts->processor.pooling = params.v_pool;
  for (const auto& [name, text] : manifest.prompts) facts->sentence.prompts.push_back({name, text});
  facts->sentence.dims = {params.out};
  for (const size_t dims : kShorterDims) {
    if (dims < params.out) facts->sentence.dims.push_back(dims);
  }
  facts->most_text_tokens = params.max_text_tokens;
  facts->most_picture_tokens = params.t_rows;
  facts->sentence.max_tokens = std::max(params.max_text_tokens, params.t_rows);
  facts->npu_contexts = bundle.contexts();
  facts->parameters = found.parameters;
  facts->weight_bytes = found.weight_bytes;
  facts->dtype = "BFP16";
  facts->memory_estimate = found.weight_bytes + found.device_bytes + activation_estimate(*facts);
  return {};
}

template <class T>
std::span<const T> values_of(const Bundle& bundle, const char* name) {
  const bundle::StoredTensor* tensor = bundle.tensors().find(name);
  if (tensor == nullptr) return {};
  return {static_cast<const T*>(tensor->view.data), tensor->view.shape.elements()};
}

// Only of bundles with tensor tok.vocab.
Result<text::GemmaTokenizer> bundle_tokenizer(const Bundle& bundle) {
  const bundle::Gemma2Manifest& manifest = bundle.gemma2();
  text::TokenLists lists;
  const auto bytes = values_of<char>(bundle, "tok.vocab");
  lists.bytes = {bytes.data(), bytes.size()};
  lists.offsets = values_of<int32_t>(bundle, "tok.vocab_off");
  lists.merges = values_of<int32_t>(bundle, "tok.merges");
  lists.added = manifest.added_tokens;
  lists.start = manifest.params.bos.value_or(0);
  lists.end = manifest.params.eos.value_or(0);
  return text::GemmaTokenizer::from_lists(lists, bundle.directory());
}

text::MediaTokens media_of(const text::GemmaTokenizer& tokenizer,
                           const checkpoint::EmbeddingGemma2Config& config) {
  return text::MediaTokens::find(tokenizer, config.image_token_id, config.boi_token_id,
                                 config.eoi_token_id, config.audio_token_id, config.video_token_id);
}

}  // namespace

Result<EmbeddingGemma2Facts> EmbeddingGemma2Engine::probe(const std::string& directory) {
  EmbeddingGemma2Facts facts;
  NPUSEG_ASSIGN_OR_RETURN(const ModelSource source,
                          check_kind(directory, checkpoint::ModelKind::kEmbeddingGemma2));
  if (source == ModelSource::kBundle) {
    NPUSEG_ASSIGN_OR_RETURN(const Bundle bundle, Bundle::open(directory));
    NPUSEG_RETURN_IF_ERROR(read_bundle_facts(bundle, &facts));
    return facts;
  }
  NPUSEG_RETURN_IF_ERROR(read_checkpoint_facts(directory, &facts));
  NPUSEG_ASSIGN_OR_RETURN(const checkpoint::Checkpoint files,
                          checkpoint::Checkpoint::open(directory));
  embeddinggemma2::Weights weights;
  NPUSEG_RETURN_IF_ERROR(embeddinggemma2::Weights::bind(files, facts.config, directory, &weights));
  count_used(weights, &facts);
  facts.memory_estimate = facts.weight_bytes + activation_estimate(facts);
  return facts;
}

Result<std::string> EmbeddingGemma2Engine::verify_structure(const std::string& directory) {
  NPUSEG_ASSIGN_OR_RETURN(const EmbeddingGemma2Facts facts, probe(directory));
  std::string tokens = "no tokenizer";
  if (facts.source == ModelSource::kCheckpoint) {
    NPUSEG_ASSIGN_OR_RETURN(const auto tokenizer, text::GemmaTokenizer::load(directory));
    tokens = format("tokenizer of %zu ids", tokenizer.vocab_size());
  } else {
    NPUSEG_ASSIGN_OR_RETURN(const Bundle bundle, Bundle::open(directory));
    if (bundle.tensors().find("tok.vocab") != nullptr) {
      NPUSEG_ASSIGN_OR_RETURN(const auto tokenizer, bundle_tokenizer(bundle));
      tokens = format("tokenizer of %zu ids", tokenizer.vocab_size());
    }
  }
  return format("EmbeddingGemma 2, %llu parameters, ",
                static_cast<unsigned long long>(facts.parameters)) +
         tokens;
}

Result<std::shared_ptr<EmbeddingGemma2Engine>> EmbeddingGemma2Engine::load(
    const std::string& directory, const ModelOptions& options) {
  NPUSEG_ASSIGN_OR_RETURN(const ModelSource source,
                          check_kind(directory, checkpoint::ModelKind::kEmbeddingGemma2));
  std::shared_ptr<EmbeddingGemma2Engine> engine(new EmbeddingGemma2Engine);
  DeviceChoice& device = engine->facts_.device;
  NPUSEG_ASSIGN_OR_RETURN(device, choose_device(options.device, source));
  NPUSEG_RETURN_IF_ERROR(
      check_precision(device, source, checkpoint::ModelKind::kEmbeddingGemma2, options.precision));
  engine->log_ = options.log;
  engine->threads_ = options.threads;
  engine->features_ =
      std::make_shared<FeatureCache>(limit_or(options.image_cache_bytes, kDefaultImageCacheBytes));
  engine->budget_ = std::make_shared<core::MemoryBudget>(
      options.memory_limit == 0 ? SIZE_MAX : static_cast<size_t>(options.memory_limit));
  engine->log_(core::LogLevel::kInfo, "engine.device",
               device.asked + " -> " + device.used + ": " + device.why);
  Call call(engine->with_defaults(options.call));
  NPUSEG_RETURN_IF_ERROR(source == ModelSource::kBundle
                             ? engine->open_bundle(directory, options)
                             : engine->open_checkpoint(directory, options, call));
  return engine;
}

Status EmbeddingGemma2Engine::open_checkpoint(const std::string& directory,
                                              const ModelOptions& options, Call& call) {
  NPUSEG_RETURN_IF_ERROR(read_checkpoint_facts(directory, &facts_));
  embeddinggemma2::Model::Options model_options;
  model_options.check_weights = options.check_weights;
  model_options.form = form_of(options.precision);
  model_options.budget = budget_;
  model_options.log = options.log;
  NPUSEG_ASSIGN_OR_RETURN(graph_, embeddinggemma2::Model::load(directory, model_options, call));
  NPUSEG_ASSIGN_OR_RETURN(text::GemmaTokenizer tokenizer, text::GemmaTokenizer::load(directory));
  const checkpoint::EmbeddingGemma2Config& config = facts_.config;
  if (tokenizer.vocab_size() > config.text.vocab_size) {
    return {Code::kCorruptData,
            format("cannot use model: %s: the tokenizer has ids up to %zu, the model's "
                   "vocabulary %zu entries; the files do not belong together",
                   directory.c_str(), tokenizer.vocab_size() - 1, config.text.vocab_size)};
  }
  media_ = media_of(tokenizer, config);
  if (config.vision && media_.image.empty()) {
    return {Code::kCorruptData,
            format("cannot use model: %s: the tokenizer has no token of config.json's "
                   "image_token_id %lld; the files do not belong together",
                   directory.c_str(), static_cast<long long>(config.image_token_id))};
  }
  tokenizer_ = std::make_shared<const text::GemmaTokenizer>(std::move(tokenizer));
  facts_.parameters = graph_->parameters();
  facts_.weight_bytes = graph_->weight_bytes();
  facts_.dtype = graph_->dtype();
  facts_.memory_estimate = facts_.weight_bytes + activation_estimate(facts_);
  return {};
}

Status EmbeddingGemma2Engine::open_bundle(const std::string& directory,
                                          const ModelOptions& options) {
  NPUSEG_ASSIGN_OR_RETURN(Bundle opened, Bundle::open(directory));
  bundle_ = std::make_shared<const Bundle>(std::move(opened));
  NPUSEG_RETURN_IF_ERROR(read_bundle_facts(*bundle_, &facts_));
  NPUSEG_ASSIGN_OR_RETURN(const auto device, open_device(facts_.device, budget_, log_));
  NPUSEG_ASSIGN_OR_RETURN(const auto model,
                          NpuModel::load(bundle_, device, {budget_, options.log}));
  graph_ = model;
  start_ = model->special_ids().start;
  end_ = model->special_ids().end;
  const checkpoint::EmbeddingGemma2Config& config = facts_.config;
  media_.image_id = config.image_token_id;
  media_.begin_image_id = config.boi_token_id;
  media_.end_image_id = config.eoi_token_id;
  if (bundle_->tensors().find("tok.vocab") == nullptr) return {};
  NPUSEG_ASSIGN_OR_RETURN(text::GemmaTokenizer tokenizer, bundle_tokenizer(*bundle_));
  media_ = media_of(tokenizer, config);
  tokenizer_ = std::make_shared<const text::GemmaTokenizer>(std::move(tokenizer));
  return {};
}

}  // namespace npuseg::engine

// SPDX-License-Identifier: Apache-2.0
// Opening a SAM 3 model: a checkpoint or a bundle, with its tokenizer.
#include <algorithm>

#include "engine/sam3_engine.h"
#include "model/sam3/npu_model.h"
#include "model/sam3/weights.h"

namespace npuseg::engine {

using bundle::Bundle;
using core::Call;
using core::Code;
using core::format;
using core::Result;
using core::Status;

namespace {

constexpr size_t kDefaultPrompts = 64;
constexpr uint64_t kDefaultPromptCacheBytes = uint64_t{16} << 20;
// With each prompt of a bundle its packed weights are kept.
constexpr uint64_t kBundlePromptCacheBytes = uint64_t{96} << 20;

// Activations of the largest moments, in floats: vision encoder, neck, and one prompt.
uint64_t activation_estimate(const checkpoint::Sam3Config& config) {
  const uint64_t grid = config.vit.grid();
  const uint64_t window = config.vit.window_size;
  const uint64_t across = (grid + window - 1) / window;
  const uint64_t padded = across * across * window * window;
  const uint64_t v = config.vit.hidden_size;
  const uint64_t d = config.hidden_size;
  const uint64_t finest = config.mask_side() * config.mask_side();
  const uint64_t vit = grid * grid * (v + config.vit.intermediate_size) + padded * 4 * v;
  uint64_t levels = 0;
  for (size_t i = 0; i < config.kept_levels(); ++i) {
    levels += config.level_side(i) * config.level_side(i) * d;
  }
  const uint64_t neck = grid * grid * v + levels + 3 * finest * d;
  const uint64_t prompt = levels + 2 * finest * d + config.queries * finest +
                          grid * grid * (8 * d + config.detr_encoder.intermediate_size);
  return std::max({vit, neck, prompt}) * sizeof(float);
}

Status read_bundle_facts(const Bundle& bundle, Sam3Facts* facts) {
  NPUSEG_ASSIGN_OR_RETURN(const sam3::NpuModel::Facts found, sam3::NpuModel::read_facts(bundle));
  facts->source = ModelSource::kBundle;
  facts->config = found.config;
  facts->npu_contexts = bundle.contexts();
  facts->parameters = found.parameters;
  facts->weight_bytes = found.weight_bytes;
  facts->dtype = "BFP16";
  facts->memory_estimate =
      found.weight_bytes + found.device_bytes + activation_estimate(found.config);
  return {};
}

}  // namespace

Result<Sam3Facts> Sam3Engine::probe(const std::string& directory) {
  Sam3Facts facts;
  NPUSEG_ASSIGN_OR_RETURN(const ModelSource source,
                          check_kind(directory, checkpoint::ModelKind::kSam3));
  if (source == ModelSource::kBundle) {
    NPUSEG_ASSIGN_OR_RETURN(const Bundle bundle, Bundle::open(directory));
    NPUSEG_RETURN_IF_ERROR(read_bundle_facts(bundle, &facts));
    return facts;
  }
  NPUSEG_ASSIGN_OR_RETURN(facts.config, checkpoint::read_sam3_config(directory));
  NPUSEG_ASSIGN_OR_RETURN(const checkpoint::Checkpoint files,
                          checkpoint::Checkpoint::open(directory));
  sam3::Weights weights;
  NPUSEG_RETURN_IF_ERROR(sam3::Weights::bind(files, facts.config, directory, &weights));
  count_used(weights, &facts);
  facts.memory_estimate = facts.weight_bytes + activation_estimate(facts.config);
  return facts;
}

Result<std::string> Sam3Engine::verify_structure(const std::string& directory) {
  NPUSEG_ASSIGN_OR_RETURN(const Sam3Facts facts, probe(directory));
  NPUSEG_ASSIGN_OR_RETURN(const auto tokenizer, text::ClipTokenizer::load(directory));
  return format("SAM 3, %llu parameters, tokenizer of %zu ids",
                static_cast<unsigned long long>(facts.parameters), tokenizer.vocab_size());
}

Result<std::shared_ptr<Sam3Engine>> Sam3Engine::load(const std::string& directory,
                                                     const ModelOptions& options) {
  NPUSEG_ASSIGN_OR_RETURN(const ModelSource source,
                          check_kind(directory, checkpoint::ModelKind::kSam3));
  std::shared_ptr<Sam3Engine> engine(new Sam3Engine);
  DeviceChoice& device = engine->facts_.device;
  NPUSEG_ASSIGN_OR_RETURN(device, choose_device(options.device, source));
  NPUSEG_RETURN_IF_ERROR(
      check_precision(device, source, checkpoint::ModelKind::kSam3, options.precision));
  engine->log_ = options.log;
  engine->threads_ = options.threads;
  engine->features_ =
      std::make_shared<FeatureCache>(limit_or(options.image_cache_bytes, kDefaultImageCacheBytes));
  engine->most_texts_ = limit_or(options.prompt_cache_entries, kDefaultPrompts);
  const bool is_bundle = source == ModelSource::kBundle;
  engine->most_text_bytes_ = limit_or(
      options.prompt_cache_bytes, is_bundle ? kBundlePromptCacheBytes : kDefaultPromptCacheBytes);
  engine->budget_ = std::make_shared<core::MemoryBudget>(
      options.memory_limit == 0 ? SIZE_MAX : static_cast<size_t>(options.memory_limit));
  engine->log_(core::LogLevel::kInfo, "engine.device",
               device.asked + " -> " + device.used + ": " + device.why);
  Call call(engine->with_defaults(options.call));
  NPUSEG_RETURN_IF_ERROR(is_bundle ? engine->open_bundle(directory, options)
                                   : engine->open_checkpoint(directory, options, call));
  return engine;
}

Status Sam3Engine::open_checkpoint(const std::string& directory, const ModelOptions& options,
                                   Call& call) {
  sam3::Model::Options model_options;
  model_options.check_weights = options.check_weights;
  model_options.budget = budget_;
  model_options.log = options.log;
  NPUSEG_ASSIGN_OR_RETURN(graph_, sam3::Model::load(directory, model_options, call));
  NPUSEG_RETURN_IF_ERROR(open_tokenizer(directory));
  pad_id_ = tokenizer_->pad_id();
  const checkpoint::Sam3ProcessorConfig& processor = graph_->processor();
  image::Normalization how;
  how.rescale_factor = processor.rescale_factor;
  for (size_t c = 0; c < 3; ++c) {
    how.mean[c] = static_cast<double>(processor.mean[c]);
    how.std_dev[c] = static_cast<double>(processor.std[c]);
  }
  NPUSEG_ASSIGN_OR_RETURN(table_, image::make_normalize_table(how));
  facts_.config = graph_->config();
  facts_.parameters = graph_->parameters();
  facts_.weight_bytes = graph_->weight_bytes();
  facts_.dtype = graph_->dtype();
  facts_.memory_estimate = graph_->weight_bytes() + activation_estimate(graph_->config());
  return {};
}

std::shared_ptr<const sam3::Model> Sam3Engine::float_model() const {
  return std::dynamic_pointer_cast<const sam3::Model>(graph_);
}

Status Sam3Engine::open_bundle(const std::string& directory, const ModelOptions& options) {
  NPUSEG_ASSIGN_OR_RETURN(Bundle opened, Bundle::open(directory));
  const auto bundle = std::make_shared<const Bundle>(std::move(opened));
  NPUSEG_RETURN_IF_ERROR(read_bundle_facts(*bundle, &facts_));
  NPUSEG_ASSIGN_OR_RETURN(const auto device, open_device(facts_.device, budget_, log_));
  sam3::NpuModel::Options model_options;
  model_options.check_weights = options.check_weights;
  model_options.budget = budget_;
  model_options.log = options.log;
  NPUSEG_ASSIGN_OR_RETURN(npu_model_, sam3::NpuModel::load(bundle, device, model_options));
  graph_ = npu_model_;
  NPUSEG_RETURN_IF_ERROR(open_tokenizer(directory));
  const bundle::Sam3Params& params = bundle->sam3().params;
  const auto bos = static_cast<int64_t>(params.bos);
  const auto eos = static_cast<int64_t>(params.eos);
  if (tokenizer_->bos_id() != bos || tokenizer_->eos_id() != eos) {
    return {Code::kCorruptData,
            format("cannot use bundle: %s: manifest.txt says that texts are between the ids %lld "
                   "and %lld, by vocab.json they are between %lld and %lld; export the bundle "
                   "again",
                   directory.c_str(), static_cast<long long>(bos), static_cast<long long>(eos),
                   static_cast<long long>(tokenizer_->bos_id()),
                   static_cast<long long>(tokenizer_->eos_id()))};
  }
  pad_id_ = static_cast<int64_t>(params.pad);
  image::Normalization how;
  how.fused = false;
  NPUSEG_ASSIGN_OR_RETURN(table_, image::make_normalize_table(how));
  return {};
}

Status Sam3Engine::open_tokenizer(const std::string& directory) {
  NPUSEG_ASSIGN_OR_RETURN(text::ClipTokenizer tokenizer, text::ClipTokenizer::load(directory));
  const size_t vocabulary = graph_->config().text.vocab_size;
  if (tokenizer.vocab_size() > vocabulary) {
    return {Code::kCorruptData,
            format("cannot use model: %s: the tokenizer has ids up to %zu, the model's vocabulary "
                   "%zu entries; the files do not belong together",
                   directory.c_str(), tokenizer.vocab_size() - 1, vocabulary)};
  }
  tokenizer_ = std::make_shared<const text::ClipTokenizer>(std::move(tokenizer));
  return {};
}

}  // namespace npuseg::engine

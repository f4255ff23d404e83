// SPDX-License-Identifier: Apache-2.0
#include "engine/embeddinggemma2_engine.h"

#include <algorithm>
#include <cstring>

#include "model/embeddinggemma2/stage_timer.h"
#include "model/embeddinggemma2/weights.h"

namespace npuseg::engine {

using core::Call;
using core::Code;
using core::format;
using core::Matrix;
using core::Result;
using core::Status;
using embeddinggemma2::Stage;
using embeddinggemma2::StageTimer;
using embeddinggemma2::StageTimes;

// What the vision tower makes of a picture: [soft tokens, text hidden size].
struct SoftTokenMatrix {
  Matrix values;
  [[nodiscard]] size_t bytes() const { return values.bytes(); }
};

namespace {

// Inputs that run together: enough for large products, few enough for their pictures' soft tokens
// to be small beside the weights.
constexpr size_t kInputsTogether = 256;
constexpr const char* kNoTask = "none";
constexpr size_t kMostTextBytes = size_t{256} << 20;

image::PatchRule rule_of(const checkpoint::EmbeddingGemma2ProcessorConfig& processor) {
  image::PatchRule rule;
  rule.max_soft_tokens = processor.max_soft_tokens;
  rule.patch_size = processor.patch_size;
  rule.pooling = processor.pooling;
  rule.rescale_factor = processor.rescale_factor;
  return rule;
}

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

Status read_facts(const std::string& directory, EmbeddingGemma2Facts* facts) {
  NPUSEG_ASSIGN_OR_RETURN(facts->config, checkpoint::read_embeddinggemma2_config(directory));
  NPUSEG_ASSIGN_OR_RETURN(facts->processor, checkpoint::read_embeddinggemma2_processor_config(
                                                directory, facts->config));
  NPUSEG_ASSIGN_OR_RETURN(facts->sentence,
                          checkpoint::read_sentence_config(directory, facts->config));
  return {};
}

std::string list_of(const std::vector<size_t>& numbers) {
  std::string text;
  for (const size_t number : numbers) text += (text.empty() ? "" : ", ") + std::to_string(number);
  return text;
}

}  // namespace

Result<EmbeddingGemma2Facts> EmbeddingGemma2Engine::probe(const std::string& directory) {
  EmbeddingGemma2Facts facts;
  NPUSEG_RETURN_IF_ERROR(check_kind(directory, checkpoint::ModelKind::kEmbeddingGemma2));
  NPUSEG_RETURN_IF_ERROR(read_facts(directory, &facts));
  NPUSEG_ASSIGN_OR_RETURN(const checkpoint::Checkpoint files,
                          checkpoint::Checkpoint::open(directory));
  embeddinggemma2::Weights weights;
  NPUSEG_RETURN_IF_ERROR(embeddinggemma2::Weights::bind(files, facts.config, directory, &weights));
  count_used(weights, &facts);
  facts.memory_estimate = facts.weight_bytes + activation_estimate(facts);
  return facts;
}

Result<std::shared_ptr<EmbeddingGemma2Engine>> EmbeddingGemma2Engine::load(
    const std::string& directory, const ModelOptions& options) {
  NPUSEG_RETURN_IF_ERROR(check_kind(directory, checkpoint::ModelKind::kEmbeddingGemma2));
  std::shared_ptr<EmbeddingGemma2Engine> engine(new EmbeddingGemma2Engine);
  EmbeddingGemma2Facts& facts = engine->facts_;
  NPUSEG_ASSIGN_OR_RETURN(facts.device, choose_device(options.device));
  NPUSEG_RETURN_IF_ERROR(
      check_precision(facts.device, checkpoint::ModelKind::kEmbeddingGemma2, options.precision));
  engine->log_ = options.log;
  engine->threads_ = options.threads;
  engine->features_ =
      std::make_shared<FeatureCache>(limit_or(options.image_cache_bytes, kDefaultImageCacheBytes));
  engine->budget_ = std::make_shared<core::MemoryBudget>(
      options.memory_limit == 0 ? SIZE_MAX : static_cast<size_t>(options.memory_limit));
  engine->log_(core::LogLevel::kInfo, "engine.device",
               facts.device.asked + " -> " + facts.device.used + ": " + facts.device.why);
  NPUSEG_RETURN_IF_ERROR(read_facts(directory, &facts));

  Call call(engine->with_defaults(options.call));
  embeddinggemma2::Model::Options model_options;
  model_options.check_weights = options.check_weights;
  model_options.form = form_of(options.precision);
  model_options.budget = engine->budget_;
  model_options.log = options.log;
  NPUSEG_ASSIGN_OR_RETURN(engine->model_,
                          embeddinggemma2::Model::load(directory, model_options, call));
  NPUSEG_ASSIGN_OR_RETURN(text::GemmaTokenizer tokenizer, text::GemmaTokenizer::load(directory));
  if (tokenizer.vocab_size() > facts.config.text.vocab_size) {
    return Status(
        Code::kCorruptData,
        format("cannot use model: %s: the tokenizer has ids up to %zu, the model's "
               "vocabulary %zu entries; the files do not belong together",
               directory.c_str(), tokenizer.vocab_size() - 1, facts.config.text.vocab_size));
  }
  const checkpoint::EmbeddingGemma2Config& config = facts.config;
  engine->media_ =
      text::MediaTokens::find(tokenizer, config.image_token_id, config.boi_token_id,
                              config.eoi_token_id, config.audio_token_id, config.video_token_id);
  if (config.vision && engine->media_.image.empty()) {
    return Status(Code::kCorruptData,
                  format("cannot use model: %s: the tokenizer has no token of config.json's "
                         "image_token_id %lld; the files do not belong together",
                         directory.c_str(), static_cast<long long>(config.image_token_id)));
  }
  engine->tokenizer_ = std::make_shared<const text::GemmaTokenizer>(std::move(tokenizer));
  facts.parameters = engine->model_->parameters();
  facts.weight_bytes = engine->model_->weight_bytes();
  facts.dtype = engine->model_->dtype();
  facts.memory_estimate = facts.weight_bytes + activation_estimate(facts);
  return engine;
}

Call::Options EmbeddingGemma2Engine::with_defaults(Call::Options options) const {
  if (options.threads == 0) options.threads = threads_;
  return options;
}

StageTimes EmbeddingGemma2Engine::times() const {
  const std::lock_guard lock(mutex_);
  return times_;
}

Result<size_t> EmbeddingGemma2Engine::dims_of(const EmbedOptions& options) const {
  const std::vector<size_t>& offered = facts_.sentence.dims;
  if (options.dims == 0) return facts_.config.text.embedding_dim;
  if (std::find(offered.begin(), offered.end(), options.dims) != offered.end()) {
    return options.dims;
  }
  return Status(Code::kInvalidArgument, format("cannot embed: dims is %zu; the model offers %s",
                                               options.dims, list_of(offered).c_str()));
}

Result<std::string_view> EmbeddingGemma2Engine::prompt_of(const EmbeddingInput& input,
                                                          const EmbedOptions& options) const {
  const checkpoint::SentenceConfig& sentence = facts_.sentence;
  const std::optional<std::string>& task = input.task ? input.task : options.task;
  std::string name;
  if (task) {
    name = *task;
  } else if (std::none_of(input.parts.begin(), input.parts.end(),
                          [](const EmbeddingPart& part) { return part.picture != nullptr; })) {
    name = sentence.default_prompt;
  }
  if (const checkpoint::TaskPrompt* prompt = sentence.find_prompt(name)) {
    return std::string_view(prompt->text);
  }
  if (name == kNoTask || (name.empty() && !task)) return std::string_view();
  std::string known = kNoTask;
  for (const checkpoint::TaskPrompt& prompt : sentence.prompts) known += ", " + prompt.name;
  return Status(Code::kInvalidArgument, "cannot embed: task \"" + name.substr(0, 100) +
                                            "\" is unknown; the model has " + known);
}

Result<EmbeddingLayout> EmbeddingGemma2Engine::layout(const EmbeddingInput& input,
                                                      const EmbedOptions& options,
                                                      Call& call) const {
  NPUSEG_ASSIGN_OR_RETURN(const std::string_view prompt, prompt_of(input, options));
  EmbeddingLayout layout;
  std::vector<text::InputPart> parts(input.parts.size());
  size_t room = kMostTextBytes;
  for (size_t i = 0; i < parts.size(); ++i) {
    const EmbeddingPart& part = input.parts[i];
    if (!part.picture) {
      if (part.text.size() > room) {
        return Status(
            Code::kLimitExceeded,
            format("cannot embed text: it has more than %zu bytes; shorten it", kMostTextBytes));
      }
      room -= part.text.size();
      parts[i].text = part.text;
      continue;
    }
    if (!facts_.config.vision) {
      return Status(Code::kUnsupported,
                    "cannot embed picture: the model has no vision tower; embed texts or use "
                    "another model");
    }
    NPUSEG_ASSIGN_OR_RETURN(const image::PatchGrid grid,
                            image::fit_patch_grid(part.picture->width(), part.picture->height(),
                                                  rule_of(facts_.processor)));
    parts[i].soft_tokens = grid.soft_tokens;
    layout.pictures.push_back(part.picture);
  }
  text::ComposeOptions compose;
  compose.call = &call;
  compose.max_tokens = std::min(facts_.sentence.max_tokens, facts_.config.text.max_positions);
  compose.truncate = options.truncate;
  compose.replace_invalid = options.replace_invalid;
  NPUSEG_ASSIGN_OR_RETURN(layout.composed,
                          text::compose_input(*tokenizer_, media_, prompt, parts, compose));
  // A tokenizer may have a longer token that takes a placeholder in.
  if (layout.composed.pictures.size() != layout.pictures.size()) {
    return Status(Code::kInvalidArgument,
                  format("cannot embed input: the tokenizer finds places for %zu of %zu pictures; "
                         "change the text around them",
                         layout.composed.pictures.size(), layout.pictures.size()));
  }
  return layout;
}

Result<image::PatchedPicture> EmbeddingGemma2Engine::patches(Photo& photo, Call& call) const {
  NPUSEG_ASSIGN_OR_RETURN(const image::RgbView view, photo.pixels());
  return image::make_patches(call, view, rule_of(facts_.processor), budget_);
}

Result<EmbeddingGemma2Engine::SoftTokens> EmbeddingGemma2Engine::soft_tokens(Photo& photo,
                                                                             Call& call,
                                                                             StageTimes* times) {
  return photo.features<SoftTokenMatrix>(features_, call, [&]() -> Result<SoftTokens> {
    image::PatchedPicture patched;
    {
      const StageTimer timer(times, Stage::kPreprocess);
      call.begin_stage(static_cast<uint32_t>(Stage::kPreprocess), 1);
      NPUSEG_ASSIGN_OR_RETURN(patched, patches(photo, call));
    }
    embeddinggemma2::Patches input;
    input.pixels = patched.pixels.view();
    input.grid_width = patched.grid.width;
    input.grid_height = patched.grid.height;
    auto made = std::make_shared<SoftTokenMatrix>();
    NPUSEG_ASSIGN_OR_RETURN(made->values,
                            embeddinggemma2::encode_picture(*model_, call, input, times));
    return SoftTokens(std::move(made));
  });
}

Result<Matrix> EmbeddingGemma2Engine::embed_some(const std::vector<EmbeddingLayout>& layouts,
                                                 size_t first, size_t count, Call& call,
                                                 StageTimes* times) {
  std::vector<SoftTokens> pictures;  // alive until the sequences are done
  std::vector<embeddinggemma2::Sequence> sequences(count);
  for (size_t i = 0; i < count; ++i) {
    const EmbeddingLayout& layout = layouts[first + i];
    const std::span<const int64_t> ids = layout.composed.ids;
    size_t done = 0;
    const auto add_ids = [&](size_t end) {
      if (end == done) return;
      embeddinggemma2::Part part;
      part.ids = ids.subspan(done, end - done);
      sequences[i].push_back(part);
      done = end;
    };
    for (size_t p = 0; p < layout.pictures.size(); ++p) {
      const text::ComposedInput::Run run = layout.composed.pictures[p];
      NPUSEG_ASSIGN_OR_RETURN(SoftTokens soft, soft_tokens(*layout.pictures[p], call, times));
      add_ids(run.begin);
      embeddinggemma2::Part part;
      part.soft_tokens = soft->values.view();
      sequences[i].push_back(part);
      done += run.count;
      pictures.push_back(std::move(soft));
    }
    add_ids(ids.size());
  }
  return embeddinggemma2::embed(*model_, call, sequences, times);
}

Status EmbeddingGemma2Engine::embed(const std::vector<EmbeddingInput>& inputs,
                                    const EmbedOptions& options, float* matrix, size_t row_floats) {
  NPUSEG_ASSIGN_OR_RETURN(const size_t dims, dims_of(options));
  Call call(with_defaults(options.call));
  std::vector<EmbeddingLayout> layouts;
  layouts.reserve(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    NPUSEG_RETURN_IF_ERROR(call.check());
    Result<EmbeddingLayout> made = layout(inputs[i], options, call);
    if (!made.ok()) {
      if (inputs.size() == 1) return made.status();
      return {made.status().code(), format("input %zu: ", i) + made.status().message()};
    }
    layouts.push_back(std::move(made.value()));
    if (const size_t dropped = layouts.back().dropped(); dropped != 0) {
      log_(core::LogLevel::kWarn, "engine.text",
           format("input %zu: text cut by %zu tokens to %zu", i, dropped,
                  layouts.back().composed.ids.size()));
    }
  }
  StageTimes times;
  NPUSEG_ASSIGN_OR_RETURN(Matrix vectors, Matrix::make(budget_, std::max<size_t>(1, inputs.size()),
                                                       dims, "embeddings"));
  const auto run = [&]() -> Status {
    for (size_t first = 0; first < inputs.size(); first += kInputsTogether) {
      const size_t count = std::min(kInputsTogether, inputs.size() - first);
      NPUSEG_ASSIGN_OR_RETURN(const Matrix some, embed_some(layouts, first, count, call, &times));
      for (size_t i = 0; i < count; ++i) {
        const float* row = some.view().row(i);
        float* out = vectors.view().row(first + i);
        if (dims == some.cols()) {
          std::memcpy(out, row, dims * sizeof(float));
        } else {
          embeddinggemma2::shorten({row, some.cols()}, dims, out);
        }
      }
    }
    return {};
  };
  Status status = run();
  // What earlier pictures left may be all that stands in the way.
  if (status.code() == Code::kLimitExceeded && features_->drop_others(0)) status = run();
  {
    const std::lock_guard lock(mutex_);
    for (size_t i = 0; i < embeddinggemma2::kStageCount; ++i) {
      times_.runs[i] += times.runs[i];
      times_.nanoseconds[i] += times.nanoseconds[i];
    }
  }
  if (!status.ok()) return status;
  for (size_t i = 0; i < inputs.size(); ++i) {
    std::memcpy(matrix + i * row_floats, vectors.view().row(i), dims * sizeof(float));
  }
  return {};
}

}  // namespace npuseg::engine

// SPDX-License-Identifier: Apache-2.0
#include "engine/embeddinggemma2_engine.h"

#include <algorithm>
#include <cstring>

#include "model/embeddinggemma2/stage_timer.h"

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

std::string list_of(const std::vector<size_t>& numbers) {
  std::string text;
  for (const size_t number : numbers) text += (text.empty() ? "" : ", ") + std::to_string(number);
  return text;
}

}  // namespace

image::PatchRule rule_of(const checkpoint::EmbeddingGemma2ProcessorConfig& processor) {
  image::PatchRule rule;
  rule.max_soft_tokens = processor.max_soft_tokens;
  rule.patch_size = processor.patch_size;
  rule.pooling = processor.pooling;
  rule.rescale_factor = processor.rescale_factor;
  return rule;
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
  const bool has_text =
      !prompt.empty() || std::any_of(input.parts.begin(), input.parts.end(),
                                     [](const EmbeddingPart& part) { return !part.picture; });
  if (has_text && facts_.most_text_tokens == 0) {
    return Status(Code::kUnsupported,
                  "cannot embed text: this bundle has no text path; use one exported with texts, "
                  "or a checkpoint");
  }
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
  compose.max_tokens =
      layout.pictures.empty() ? facts_.most_text_tokens : facts_.most_picture_tokens;
  compose.truncate = options.truncate;
  compose.replace_invalid = options.replace_invalid;
  if (!has_text && media_.image.empty()) {
    NPUSEG_ASSIGN_OR_RETURN(layout.composed,
                            text::compose_pictures(media_, start_, end_, parts, compose));
    return layout;
  }
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
    NPUSEG_ASSIGN_OR_RETURN(made->values, graph_->encode_picture(call, input, times));
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
  return graph_->embed(call, sequences, times);
}

Status EmbeddingGemma2Engine::embed(const std::vector<EmbeddingInput>& inputs,
                                    const EmbedOptions& options, float* matrix, size_t row_floats) {
  NPUSEG_ASSIGN_OR_RETURN(const size_t dims, dims_of(options));
  NPUSEG_RETURN_IF_ERROR(graph_->check_files());
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

// SPDX-License-Identifier: Apache-2.0
#include "engine/sam3_engine.h"

#include <algorithm>
#include <cmath>

#include "image/resize.h"
#include "model/sam3/stage_timer.h"
#include "text/utf8.h"

namespace npuseg::engine {

using core::Call;
using core::Code;
using core::Result;
using core::Status;

namespace {

constexpr size_t kMaxPromptBytes = size_t{1} << 20;
constexpr std::string_view kBoxOnlyText = "visual";

}  // namespace

Call::Options Sam3Engine::with_defaults(Call::Options options) const {
  if (options.threads == 0) options.threads = threads_;
  return options;
}

sam3::StageTimes Sam3Engine::times() const {
  const std::lock_guard lock(mutex_);
  return times_;
}

uint64_t Sam3Engine::prompt_cache_hits() const {
  const std::lock_guard lock(mutex_);
  return hits_;
}

uint64_t Sam3Engine::prompt_cache_bytes() const {
  const std::lock_guard lock(mutex_);
  return text_bytes_;
}

template <class Run>
Status Sam3Engine::with_room(const Photo& photo, Run&& run) {
  Status status = run();
  if (status.code() != Code::kLimitExceeded) return status;
  bool dropped = features_->drop_others(photo.identity());
  {
    const std::lock_guard lock(mutex_);
    dropped = dropped || !texts_.empty();
    texts_.clear();
    text_bytes_ = 0;
  }
  if (dropped) {
    log_(core::LogLevel::kInfo, "engine.memory",
         "features of other pictures and prompts were dropped: memory_limit leaves no room for "
         "them");
    status = run();
  }
  return status;
}

void Sam3Engine::count(const sam3::StageTimes& times) {
  const std::lock_guard lock(mutex_);
  for (size_t i = 0; i < sam3::kStageCount; ++i) {
    times_.runs[i] += times.runs[i];
    times_.nanoseconds[i] += times.nanoseconds[i];
  }
}

size_t Sam3Engine::model_input_floats() const {
  const size_t side = graph_->config().vit.image_size;
  return 3 * side * side;
}

Status Sam3Engine::model_input(Photo& photo, Call& call, float* pixels) {
  NPUSEG_ASSIGN_OR_RETURN(const image::RgbView view, photo.pixels());
  return model_input(view, call, pixels);
}

Status Sam3Engine::model_input(const image::RgbView& view, Call& call, float* pixels) const {
  const auto side = static_cast<uint32_t>(graph_->config().vit.image_size);
  NPUSEG_ASSIGN_OR_RETURN(
      const image::Picture resized,
      image::resize_rgb(call, view, side, side, image::Filter::kBilinear, budget_));
  return image::normalize_planar(call, resized.view(), table_, pixels);
}

Result<Sam3Engine::Image> Sam3Engine::image_features(Photo& photo, Call& call,
                                                     sam3::StageTimes* times) {
  return photo.features<sam3::ImageFeatures>(features_, call, [&]() -> Result<Image> {
    NPUSEG_ASSIGN_OR_RETURN(
        core::Buffer pixels,
        core::Buffer::make_floats(budget_, model_input_floats(), 1, "model input"));
    {
      const sam3::StageTimer timer(times, sam3::Stage::kPreprocess);
      call.begin_stage(static_cast<uint32_t>(sam3::Stage::kPreprocess), 1);
      NPUSEG_RETURN_IF_ERROR(model_input(photo, call, pixels.floats()));
    }
    return graph_->encode_image(call, pixels.floats(), times);
  });
}

Result<Sam3Engine::Text> Sam3Engine::text_features(const std::vector<int64_t>& ids, Call& call,
                                                   sam3::StageTimes* times) {
  {
    const std::lock_guard lock(mutex_);
    const auto at = std::find_if(texts_.begin(), texts_.end(),
                                 [&](const CachedText& text) { return text.ids == ids; });
    if (at != texts_.end()) {
      texts_.splice(texts_.begin(), texts_, at);
      ++hits_;
      return Text(texts_.front().features);
    }
  }
  NPUSEG_ASSIGN_OR_RETURN(Text features, graph_->encode_text(call, ids, times));
  const auto size = [](const CachedText& text) {
    return text.features->bytes() + text.ids.size() * sizeof(int64_t);
  };
  const std::lock_guard lock(mutex_);
  // Another thread may have computed the same meanwhile.
  const auto same = std::find_if(texts_.begin(), texts_.end(),
                                 [&](const CachedText& text) { return text.ids == ids; });
  if (same != texts_.end()) {
    text_bytes_ -= size(*same);
    texts_.erase(same);
  }
  texts_.push_front({ids, features});
  text_bytes_ += size(texts_.front());
  while (!texts_.empty() && (texts_.size() > most_texts_ || text_bytes_ > most_text_bytes_)) {
    text_bytes_ -= size(texts_.back());
    texts_.pop_back();
  }
  return features;
}

Status Sam3Engine::prepare(Photo& photo, const Call::Options& options) {
  NPUSEG_RETURN_IF_ERROR(graph_->check_files());
  Call call(with_defaults(options));
  sam3::StageTimes times;
  const Status status =
      with_room(photo, [&] { return image_features(photo, call, &times).status(); });
  count(times);
  return status;
}

namespace {

// Pixels -> normalised (cx, cy, w, h), in float32 as the reference's processor.
Result<std::vector<sam3::ExemplarBox>> normalize_boxes(const std::vector<PixelBox>& boxes,
                                                       uint32_t width, uint32_t height) {
  std::vector<sam3::ExemplarBox> out;
  const auto w = static_cast<float>(width);
  const auto h = static_cast<float>(height);
  for (size_t i = 0; i < boxes.size(); ++i) {
    const PixelBox& box = boxes[i];
    const auto refuse = [&](const char* why) {
      return Status(Code::kInvalidArgument,
                    core::format("cannot use box: %zu: [%g, %g, %g, %g] %s", i,
                                 static_cast<double>(box.x0), static_cast<double>(box.y0),
                                 static_cast<double>(box.x1), static_cast<double>(box.y1), why));
    };
    if (!std::isfinite(box.x0) || !std::isfinite(box.y0) || !std::isfinite(box.x1) ||
        !std::isfinite(box.y1)) {
      return refuse("is not finite; pass pixels");
    }
    if (!(box.x0 < box.x1) || !(box.y0 < box.y1)) {
      return refuse("has no area; give left, top, right, bottom");
    }
    if (box.x1 <= 0.0f || box.y1 <= 0.0f || box.x0 >= w || box.y0 >= h) {
      return refuse(
          core::format("lies outside of the %u x %u picture; give its pixels", width, height)
              .c_str());
    }
    // The reference takes a coordinate of -10 for padding.
    if (box.x0 == -10.0f || box.y0 == -10.0f) {
      return refuse("has a coordinate of exactly -10, which the model takes for padding; move it");
    }
    if (box.label != 0 && box.label != 1) {
      return refuse("has a label that is neither 1 (like this) nor 0 (not like this)");
    }
    const float x0 = box.x0 / w;
    const float y0 = box.y0 / h;
    const float x1 = box.x1 / w;
    const float y1 = box.y1 / h;
    out.push_back({(x0 + x1) / 2.0f, (y0 + y1) / 2.0f, x1 - x0, y1 - y0, box.label});
  }
  return out;
}

}  // namespace

Result<std::shared_ptr<const Answer>> Sam3Engine::segment(Photo& photo,
                                                          std::optional<std::string_view> text,
                                                          const SegmentOptions& options) {
  Call call(with_defaults(options.call));
  return segment(photo, text, options, call);
}

Result<std::shared_ptr<const Answer>> Sam3Engine::segment(Photo& photo,
                                                          std::optional<std::string_view> text,
                                                          const SegmentOptions& options,
                                                          Call& call) {
  NPUSEG_ASSIGN_OR_RETURN(const std::vector<sam3::ExemplarBox> boxes,
                          normalize_boxes(options.boxes, photo.width(), photo.height()));
  if (!boxes.empty() && facts_.source == ModelSource::kBundle) {
    return Status(Code::kUnsupported,
                  "cannot segment: a bundle has no encoder for boxes; give a text alone, or use a "
                  "checkpoint");
  }
  if (!text) {
    const bool positive = std::any_of(boxes.begin(), boxes.end(),
                                      [](const sam3::ExemplarBox& box) { return box.label == 1; });
    if (!positive) {
      return Status(Code::kInvalidArgument,
                    "cannot segment: no text and no positive box; give a text, or a box around an "
                    "example");
    }
    text = kBoxOnlyText;
  }
  if (text->size() > kMaxPromptBytes) {
    return Status(
        Code::kLimitExceeded,
        core::format("cannot read prompt: %zu bytes, at most %zu are accepted; shorten it",
                     text->size(), kMaxPromptBytes));
  }
  std::string replaced;
  if (options.replace_invalid && text::find_invalid_utf8(*text) != text->size()) {
    replaced = text::replace_invalid_utf8(*text);
    text = replaced;
    log_(core::LogLevel::kWarn, "engine.prompt", "bytes that are no UTF-8 became U+FFFD");
  }
  const size_t positions = graph_->config().text.positions;
  NPUSEG_ASSIGN_OR_RETURN(const text::Prompt prompt,
                          tokenizer_->encode_prompt(*text, positions, options.truncate));
  if (prompt.truncated) {
    log_(core::LogLevel::kWarn, "engine.prompt",
         core::format("prompt cut from %zu to %zu tokens", prompt.total, positions));
  }
  NPUSEG_RETURN_IF_ERROR(graph_->check_files());
  auto answer = std::make_shared<Answer>();
  answer->width = photo.width();
  answer->height = photo.height();
  answer->tokens = prompt.ids.size();
  answer->tokens_dropped = prompt.total - prompt.ids.size();
  answer->padded_ids = prompt.ids;
  answer->padded_ids.resize(std::max(positions, prompt.ids.size()), pad_id_);

  const auto run = [&]() -> Status {
    NPUSEG_ASSIGN_OR_RETURN(const Image image, image_features(photo, call, &answer->times));
    NPUSEG_ASSIGN_OR_RETURN(const Text features, text_features(prompt.ids, call, &answer->times));
    sam3::DetectOptions detect;
    detect.threshold = options.threshold;
    detect.max_instances = options.max_instances;
    detect.all_masks = options.all_masks;
    detect.semantic = options.semantic;
    NPUSEG_ASSIGN_OR_RETURN(answer->detection,
                            graph_->detect(call, *image, *features, boxes, detect, &answer->times));
    answer->presence = image::sigmoid(answer->detection.presence_logit);
    const sam3::StageTimer timer(&answer->times, sam3::Stage::kPostprocess);
    return answer->finish(call, options.mask_threshold);
  };
  const Status status = with_room(photo, run);
  count(answer->times);
  if (!status.ok()) return status;
  return std::shared_ptr<const Answer>(std::move(answer));
}

}  // namespace npuseg::engine

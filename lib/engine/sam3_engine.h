// SPDX-License-Identifier: Apache-2.0
// A loaded SAM 3 model with its tokenizer, prompt cache and counters: what answers a prompt.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/log.h"
#include "engine/answer.h"
#include "engine/device.h"
#include "engine/model_options.h"
#include "engine/photo.h"
#include "engine/report.h"
#include "engine/weight_facts.h"
#include "image/normalize.h"
#include "model/sam3/sam3.h"
#include "text/clip_tokenizer.h"

namespace npuseg::sam3 {
class NpuModel;
}

namespace npuseg::engine {

struct PixelBox {
  float x0 = 0, y0 = 0, x1 = 0, y1 = 0;
  int32_t label = 1;
};

struct SegmentOptions {
  float threshold = 0.5f;
  float mask_threshold = 0.5f;
  size_t max_instances = 0;
  bool truncate = false;
  bool replace_invalid = false;  // bytes of the text that are no UTF-8 become U+FFFD
  bool all_masks = false;
  bool semantic = false;
  std::vector<PixelBox> boxes;
  core::Call::Options call;
};

struct Sam3Facts : WeightFacts {
  ModelSource source = ModelSource::kCheckpoint;
  checkpoint::Sam3Config config;
  size_t npu_contexts = 0;  // that a bundle's kernels take
  uint64_t memory_estimate = 0;
  DeviceChoice device;
};

// Thread-safe.
class Sam3Engine {
 public:
  static core::Result<std::shared_ptr<Sam3Engine>> load(const std::string& directory,
                                                        const ModelOptions& options);
  // Facts without reading weights; the device is left empty.
  static core::Result<Sam3Facts> probe(const std::string& directory);
  // What the files are together, without reading weights: configuration, tensors, tokenizer.
  static core::Result<std::string> verify_structure(const std::string& directory);

  [[nodiscard]] const Sam3Facts& facts() const { return facts_; }
  // A call's options with the model's threads where they name none.
  [[nodiscard]] core::Call::Options with_defaults(core::Call::Options options) const;
  [[nodiscard]] sam3::StageTimes times() const;
  [[nodiscard]] uint64_t prompt_cache_hits() const;
  [[nodiscard]] uint64_t image_cache_bytes() const { return features_->bytes(); }
  [[nodiscard]] uint64_t prompt_cache_bytes() const;
  [[nodiscard]] const core::MemoryBudgetPtr& budget() const { return budget_; }
  // Null where the model is a bundle.
  [[nodiscard]] std::shared_ptr<const sam3::Model> float_model() const;
  [[nodiscard]] const text::ClipTokenizer& tokenizer() const { return *tokenizer_; }

  // text absent: "visual" where a positive box is given.
  core::Result<std::shared_ptr<const Answer>> segment(Photo& photo,
                                                      std::optional<std::string_view> text,
                                                      const SegmentOptions& options);
  core::Status prepare(Photo& photo, const core::Call::Options& options);
  // [3, side, side] float32.
  core::Status model_input(Photo& photo, core::Call& call, float* pixels);
  core::Status model_input(const image::RgbView& picture, core::Call& call, float* pixels) const;
  [[nodiscard]] size_t model_input_floats() const;
  // A bundle's stages and cases against the references that it carries, a row each. WRONG_STATE: it
  // has none; UNSUPPORTED: no bundle.
  core::Status check(core::Call& call, Report* report);

 private:
  using Image = std::shared_ptr<const sam3::ImageFeatures>;
  using Text = std::shared_ptr<const sam3::TextFeatures>;
  struct CachedText {
    std::vector<int64_t> ids;
    Text features;
  };

  friend class Sam3CaseCheck;

  Sam3Engine() = default;
  core::Result<std::shared_ptr<const Answer>> segment(Photo& photo,
                                                      std::optional<std::string_view> text,
                                                      const SegmentOptions& options,
                                                      core::Call& call);
  core::Status open_checkpoint(const std::string& directory, const ModelOptions& options,
                               core::Call& call);
  core::Status open_bundle(const std::string& directory, const ModelOptions& options);
  core::Status open_tokenizer(const std::string& directory);
  core::Result<Image> image_features(Photo& photo, core::Call& call, sam3::StageTimes* times);
  core::Result<Text> text_features(const std::vector<int64_t>& ids, core::Call& call,
                                   sam3::StageTimes* times);
  // Runs a call again after dropping what the caches hold when memory_limit left it no room.
  template <class Run>
  core::Status with_room(const Photo& photo, Run&& run);
  void count(const sam3::StageTimes& times);

  std::shared_ptr<const sam3::Graph> graph_;
  std::shared_ptr<const sam3::NpuModel> npu_model_;  // the same of a bundle, else null
  std::shared_ptr<const text::ClipTokenizer> tokenizer_;
  int64_t pad_id_ = 0;
  image::NormalizeTable table_{};
  core::MemoryBudgetPtr budget_;
  core::Logger log_;
  int threads_ = 0;
  std::shared_ptr<FeatureCache> features_;
  size_t most_texts_ = 0;
  size_t most_text_bytes_ = 0;
  Sam3Facts facts_;

  mutable std::mutex mutex_;
  std::list<CachedText> texts_;  // guarded by mutex_, most recent first
  size_t text_bytes_ = 0;        // guarded by mutex_
  sam3::StageTimes times_;       // guarded by mutex_
  uint64_t hits_ = 0;            // guarded by mutex_
};

}  // namespace npuseg::engine

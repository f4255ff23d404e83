// SPDX-License-Identifier: Apache-2.0
// SAM 3 (transformers Sam3Model) as plain steps: picture -> features, text -> features, both ->
// detection. The engine wires them with its caches; each step is one function over tensor views
// (one file a stage beside this header) and can be run alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "checkpoint/sam3_config.h"
#include "compute/gemm.h"
#include "core/buffer.h"
#include "core/log.h"
#include "core/status.h"
#include "core/threads.h"

namespace npuseg::sam3 {

using checkpoint::Sam3Config;

struct Weights;    // every used tensor by name, shapes checked (weights.h)
struct Constants;  // RoPE tables, sine positions: depend on the config alone (constants.h)

// Stable ids for progress callbacks and timings (public NPUSEG_STAGE_*).
enum class Stage : uint32_t {
  kLoad = 1,
  kPreprocess = 2,
  kVit = 3,
  kNeck = 4,
  kText = 5,
  kGeometry = 6,
  kDetrEncoder = 7,
  kDetrDecoder = 8,
  kMaskDecoder = 9,
  kPostprocess = 10,
};
constexpr size_t kStageCount = 11;  // ids 1..10; index 0 unused

// How often each stage ran and how long it took, for tests, --reps and reports.
struct StageTimes {
  uint64_t runs[kStageCount] = {};
  uint64_t nanoseconds[kStageCount] = {};
};

// Of one picture: kept FPN levels (channels last) and what of the prompt side depends on the
// picture alone. Immutable once made.
struct ImageFeatures {
  std::vector<core::Matrix> levels;  // [side*side, D], finest first
  core::Matrix encoder_input;        // DETR encoder after layer 0's self-attention [tokens, D]
  [[nodiscard]] size_t bytes() const;
};

// Of one prompt string: projected vectors of the valid tokens [n, D], and what the NPU graph makes
// of them alone: the packed weights of its prompt cross-attentions (npu_fold.h). Immutable once
// made.
struct TextFeatures {
  core::Matrix tokens;
  std::vector<std::vector<unsigned char>> folded;
  [[nodiscard]] size_t bytes() const;
};

// Normalised (cx, cy, w, h) of the upright picture; label 1 positive, 0 negative.
struct ExemplarBox {
  float cx = 0, cy = 0, w = 0, h = 0;
  int32_t label = 1;
};

struct DetectOptions {
  float threshold = 0.5f;    // instances with score > threshold
  size_t max_instances = 0;  // best ones kept; 0: all
  bool all_masks = false;    // mask logits of every query, not of the kept ones only
  bool semantic = false;     // semantic map wanted
};

// Raw answer of one prompt on one picture.
struct Detection {
  float presence_logit = 0;
  std::vector<float> logits;     // [Q]
  std::vector<float> scores;     // [Q] sigmoid(logit) * sigmoid(presence)
  std::vector<float> boxes;      // [Q,4] normalised xyxy, unclamped
  std::vector<uint32_t> kept;    // queries with score > threshold, descending score, ties by query
  std::vector<uint32_t> masked;  // query of each row of masks: kept in this order, or all in order
  core::Matrix masks;            // [masked.size(), side*side] logits; empty when none
  core::Matrix semantic;         // [1, side*side] logits; empty unless asked
  size_t side = 0;
  [[nodiscard]] size_t bytes() const;
};

// A loaded model, whichever way it computes: the float graph of a checkpoint (Model, below) or the
// NPU graph of a bundle (npu_model.h). Any number of threads may use one.
class Graph {
 public:
  virtual ~Graph();
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  [[nodiscard]] const Sam3Config& config() const { return config_; }
  [[nodiscard]] const checkpoint::Sam3ProcessorConfig& processor() const { return processor_; }
  // Of an NPU graph those that the host's stages use; packed ones are not among them.
  [[nodiscard]] const Weights& weights() const { return *weights_; }
  [[nodiscard]] size_t parameters() const { return parameters_; }      // used ones
  [[nodiscard]] size_t weight_bytes() const { return weight_bytes_; }  // as stored, used ones
  [[nodiscard]] const char* dtype() const { return dtype_; }           // "F32", "BF16", "mixed" ...
  [[nodiscard]] const core::MemoryBudgetPtr& budget() const { return budget_; }
  // CORRUPT_DATA when a file that weights are read from was changed since the model was opened.
  [[nodiscard]] virtual core::Status check_files() const = 0;

  // pixels: normalised planar float [3, S, S]. StageTimes may be null in all of these.
  virtual core::Result<std::shared_ptr<const ImageFeatures>> encode_image(
      core::Call& call, const float* pixels, StageTimes* times) const = 0;
  // ids: BOS ... EOS without padding, 1 .. config().text.positions of them, each < vocab_size.
  virtual core::Result<std::shared_ptr<const TextFeatures>> encode_text(
      core::Call& call, std::span<const int64_t> ids, StageTimes* times) const = 0;
  // Features of this graph. UNSUPPORTED: boxes, where the model has no encoder for them.
  virtual core::Result<Detection> detect(core::Call& call, const ImageFeatures& image,
                                         const TextFeatures& text,
                                         std::span<const ExemplarBox> boxes,
                                         const DetectOptions& options, StageTimes* times) const = 0;

 protected:
  Graph();
  Sam3Config config_;
  checkpoint::Sam3ProcessorConfig processor_;
  std::unique_ptr<Weights> weights_;
  size_t parameters_ = 0;
  size_t weight_bytes_ = 0;
  const char* dtype_ = "F32";
  core::MemoryBudgetPtr budget_;
};

// The float graph. Immutable after load.
class Model final : public Graph {
 public:
  struct Options {
    bool check_weights = true;  // scan for NaN/Inf and name the tensor
    core::MemoryBudgetPtr budget;
    core::Logger log;
  };
  static core::Result<std::shared_ptr<const Model>> load(const std::string& directory,
                                                         const Options& options, core::Call& call);
  ~Model() override;

  [[nodiscard]] const Constants& constants() const { return *constants_; }
  [[nodiscard]] core::Status check_files() const override { return files_.check_unchanged(); }

  core::Result<std::shared_ptr<const ImageFeatures>> encode_image(core::Call& call,
                                                                  const float* pixels,
                                                                  StageTimes* times) const override;
  core::Result<std::shared_ptr<const TextFeatures>> encode_text(core::Call& call,
                                                                std::span<const int64_t> ids,
                                                                StageTimes* times) const override;
  core::Result<Detection> detect(core::Call& call, const ImageFeatures& image,
                                 const TextFeatures& text, std::span<const ExemplarBox> boxes,
                                 const DetectOptions& options, StageTimes* times) const override;

 private:
  Model();
  checkpoint::Checkpoint files_;
  std::unique_ptr<Constants> constants_;
};

}  // namespace npuseg::sam3

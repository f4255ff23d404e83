// SPDX-License-Identifier: Apache-2.0
// A loaded EmbeddingGemma 2 model with its tokenizer and counters: what embeds inputs.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "bundle/bundle.h"
#include "engine/embedding_input.h"
#include "engine/model_options.h"
#include "engine/photo.h"
#include "engine/report.h"
#include "engine/weight_facts.h"
#include "image/patches.h"
#include "model/embeddinggemma2/embeddinggemma2.h"

namespace npuseg::engine {

struct EmbedOptions {
  // Name of a task prompt, "none", or absent: the model's default for texts, none with pictures.
  std::optional<std::string> task;
  size_t dims = 0;  // 0: all
  bool truncate = false;
  bool replace_invalid = false;
  core::Call::Options call;
};

struct EmbeddingGemma2Facts : WeightFacts {
  ModelSource source = ModelSource::kCheckpoint;
  checkpoint::EmbeddingGemma2Config config;
  checkpoint::EmbeddingGemma2ProcessorConfig processor;
  checkpoint::SentenceConfig sentence;
  // Start and end included; 0: the model takes no texts.
  size_t most_text_tokens = 0;
  size_t most_picture_tokens = 0;  // of inputs with pictures
  size_t npu_contexts = 0;         // that a bundle's kernels take
  uint64_t memory_estimate = 0;
  DeviceChoice device;
};

image::PatchRule rule_of(const checkpoint::EmbeddingGemma2ProcessorConfig& processor);

// Thread-safe.
class EmbeddingGemma2Engine {
 public:
  static core::Result<std::shared_ptr<EmbeddingGemma2Engine>> load(const std::string& directory,
                                                                   const ModelOptions& options);
  // Facts without reading weights; the device is left empty.
  static core::Result<EmbeddingGemma2Facts> probe(const std::string& directory);
  // What the files are together, without reading weights: configuration, tensors, tokenizer.
  static core::Result<std::string> verify_structure(const std::string& directory);

  [[nodiscard]] const EmbeddingGemma2Facts& facts() const { return facts_; }
  [[nodiscard]] embeddinggemma2::StageTimes times() const;
  [[nodiscard]] uint64_t image_cache_bytes() const { return features_->bytes(); }
  [[nodiscard]] const core::MemoryBudgetPtr& budget() const { return budget_; }

  // The size of vector that the options ask for; INVALID_ARGUMENT listing those there are.
  [[nodiscard]] core::Result<size_t> dims_of(const EmbedOptions& options) const;
  // A call's options with the model's threads where they name none.
  [[nodiscard]] core::Call::Options with_defaults(core::Call::Options options) const;
  // What an input becomes, without computing.
  [[nodiscard]] core::Result<EmbeddingLayout> layout(const EmbeddingInput& input,
                                                     const EmbedOptions& options,
                                                     core::Call& call) const;
  // What the vision tower is fed.
  [[nodiscard]] core::Result<image::PatchedPicture> patches(Photo& photo, core::Call& call) const;

  // Row i of matrix, dims_of(options) floats, is the unit vector of input i. Nothing is written
  // when anything fails.
  core::Status embed(const std::vector<EmbeddingInput>& inputs, const EmbedOptions& options,
                     float* matrix, size_t row_floats);

  // Of a bundle: its references against what the model makes of their pictures and texts.
  core::Status check(core::Call& call, Report* report) const;

 private:
  using SoftTokens = std::shared_ptr<const struct SoftTokenMatrix>;

  EmbeddingGemma2Engine() = default;
  core::Status open_checkpoint(const std::string& directory, const ModelOptions& options,
                               core::Call& call);
  core::Status open_bundle(const std::string& directory, const ModelOptions& options);
  [[nodiscard]] core::Result<std::string_view> prompt_of(const EmbeddingInput& input,
                                                         const EmbedOptions& options) const;
  core::Result<SoftTokens> soft_tokens(Photo& photo, core::Call& call,
                                       embeddinggemma2::StageTimes* times);
  // Unit vectors of some of the inputs: [count, embedding_dim].
  core::Result<core::Matrix> embed_some(const std::vector<EmbeddingLayout>& layouts, size_t first,
                                        size_t count, core::Call& call,
                                        embeddinggemma2::StageTimes* times);

  std::shared_ptr<const embeddinggemma2::Graph> graph_;
  std::shared_ptr<const bundle::Bundle> bundle_;           // null of a checkpoint
  std::shared_ptr<const text::GemmaTokenizer> tokenizer_;  // null of a bundle without texts
  text::MediaTokens media_;
  int64_t start_ = 0;  // around pictures that go without tokenizer
  int64_t end_ = 0;
  core::MemoryBudgetPtr budget_;
  core::Logger log_;
  int threads_ = 0;
  std::shared_ptr<FeatureCache> features_;
  EmbeddingGemma2Facts facts_;

  mutable std::mutex mutex_;
  embeddinggemma2::StageTimes times_;  // guarded by mutex_
};

}  // namespace npuseg::engine

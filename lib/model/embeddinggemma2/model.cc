// SPDX-License-Identifier: Apache-2.0
// Opening an EmbeddingGemma 2 checkpoint: config, tensors, and the scan for values that are no
// numbers.
#include <algorithm>

#include "compute/elementwise.h"
#include "model/embeddinggemma2/embeddinggemma2.h"
#include "model/embeddinggemma2/rope_cache.h"
#include "model/embeddinggemma2/weights.h"

namespace npuseg::embeddinggemma2 {

using core::Code;
using core::Result;
using core::Status;

namespace {

constexpr const char* kLogSource = "model.embeddinggemma2";

// Elements a worker scans before it looks whether the call was stopped (about a millisecond).
constexpr size_t kScanChunk = size_t{1} << 21;

Status scan_weights(const Weights& weights, const std::string& directory, core::Call& call) {
  struct Chunk {
    size_t tensor;
    size_t first;
    size_t count;
  };
  std::vector<Chunk> chunks;
  for (size_t t = 0; t < weights.used.size(); ++t) {
    const size_t elements = weights.used[t].second.shape.elements();
    for (size_t first = 0; first < elements; first += kScanChunk) {
      chunks.push_back({t, first, std::min(kScanChunk, elements - first)});
    }
  }
  call.begin_stage(static_cast<uint32_t>(Stage::kLoad), chunks.size());
  std::vector<size_t> bad(chunks.size());
  NPUSEG_RETURN_IF_ERROR(core::parallel_for(call, chunks.size(), [&](size_t i, int) {
    const Chunk& chunk = chunks[i];
    bad[i] = compute::find_non_finite(weights.used[chunk.tensor].second, chunk.first, chunk.count);
    call.advance();
  }));
  for (size_t i = 0; i < chunks.size(); ++i) {
    const Chunk& chunk = chunks[i];
    if (bad[i] < chunk.first + chunk.count) {
      const auto& [name, view] = weights.used[chunk.tensor];
      return Status(
          Code::kCorruptData,
          core::format("cannot use model: %s: tensor %s (%s) holds NaN or infinity at "
                       "element %zu; the file is damaged or badly converted, get it again",
                       directory.c_str(), name.c_str(), core::dtype_name(view.dtype), bad[i]));
    }
  }
  return {};
}

// As the reference does, tensors too many are left alone; but the user should hear of them: a
// config that names too few layers shows in this way only.
void report_surplus(const Weights& weights, const std::string& directory, const core::Logger& log) {
  constexpr size_t kNamed = 3;
  if (weights.surplus.empty()) return;
  std::string names;
  for (size_t i = 0; i < std::min(kNamed, weights.surplus.size()); ++i) {
    names += (i == 0 ? "" : ", ") + weights.surplus[i];
  }
  if (weights.surplus.size() > kNamed) {
    names += core::format(" and %zu more", weights.surplus.size() - kNamed);
  }
  log(core::LogLevel::kWarn, kLogSource,
      core::format("%s: tensors that config.json has no place for are not used: %s; check that "
                   "the files belong together",
                   directory.c_str(), names.c_str()));
}

}  // namespace

Model::Model() = default;
Model::~Model() = default;

Result<std::shared_ptr<const Model>> Model::load(const std::string& directory,
                                                 const Options& options, core::Call& call) {
  compute::apply_isa_limit();
  std::shared_ptr<Model> model(new Model);
  model->budget_ = options.budget;
  NPUSEG_ASSIGN_OR_RETURN(model->config_, checkpoint::read_embeddinggemma2_config(directory));
  if (!options.vision) model->config_.vision.reset();
  NPUSEG_ASSIGN_OR_RETURN(model->files_, checkpoint::Checkpoint::open(directory));
  model->weights_ = std::make_unique<Weights>();
  NPUSEG_RETURN_IF_ERROR(
      Weights::bind(model->files_, model->config_, directory, model->weights_.get()));
  for (const auto& [name, view] : model->weights_->used) {
    model->parameters_ += view.shape.elements();
    model->weight_bytes_ += view.bytes();
  }
  const core::DType first = model->weights_->used.front().second.dtype;
  const bool same = std::all_of(model->weights_->used.begin(), model->weights_->used.end(),
                                [&](const auto& item) { return item.second.dtype == first; });
  model->dtype_ = same ? core::dtype_name(first) : "mixed";
  report_surplus(*model->weights_, directory, options.log);
  if (options.check_weights) {
    NPUSEG_RETURN_IF_ERROR(scan_weights(*model->weights_, directory, call));
  }
  model->ropes_ = std::make_unique<Ropes>(model->config_);
  options.log(core::LogLevel::kInfo, kLogSource,
              core::format("%s: %zu parameters in %s, vectors of %zu, pictures %s, %s, SIMD %s",
                           directory.c_str(), model->parameters_, model->dtype_,
                           model->config_.text.embedding_dim,
                           model->config_.vision.has_value() ? "too" : "no",
                           compute::gemm_backend(), compute::simd_target()));
  return std::shared_ptr<const Model>(std::move(model));
}

}  // namespace npuseg::embeddinggemma2

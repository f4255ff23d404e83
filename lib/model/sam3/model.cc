// SPDX-License-Identifier: Apache-2.0
// Opening a SAM 3 checkpoint: config, tensors, tables, and the scan for values that are no numbers.
#include <algorithm>

#include "compute/elementwise.h"
#include "model/sam3/constants.h"
#include "model/sam3/sam3.h"
#include "model/sam3/weights.h"

namespace npuseg::sam3 {

using core::Code;
using core::Result;
using core::Status;

namespace {

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

// What the formulas of this file's stages take for granted, beyond what the config reader checks.
Status check_supported(const Sam3Config& config, const std::string& directory) {
  if (config.vit.channels != 3) {
    return Status(Code::kUnsupported,
                  core::format("cannot use model: %s: config.json: num_channels is %zu; pictures "
                               "have 3 channels",
                               directory.c_str(), config.vit.channels));
  }
  if (config.detr_encoder.layers == 0 || config.detr_decoder.layers == 0 || config.queries == 0) {
    return Status(
        Code::kUnsupported,
        core::format("cannot use model: %s: config.json: DETR encoder and decoder need at "
                     "least one layer and one query",
                     directory.c_str()));
  }
  return {};
}

}  // namespace

Graph::Graph() = default;
Graph::~Graph() = default;

Model::Model() = default;
Model::~Model() = default;

Result<std::shared_ptr<const Model>> Model::load(const std::string& directory,
                                                 const Options& options, core::Call& call) {
  compute::apply_isa_limit();
  std::shared_ptr<Model> model(new Model);
  model->budget_ = options.budget;
  NPUSEG_ASSIGN_OR_RETURN(model->config_, checkpoint::read_sam3_config(directory));
  NPUSEG_RETURN_IF_ERROR(check_supported(model->config_, directory));
  NPUSEG_ASSIGN_OR_RETURN(model->processor_, checkpoint::read_sam3_processor_config(
                                                 directory, model->config_.vit.image_size));
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
  if (options.check_weights) {
    NPUSEG_RETURN_IF_ERROR(scan_weights(*model->weights_, directory, call));
  }
  model->constants_ = std::make_unique<Constants>(model->config_);
  options.log(
      core::LogLevel::kInfo, "model.sam3",
      core::format("%s: %zu parameters in %s, picture %zu x %zu, %s, SIMD %s", directory.c_str(),
                   model->parameters_, model->dtype_, model->config_.vit.image_size,
                   model->config_.vit.image_size, compute::gemm_backend(), compute::simd_target()));
  return std::shared_ptr<const Model>(std::move(model));
}

}  // namespace npuseg::sam3

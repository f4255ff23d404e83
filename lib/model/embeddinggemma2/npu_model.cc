// SPDX-License-Identifier: Apache-2.0
// Opening a bundle for a device, and its steps.
#include "model/embeddinggemma2/npu_model.h"

#include <algorithm>

#include "compute/elementwise.h"
#include "model/embeddinggemma2/npu_kernels.h"
#include "model/embeddinggemma2/npu_weights.h"
#include "model/embeddinggemma2/rope_cache.h"
#include "model/embeddinggemma2/stage_timer.h"

namespace npuseg::embeddinggemma2 {

using bundle::Gemma2Params;
using core::Code;
using core::format;
using core::Result;
using core::Status;

namespace {

constexpr const char* kLogSource = "model.embeddinggemma2";

// The graph keeps one table of rotations a kind of layer.
Status check_heads(const bundle::Bundle& bundle) {
  const Gemma2Params& p = bundle.gemma2().params;
  for (size_t i = 0; i < p.layers; ++i) {
    for (size_t j = 0; j < i; ++j) {
      if (p.global[i] != p.global[j] ||
          (p.head_dims[i] == p.head_dims[j] && p.kv_heads[i] == p.kv_heads[j])) {
        continue;
      }
      return {Code::kUnsupported,
              format("cannot use bundle: %s: layers %zu and %zu are of one kind with other heads; "
                     "use a bundle of EmbeddingGemma 2",
                     bundle.directory().c_str(), j, i)};
    }
  }
  return {};
}

// What a bundle's params say in the terms of a checkpoint's config.
EmbeddingGemma2Config config_of(const Gemma2Params& params) {
  EmbeddingGemma2Config config;
  auto& text = config.text;
  text.hidden_size = params.dim;
  text.intermediate_size = params.inner;
  text.layers = params.layers;
  text.heads = params.heads;
  text.per_layer_size = params.ple;
  text.embedding_dim = params.out;
  text.sliding_window = params.window;
  text.max_positions = params.t_rows;
  text.rms_norm_eps = params.eps;
  text.is_full = params.global;
  text.sliding.rope_theta = static_cast<double>(params.theta_sliding);
  text.full.rope_theta = static_cast<double>(params.theta_global);
  for (size_t i = 0; i < params.layers; ++i) {
    auto& kind = params.global[i] ? text.full : text.sliding;
    kind.head_dim = params.head_dims[i];
    kind.kv_heads = params.kv_heads[i];
  }
  EmbeddingGemma2Config::Vision vision;
  vision.hidden_size = params.v_dim;
  vision.intermediate_size = params.v_inner;
  vision.layers = params.v_layers;
  vision.heads = vision.kv_heads = params.v_heads;
  vision.head_dim = params.v_head_dim;
  vision.patch_size = params.v_patch;
  vision.pooling = params.v_pool;
  vision.rms_norm_eps = params.v_eps;
  vision.rope_theta = static_cast<double>(params.v_theta);
  config.vision = vision;
  return config;
}

}  // namespace

NpuModel::NpuModel() = default;
NpuModel::~NpuModel() = default;

Result<NpuModel::Facts> NpuModel::read_facts(const bundle::Bundle& bundle) {
  if (bundle.kind() != bundle::BundleKind::kEmbeddingGemma2) {
    return Status(Code::kUnsupported, "cannot use bundle: " + bundle.directory() +
                                          ": it is no EmbeddingGemma 2 bundle");
  }
  NPUSEG_RETURN_IF_ERROR(check_heads(bundle));
  const bundle::Gemma2Manifest& manifest = bundle.gemma2();
  const Gemma2Params& params = manifest.params;
  Facts facts;
  facts.config = config_of(params);
  // Both are of their size once the bundle is open.
  if (const auto* positions = bundle.tensors().find("v.pos")) {
    facts.config.vision->position_rows = positions->view.shape.elements() / (2 * params.v_dim);
  }
  // A bundle without texts still has the four vectors around a picture.
  const auto* embeddings = bundle.tensors().find("t.embed");
  facts.config.text.vocab_size = params.max_text_tokens == 0 || embeddings == nullptr
                                     ? 0
                                     : embeddings->view.shape.elements() / params.dim;
  if (params.bos) facts.special.start = *params.bos;
  if (params.eos) facts.special.end = *params.eos;
  for (const auto& [id, text] : manifest.added_tokens) {
    if (text == "<|image>") facts.special.begin_image = static_cast<int64_t>(id);
    if (text == "<image|>") facts.special.end_image = static_cast<int64_t>(id);
    if (text == "<|image|>") facts.config.image_token_id = static_cast<int64_t>(id);
  }
  facts.config.boi_token_id = facts.special.begin_image;
  facts.config.eoi_token_id = facts.special.end_image;
  for (const auto& weight : manifest.packed_weights()) {
    const bundle::Gemma2Gemm& gemm = manifest.gemms.find(weight.gemm)->second;
    facts.parameters += gemm.k * gemm.n;
  }
  for (const auto& [name, tensor] : bundle.tensors().all()) {
    // Not the references that the bundle carries for checks.
    if (name.starts_with("ref.") || name.starts_with("tref.") || name.starts_with("tok.")) continue;
    facts.weight_bytes += tensor.view.bytes();
    if (tensor.view.dtype != core::DType::kU8) facts.parameters += tensor.view.shape.elements();
  }
  facts.device_bytes = NpuKernels::row_bytes(manifest);
  return facts;
}

Result<std::shared_ptr<NpuModel>> NpuModel::load(std::shared_ptr<const bundle::Bundle> bundle,
                                                 std::shared_ptr<npu::Device> device,
                                                 const Options& options) {
  compute::apply_isa_limit();
  NPUSEG_ASSIGN_OR_RETURN(const Facts facts, read_facts(*bundle));
  std::shared_ptr<NpuModel> model(new NpuModel);
  model->bundle_ = bundle;
  model->budget_ = options.budget;
  model->config_ = facts.config;
  model->special_ = facts.special;
  model->parameters_ = facts.parameters;
  model->weight_bytes_ = facts.weight_bytes;
  model->dtype_ = "BFP16";
  model->weights_ = std::make_unique<NpuWeights>();
  NPUSEG_RETURN_IF_ERROR(NpuWeights::bind(*bundle, model->weights_.get()));
  model->ropes_ = std::make_unique<Ropes>(model->config_);
  NPUSEG_ASSIGN_OR_RETURN(model->kernels_, NpuKernels::make(bundle, device));
  options.log(
      core::LogLevel::kInfo, kLogSource,
      format("%s: %zu parameters packed for an NPU, vectors of %zu, texts of up to %zu "
             "tokens, on %s, %zu contexts",
             bundle->directory().c_str(), model->parameters_, model->config_.text.embedding_dim,
             bundle->gemma2().params.max_text_tokens, device->name().c_str(), bundle->contexts()));
  return model;
}

Status NpuModel::check_files() const { return bundle_->tensors().check_unchanged(); }

npu::DeviceCounters NpuModel::counters() const { return kernels_->device().counters(); }

}  // namespace npuseg::embeddinggemma2

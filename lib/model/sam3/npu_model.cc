// SPDX-License-Identifier: Apache-2.0
// Opening a bundle for a device, and the NPU graph's stages wired.
#include "model/sam3/npu_model.h"

#include "compute/elementwise.h"
#include "model/sam3/detection.h"
#include "model/sam3/npu_rows.h"
#include "model/sam3/npu_stages.h"
#include "model/sam3/scoring.h"
#include "model/sam3/stage_timer.h"
#include "model/sam3/text_encoder.h"

namespace npuseg::sam3 {

using bundle::Sam3Params;
using compute::Exec;
using core::Call;
using core::Code;
using core::format;
using core::Matrix;
using core::Result;
using core::Status;

namespace {

// What a bundle's params say in the terms of a checkpoint's config.
Sam3Config config_of(const Sam3Params& p) {
  Sam3Config config;
  auto& vit = config.vit;
  vit.hidden_size = p.vit_dim;
  vit.intermediate_size = p.vit_ffn_pad;
  vit.layers = p.vit_layers;
  vit.heads = p.vit_heads;
  vit.image_size = p.image_size;
  vit.patch_size = p.patch;
  vit.window_size = p.window;
  vit.position_rows = p.window;
  vit.global_layers = p.vit_global;
  vit.layer_norm_eps = p.vit_eps;
  auto& text = config.text;
  text.hidden_size = p.text_dim;
  text.intermediate_size = p.text_ffn;
  text.layers = p.text_layers;
  text.heads = p.text_heads;
  text.positions = p.text_len;
  text.layer_norm_eps = p.text_eps;
  config.hidden_size = p.d_model;
  config.geometry.layers = 0;
  config.detr_encoder.layers = p.d_layers;
  config.detr_encoder.heads = p.d_heads;
  config.detr_encoder.intermediate_size = p.d_ffn;
  config.detr_decoder.layers = p.dec_layers;
  config.detr_decoder.heads = p.d_heads;
  config.detr_decoder.intermediate_size = p.d_ffn;
  config.queries = p.queries;
  config.mask_heads = p.d_heads;
  return config;
}

// Values of all packed matrices; of a convolution those of one band.
size_t packed_parameters(const bundle::Sam3Manifest& manifest) {
  const Sam3Params& p = manifest.params;
  const auto size = [&](const char* key) {
    const bundle::PackedLayout& layout = manifest.gemms.find(key)->second.b;
    return layout.k * layout.n;
  };
  return 3 * p.patch * p.patch * p.vit_dim +
         p.vit_layers * (size("v_qkv") + size("v_o") + size("v_fc1") + size("v_fc2")) +
         size("n_in") + size("n_up") + 5 * 9 * p.d_model * p.d_model +
         p.d_layers * (size("d_qkv") + size("d_o") + size("d_fc1") + size("d_fc2")) +
         size("dec_kv");
}

// References for checks, and the tracker, which is not used.
bool is_used(std::string_view name) {
  for (const char* begin : {"ref.", "case.", "pcase.", "tok.", "pack_test.", "trk.", "tn."}) {
    if (name.starts_with(begin)) return false;
  }
  return true;
}

}  // namespace

NpuModel::NpuModel() = default;
NpuModel::~NpuModel() = default;

Result<NpuModel::Facts> NpuModel::read_facts(const bundle::Bundle& bundle) {
  if (bundle.kind() != bundle::BundleKind::kSam3) {
    return Status(Code::kUnsupported,
                  "cannot use bundle: " + bundle.directory() + ": it is no SAM 3 bundle");
  }
  const bundle::Sam3Manifest& manifest = bundle.sam3();
  Facts facts;
  facts.config = config_of(manifest.params);
  // Of whole rows once the bundle is open.
  if (const bundle::StoredTensor* tokens = bundle.tensors().find("t.tok_emb")) {
    facts.config.text.vocab_size = tokens->view.shape.elements() / manifest.params.text_dim;
  }
  facts.parameters = packed_parameters(manifest);
  for (const auto& [name, tensor] : bundle.tensors().all()) {
    if (!is_used(name)) continue;
    facts.weight_bytes += tensor.view.bytes();
    const core::DType dtype = tensor.view.dtype;
    if (dtype == core::DType::kF32 || (dtype == core::DType::kBF16 && name.starts_with("t."))) {
      facts.parameters += tensor.view.shape.elements();
    }
  }
  facts.device_bytes = NpuKernels::row_bytes(manifest);
  return facts;
}

Result<std::shared_ptr<const NpuModel>> NpuModel::load(std::shared_ptr<const bundle::Bundle> bundle,
                                                       std::shared_ptr<npu::Device> device,
                                                       const Options& options) {
  compute::apply_isa_limit();
  NPUSEG_ASSIGN_OR_RETURN(const Facts facts, read_facts(*bundle));
  const bundle::Sam3Manifest& manifest = bundle->sam3();
  std::shared_ptr<NpuModel> model(new NpuModel);
  model->budget_ = options.budget;
  model->config_ = facts.config;
  model->parameters_ = facts.parameters;
  model->weight_bytes_ = facts.weight_bytes;
  model->dtype_ = "BFP16";
  model->processor_.width = model->processor_.height = manifest.params.image_size;
  model->weights_ = std::make_unique<Weights>();
  model->parts_ = std::make_unique<NpuParts>();
  NpuParts& parts = *model->parts_;
  parts.bundle = bundle;
  parts.weights = model->weights_.get();
  NPUSEG_RETURN_IF_ERROR(
      bind_npu_weights(*bundle, options.check_weights, model->weights_.get(), &parts.tables));
  parts.gelu = make_gelu_table();
  NPUSEG_ASSIGN_OR_RETURN(parts.kernels, NpuKernels::make(bundle, device));
  options.log(core::LogLevel::kInfo, "model.sam3",
              format("%s: %zu parameters packed for an NPU, format %u, picture %zu x %zu, on %s, "
                     "%zu contexts",
                     bundle->directory().c_str(), model->parameters_, manifest.format,
                     manifest.params.image_size, manifest.params.image_size, device->name().c_str(),
                     bundle->contexts()));
  return std::shared_ptr<const NpuModel>(std::move(model));
}

Status NpuModel::check_files() const { return parts_->bundle->tensors().check_unchanged(); }

npu::DeviceCounters NpuModel::counters() const { return parts_->kernels->device().counters(); }

Result<std::shared_ptr<const ImageFeatures>> NpuModel::encode_image(Call& call, const float* pixels,
                                                                    StageTimes* times) const {
  const Exec exec{&call, budget()};
  auto features = std::make_shared<ImageFeatures>();
  const std::lock_guard lock(mutex_);
  Matrix vit;
  {
    const StageTimer timer(times, Stage::kVit);
    NPUSEG_ASSIGN_OR_RETURN(vit, run_npu_vit(*parts_, exec, pixels));
  }
  const StageTimer timer(times, Stage::kNeck);
  NPUSEG_ASSIGN_OR_RETURN(features->levels, run_npu_neck(*parts_, exec, vit.view()));
  NPUSEG_ASSIGN_OR_RETURN(features->encoder_input,
                          run_npu_encoder_input(*parts_, exec, features->levels.back().view()));
  return std::shared_ptr<const ImageFeatures>(std::move(features));
}

Result<std::shared_ptr<const TextFeatures>> NpuModel::encode_text(Call& call,
                                                                  std::span<const int64_t> ids,
                                                                  StageTimes* times) const {
  const StageTimer timer(times, Stage::kText);
  const Exec exec{&call, budget()};
  auto features = std::make_shared<TextFeatures>();
  NPUSEG_ASSIGN_OR_RETURN(features->tokens, run_text_encoder(*this, exec, ids));
  NPUSEG_ASSIGN_OR_RETURN(features->folded,
                          fold_all_prompts(*parts_, exec, features->tokens.view()));
  return std::shared_ptr<const TextFeatures>(std::move(features));
}

Result<Detection> NpuModel::detect(Call& call, const ImageFeatures& image, const TextFeatures& text,
                                   std::span<const ExemplarBox> boxes, const DetectOptions& options,
                                   StageTimes* times) const {
  if (!boxes.empty()) {
    return Status(Code::kUnsupported,
                  "cannot segment: " + parts_->bundle->directory() +
                      ": bundles have no encoder for example boxes; give a text alone, or use a "
                      "checkpoint");
  }
  const Exec exec{&call, budget()};
  const size_t tokens = text.tokens.rows();
  const std::lock_guard lock(mutex_);
  Matrix memory;
  {
    const StageTimer timer(times, Stage::kDetrEncoder);
    NPUSEG_ASSIGN_OR_RETURN(
        memory, run_npu_encoder(*parts_, exec, image.encoder_input.view(), text.folded, tokens));
  }
  Detection detection;
  detection.side = config().mask_side();
  DecoderOutput decoded;
  {
    const StageTimer timer(times, Stage::kDetrDecoder);
    NPUSEG_ASSIGN_OR_RETURN(const VisionKeys keys,
                            make_npu_vision_keys(*parts_, exec, memory.view()));
    NPUSEG_ASSIGN_OR_RETURN(decoded, run_detr_decoder(*this, exec, keys, text.tokens.view()));
    NPUSEG_ASSIGN_OR_RETURN(detection.logits,
                            run_scoring(*this, exec, decoded.hidden.view(), text.tokens.view()));
  }
  choose_queries(decoded, options, &detection);
  if (detection.masked.empty() && !options.semantic) return detection;
  const StageTimer timer(times, Stage::kMaskDecoder);
  NPUSEG_ASSIGN_OR_RETURN(
      const Matrix pixels,
      run_npu_pixel_decoder(*parts_, exec, image.levels, memory.view(), text.folded, tokens));
  NPUSEG_ASSIGN_OR_RETURN(NpuMasks masks, run_npu_mask_head(*parts_, exec, decoded.hidden.view(),
                                                            detection.masked, pixels.view()));
  detection.masks = std::move(masks.masks);
  if (options.semantic) detection.semantic = std::move(masks.semantic);
  return detection;
}

}  // namespace npuseg::sam3

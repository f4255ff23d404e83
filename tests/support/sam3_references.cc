// SPDX-License-Identifier: Apache-2.0
#include "sam3_references.h"

#include <algorithm>
#include <cstdio>
#include <numeric>

#include "bundle_builder.h"
#include "engine/sam3_engine.h"
#include "image/rle.h"
#include "model/sam3/detection.h"
#include "model/sam3/npu_model.h"
#include "model/sam3/npu_stages.h"
#include "model/sam3/scoring.h"
#include "npu/soft/soft_device.h"

namespace npuseg::test {

namespace {

using core::Call;
using core::Matrix;
using core::Result;
using core::Status;

constexpr const char* kPrompt = "cat";

std::string bytes_of(const float* values, size_t count) {
  return {reinterpret_cast<const char*>(values), count * sizeof(float)};
}

class Maker {
 public:
  Maker(std::string folder, BundleFiles* files) : folder_(std::move(folder)), files_(files) {}

  Status run() {
    files_->write(folder_);
    engine::ModelOptions options;
    options.device = "soft:faithful";
    NPUSEG_ASSIGN_OR_RETURN(const auto engine, engine::Sam3Engine::load(folder_, options));
    NPUSEG_ASSIGN_OR_RETURN(bundle::Bundle opened, bundle::Bundle::open(folder_));
    const auto bundle = std::make_shared<const bundle::Bundle>(std::move(opened));
    const auto device = npu::soft::make_device({npu::soft::Mode::kFaithful, nullptr, {}});
    NPUSEG_ASSIGN_OR_RETURN(const auto model, sam3::NpuModel::load(bundle, device, {}));
    NPUSEG_RETURN_IF_ERROR(add_case(*engine));
    NPUSEG_RETURN_IF_ERROR(add_texts(*engine));
    return add_stages(*engine, *model);
  }

 private:
  void floats(const std::string& name, const std::vector<size_t>& shape, const float* values) {
    size_t count = 1;
    for (const size_t side : shape) count *= side;
    files_->add_tensor(name, "f32", shape, bytes_of(values, count));
  }
  void matrix(const std::string& name, const Matrix& values) {
    floats(name, {values.rows(), values.cols()}, values.data());
  }
  void integers(const std::string& name, const std::vector<int32_t>& values) {
    files_->add_tensor(name, "i32", {values.size()},
                       {reinterpret_cast<const char*>(values.data()), values.size() * 4});
  }

  Result<std::shared_ptr<engine::Photo>> picture() {
    rgb_ = test_picture(120, 90);
    engine::CallerPixels pixels;
    pixels.data = reinterpret_cast<const uint8_t*>(rgb_.data());
    pixels.bytes = rgb_.size();
    pixels.width = 120;
    pixels.height = 90;
    pixels.stride = 360;
    return engine::Photo::from_pixels(pixels, false, nullptr, {});
  }

  Status add_case(engine::Sam3Engine& engine) {
    NPUSEG_ASSIGN_OR_RETURN(const auto photo, picture());
    NPUSEG_ASSIGN_OR_RETURN(const auto answer, engine.segment(*photo, kPrompt, {}));
    const size_t count = answer->instances.size();
    std::vector<float> scores;
    std::string masks(count * rgb_.size() / 3, '\0');
    for (size_t i = 0; i < count; ++i) {
      scores.push_back(answer->instances[i].score);
      auto* mask = reinterpret_cast<uint8_t*>(masks.data()) + i * rgb_.size() / 3;
      NPUSEG_RETURN_IF_ERROR(image::rle_to_mask(answer->instances[i].mask, mask, 120));
    }
    files_->add_line(std::string("case 0 cases/synth.png ") + kPrompt);
    floats("case.0.scores", {count}, scores.data());
    files_->add_tensor("case.0.masks", "u8", {count, 90, 120}, masks);
    files_->add_line("pcase 0 cases/synth.png points=10,10 box=");
    return {};
  }

  // Ids that the public program gives.
  Status add_texts(const engine::Sam3Engine& engine) {
    const std::vector<std::vector<int32_t>> ids = {{537, 513, 538},
                                                   {537, 320, 513, 127, 102, 162, 245, 354, 538}};
    const size_t length = engine.facts().config.text.positions;
    files_->add_line("tok_test 0 cat");
    files_->add_line("tok_test 1 A  Cat\\t\\xe9\\u65e5");
    for (size_t i = 0; i < ids.size(); ++i) {
      std::vector<int32_t> padded = ids[i];
      std::vector<int32_t> mask(padded.size(), 1);
      padded.resize(length, 538);
      mask.resize(length);
      integers("tok." + std::to_string(i) + ".ids", padded);
      integers("tok." + std::to_string(i) + ".mask", mask);
    }
    return {};
  }

  Status add_stages(engine::Sam3Engine& engine, const sam3::NpuModel& model) {
    const sam3::NpuParts& npu = model.parts();
    const bundle::Sam3Params& p = npu.params();
    Call call;
    const compute::Exec exec{&call, nullptr};
    NPUSEG_ASSIGN_OR_RETURN(const auto photo, picture());
    std::vector<float> pixels(engine.model_input_floats());
    NPUSEG_RETURN_IF_ERROR(engine.model_input(*photo, call, pixels.data()));
    floats("ref.pixel_values", {3, p.image_size, p.image_size}, pixels.data());
    const std::vector<int64_t> ids = {537, 513, 538};
    std::vector<int32_t> padded(p.text_len, 538);
    std::vector<int32_t> mask(p.text_len);
    for (size_t i = 0; i < ids.size(); ++i) {
      padded[i] = static_cast<int32_t>(ids[i]);
      mask[i] = 1;
    }
    integers("ref.input_ids", padded);
    integers("ref.attention_mask", mask);
    NPUSEG_ASSIGN_OR_RETURN(const auto text, model.encode_text(call, ids, nullptr));
    std::vector<float> tokens(p.text_len * p.d_model);
    std::copy_n(text->tokens.data(), ids.size() * p.d_model, tokens.begin());
    floats("ref.text", {p.text_len, p.d_model}, tokens.data());

    NPUSEG_ASSIGN_OR_RETURN(const Matrix vit, sam3::run_npu_vit(npu, exec, pixels.data()));
    matrix("ref.vit_out", vit);
    NPUSEG_ASSIGN_OR_RETURN(const auto levels, sam3::run_npu_neck(npu, exec, vit.view()));
    for (size_t i = 0; i < 3; ++i) matrix("ref.fpn" + std::to_string(i), levels[i]);
    NPUSEG_ASSIGN_OR_RETURN(const Matrix first,
                            sam3::run_npu_encoder_input(npu, exec, levels[2].view()));
    NPUSEG_ASSIGN_OR_RETURN(const Matrix memory, sam3::run_npu_encoder(npu, exec, first.view(),
                                                                       text->folded, ids.size()));
    matrix("ref.enc_out", memory);
    NPUSEG_ASSIGN_OR_RETURN(const auto keys, sam3::make_npu_vision_keys(npu, exec, memory.view()));
    NPUSEG_ASSIGN_OR_RETURN(const sam3::DecoderOutput decoded,
                            sam3::run_detr_decoder(model, exec, keys, text->tokens.view()));
    // Of the layers' hidden states the last is compared alone.
    std::vector<float> hidden(p.dec_layers * p.queries * p.d_model);
    std::copy_n(decoded.hidden.data(), p.queries * p.d_model,
                hidden.data() + (p.dec_layers - 1) * p.queries * p.d_model);
    floats("ref.dec_hidden", {p.dec_layers, p.queries, p.d_model}, hidden.data());
    sam3::Detection found;
    NPUSEG_ASSIGN_OR_RETURN(
        found.logits, sam3::run_scoring(model, exec, decoded.hidden.view(), text->tokens.view()));
    sam3::DetectOptions options;
    options.all_masks = true;
    sam3::choose_queries(decoded, options, &found);
    floats("ref.pred_logits", {p.queries}, found.logits.data());
    floats("ref.pred_boxes", {p.queries, 4}, found.boxes.data());
    floats("ref.presence", {1}, &found.presence_logit);
    NPUSEG_ASSIGN_OR_RETURN(
        const Matrix embedding,
        sam3::run_npu_pixel_decoder(npu, exec, levels, memory.view(), text->folded, ids.size()));
    NPUSEG_ASSIGN_OR_RETURN(
        const sam3::NpuMasks masks,
        sam3::run_npu_mask_head(npu, exec, decoded.hidden.view(), found.masked, embedding.view()));
    floats("ref.pred_masks", {p.queries, p.mask_size, p.mask_size}, masks.masks.data());
    floats("ref.semantic", {p.mask_size, p.mask_size}, masks.semantic.data());
    return {};
  }

  std::string folder_;
  BundleFiles* files_;
  std::string rgb_;
};

}  // namespace

bool add_sam3_references(const std::string& folder, BundleFiles* bundle) {
  const Status status = Maker(folder, bundle).run();
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.message().c_str());
  return status.ok();
}

}  // namespace npuseg::test

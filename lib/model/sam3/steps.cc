// SPDX-License-Identifier: Apache-2.0
// The stages wired: picture -> features, text -> features, both -> detection (spec section 1).
#include <algorithm>
#include <cstring>
#include <numeric>

#include "compute/elementwise.h"
#include "model/sam3/detr_decoder.h"
#include "model/sam3/detr_encoder.h"
#include "model/sam3/geometry_encoder.h"
#include "model/sam3/mask_decoder.h"
#include "model/sam3/neck.h"
#include "model/sam3/sam3.h"
#include "model/sam3/scoring.h"
#include "model/sam3/stage_timer.h"
#include "model/sam3/text_encoder.h"
#include "model/sam3/vit.h"

namespace npuseg::sam3 {

using compute::Exec;
using core::ConstMatrixView;
using core::Matrix;
using core::Result;
using core::Status;

namespace {

// [text ; geometry], or the text alone.
Result<Matrix> join_prompt(const Exec& exec, const Matrix& text, const Matrix& geometry) {
  NPUSEG_ASSIGN_OR_RETURN(Matrix prompt, Matrix::make(exec.budget, text.rows() + geometry.rows(),
                                                      text.cols(), "prompt"));
  std::memcpy(prompt.data(), text.data(), text.rows() * text.cols() * sizeof(float));
  if (!geometry.empty()) {
    std::memcpy(prompt.view().row(text.rows()), geometry.data(),
                geometry.rows() * text.cols() * sizeof(float));
  }
  return prompt;
}

void score_queries(const DetectOptions& options, float presence, Detection* out) {
  out->scores.resize(out->logits.size());
  compute::sigmoid(out->logits.data(), out->scores.data(), out->logits.size());
  for (float& score : out->scores) score *= presence;
  for (uint32_t q = 0; q < out->scores.size(); ++q) {
    if (out->scores[q] > options.threshold) out->kept.push_back(q);
  }
  std::stable_sort(out->kept.begin(), out->kept.end(),
                   [&](uint32_t a, uint32_t b) { return out->scores[a] > out->scores[b]; });
  if (options.max_instances != 0 && out->kept.size() > options.max_instances) {
    out->kept.resize(options.max_instances);
  }
}

void corners_of(const std::vector<float>& references, std::vector<float>* boxes) {
  boxes->resize(references.size());
  for (size_t i = 0; i < references.size(); i += 4) {
    const float* box = references.data() + i;
    (*boxes)[i] = box[0] - 0.5f * box[2];
    (*boxes)[i + 1] = box[1] - 0.5f * box[3];
    (*boxes)[i + 2] = box[0] + 0.5f * box[2];
    (*boxes)[i + 3] = box[1] + 0.5f * box[3];
  }
}

}  // namespace

size_t ImageFeatures::bytes() const {
  size_t sum = encoder_input.bytes();
  for (const Matrix& level : levels) sum += level.bytes();
  return sum;
}

size_t Detection::bytes() const {
  return masks.bytes() + semantic.bytes() +
         (logits.size() + scores.size() + boxes.size()) * sizeof(float) +
         (kept.size() + masked.size()) * sizeof(uint32_t);
}

Result<std::shared_ptr<const ImageFeatures>> encode_image(const Model& model, core::Call& call,
                                                          const float* pixels, StageTimes* times) {
  const Exec exec{&call, model.budget()};
  auto features = std::make_shared<ImageFeatures>();
  Matrix vit;
  {
    const StageTimer timer(times, Stage::kVit);
    NPUSEG_ASSIGN_OR_RETURN(vit, run_vit(model, exec, pixels));
  }
  const StageTimer timer(times, Stage::kNeck);
  NPUSEG_ASSIGN_OR_RETURN(features->levels, run_neck(model, exec, vit.view()));
  NPUSEG_ASSIGN_OR_RETURN(features->encoder_input,
                          run_detr_encoder_input(model, exec, features->levels.back().view()));
  return std::shared_ptr<const ImageFeatures>(std::move(features));
}

Result<std::shared_ptr<const TextFeatures>> encode_text(const Model& model, core::Call& call,
                                                        std::span<const int64_t> ids,
                                                        StageTimes* times) {
  const StageTimer timer(times, Stage::kText);
  auto features = std::make_shared<TextFeatures>();
  NPUSEG_ASSIGN_OR_RETURN(features->tokens,
                          run_text_encoder(model, Exec{&call, model.budget()}, ids));
  return std::shared_ptr<const TextFeatures>(std::move(features));
}

Result<Detection> detect(const Model& model, core::Call& call, const ImageFeatures& image,
                         const TextFeatures& text, std::span<const ExemplarBox> boxes,
                         const DetectOptions& options, StageTimes* times) {
  const Exec exec{&call, model.budget()};
  Matrix geometry;
  if (!boxes.empty()) {
    const StageTimer timer(times, Stage::kGeometry);
    NPUSEG_ASSIGN_OR_RETURN(geometry,
                            run_geometry_encoder(model, exec, image.levels.back().view(), boxes));
  }
  NPUSEG_ASSIGN_OR_RETURN(const Matrix prompt, join_prompt(exec, text.tokens, geometry));

  Matrix memory;
  {
    const StageTimer timer(times, Stage::kDetrEncoder);
    NPUSEG_ASSIGN_OR_RETURN(
        memory, run_detr_encoder(model, exec, image.encoder_input.view(), prompt.view()));
  }
  Detection detection;
  detection.side = model.config().mask_side();
  DecoderOutput decoded;
  {
    const StageTimer timer(times, Stage::kDetrDecoder);
    NPUSEG_ASSIGN_OR_RETURN(decoded, run_detr_decoder(model, exec, memory.view(), prompt.view()));
    NPUSEG_ASSIGN_OR_RETURN(detection.logits,
                            run_scoring(model, exec, decoded.hidden.view(), prompt.view()));
  }
  detection.presence_logit = decoded.presence_logit;
  corners_of(decoded.references, &detection.boxes);
  float presence = 0.0f;
  compute::sigmoid(&decoded.presence_logit, &presence, 1);
  score_queries(options, presence, &detection);

  detection.masked = detection.kept;
  if (options.all_masks) {
    detection.masked.resize(detection.logits.size());
    std::iota(detection.masked.begin(), detection.masked.end(), 0u);
  }
  if (detection.masked.empty() && !options.semantic) return detection;
  const StageTimer timer(times, Stage::kMaskDecoder);
  NPUSEG_ASSIGN_OR_RETURN(const Matrix pixels, run_pixel_decoder(model, exec, image.levels,
                                                                 memory.view(), prompt.view()));
  if (!detection.masked.empty()) {
    NPUSEG_ASSIGN_OR_RETURN(detection.masks, run_mask_head(model, exec, decoded.hidden.view(),
                                                           detection.masked, pixels.view()));
  }
  if (options.semantic) {
    NPUSEG_ASSIGN_OR_RETURN(detection.semantic, run_semantic_head(model, exec, pixels.view()));
  }
  return detection;
}

}  // namespace npuseg::sam3

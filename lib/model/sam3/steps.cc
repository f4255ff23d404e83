// SPDX-License-Identifier: Apache-2.0
// The float graph's stages wired: picture -> features, text -> features, both -> detection (spec
// section 1).
#include <cstring>

#include "model/sam3/detection.h"
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

}  // namespace

Result<std::shared_ptr<const ImageFeatures>> Model::encode_image(core::Call& call,
                                                                 const float* pixels,
                                                                 StageTimes* times) const {
  const Exec exec{&call, budget()};
  auto features = std::make_shared<ImageFeatures>();
  Matrix vit;
  {
    const StageTimer timer(times, Stage::kVit);
    NPUSEG_ASSIGN_OR_RETURN(vit, run_vit(*this, exec, pixels));
  }
  const StageTimer timer(times, Stage::kNeck);
  NPUSEG_ASSIGN_OR_RETURN(features->levels, run_neck(*this, exec, vit.view()));
  NPUSEG_ASSIGN_OR_RETURN(features->encoder_input,
                          run_detr_encoder_input(*this, exec, features->levels.back().view()));
  return std::shared_ptr<const ImageFeatures>(std::move(features));
}

Result<std::shared_ptr<const TextFeatures>> Model::encode_text(core::Call& call,
                                                               std::span<const int64_t> ids,
                                                               StageTimes* times) const {
  const StageTimer timer(times, Stage::kText);
  auto features = std::make_shared<TextFeatures>();
  NPUSEG_ASSIGN_OR_RETURN(features->tokens, run_text_encoder(*this, Exec{&call, budget()}, ids));
  return std::shared_ptr<const TextFeatures>(std::move(features));
}

Result<Detection> Model::detect(core::Call& call, const ImageFeatures& image,
                                const TextFeatures& text, std::span<const ExemplarBox> boxes,
                                const DetectOptions& options, StageTimes* times) const {
  const Exec exec{&call, budget()};
  Matrix geometry;
  if (!boxes.empty()) {
    const StageTimer timer(times, Stage::kGeometry);
    NPUSEG_ASSIGN_OR_RETURN(geometry,
                            run_geometry_encoder(*this, exec, image.levels.back().view(), boxes));
  }
  NPUSEG_ASSIGN_OR_RETURN(const Matrix prompt, join_prompt(exec, text.tokens, geometry));

  Matrix memory;
  {
    const StageTimer timer(times, Stage::kDetrEncoder);
    NPUSEG_ASSIGN_OR_RETURN(
        memory, run_detr_encoder(*this, exec, image.encoder_input.view(), prompt.view()));
  }
  Detection detection;
  detection.side = config().mask_side();
  DecoderOutput decoded;
  {
    const StageTimer timer(times, Stage::kDetrDecoder);
    NPUSEG_ASSIGN_OR_RETURN(decoded, run_detr_decoder(*this, exec, memory.view(), prompt.view()));
    NPUSEG_ASSIGN_OR_RETURN(detection.logits,
                            run_scoring(*this, exec, decoded.hidden.view(), prompt.view()));
  }
  choose_queries(decoded, options, &detection);
  if (detection.masked.empty() && !options.semantic) return detection;
  const StageTimer timer(times, Stage::kMaskDecoder);
  NPUSEG_ASSIGN_OR_RETURN(const Matrix pixels, run_pixel_decoder(*this, exec, image.levels,
                                                                 memory.view(), prompt.view()));
  if (!detection.masked.empty()) {
    NPUSEG_ASSIGN_OR_RETURN(detection.masks, run_mask_head(*this, exec, decoded.hidden.view(),
                                                           detection.masked, pixels.view()));
  }
  if (options.semantic) {
    NPUSEG_ASSIGN_OR_RETURN(detection.semantic, run_semantic_head(*this, exec, pixels.view()));
  }
  return detection;
}

}  // namespace npuseg::sam3

// SPDX-License-Identifier: Apache-2.0
// What the float graph makes of a picture and a text, for the new bundle to be checked against
// (spec iron-bundle-sam3.md, 3.8 and 10.1).
#include <algorithm>
#include <numeric>

#include "model/sam3/detection.h"
#include "model/sam3/detr_decoder.h"
#include "model/sam3/detr_encoder.h"
#include "model/sam3/mask_decoder.h"
#include "model/sam3/neck.h"
#include "model/sam3/repack.h"
#include "model/sam3/repack_packer.h"
#include "model/sam3/scoring.h"
#include "model/sam3/text_encoder.h"
#include "model/sam3/vit.h"

namespace npuseg::sam3 {

using core::Matrix;
using core::Result;
using core::Shape;
using core::Status;

namespace {

Status write(Packer& packer, const std::string& name, const Shape& shape, const Matrix& values) {
  return packer.floats(name, shape,
                       Floats(values.data(), values.data() + values.rows() * values.cols()));
}

Status write_text(Packer& packer, const ReferenceInput& input, const Matrix& tokens) {
  const auto& text = packer.config().text;
  std::vector<int32_t> ids(text.positions, input.pad);
  std::vector<int32_t> mask(text.positions);
  std::transform(input.ids.begin(), input.ids.end(), ids.begin(),
                 [](int64_t id) { return static_cast<int32_t>(id); });
  std::fill_n(mask.begin(), input.ids.size(), 1);
  NPUSEG_RETURN_IF_ERROR(packer.integers("ref.input_ids", ids));
  NPUSEG_RETURN_IF_ERROR(packer.integers("ref.attention_mask", mask));
  Floats padded(tokens.data(), tokens.data() + tokens.rows() * tokens.cols());
  padded.resize(text.positions * tokens.cols());
  return packer.floats("ref.text", {text.positions, tokens.cols()}, padded);
}

Status write_detection(Packer& packer, const Detection& detection) {
  const size_t queries = packer.config().queries;
  const size_t side = detection.side;
  NPUSEG_RETURN_IF_ERROR(packer.floats("ref.pred_logits", {queries}, detection.logits));
  NPUSEG_RETURN_IF_ERROR(packer.floats("ref.pred_boxes", {queries, 4}, detection.boxes));
  NPUSEG_RETURN_IF_ERROR(packer.floats("ref.presence", {1}, {detection.presence_logit}));
  NPUSEG_RETURN_IF_ERROR(write(packer, "ref.pred_masks", {queries, side, side}, detection.masks));
  return write(packer, "ref.semantic", {side, side}, detection.semantic);
}

}  // namespace

Result<Detection> repack_references(core::Call& call, const Model& model,
                                    const bundle::Bundle& kernels, const ReferenceInput& input,
                                    bundle::Writer* out) {
  const compute::Exec exec{&call, model.budget()};
  const Sam3Config& config = model.config();
  Packer packer(call, model, kernels, out);
  const size_t side = config.vit.image_size;
  NPUSEG_RETURN_IF_ERROR(
      out->add_tensor("ref.rgb", core::DType::kU8, {input.height, input.width, 3}, input.rgb));
  NPUSEG_RETURN_IF_ERROR(packer.floats("ref.pixel_values", {3, side, side},
                                       Floats(input.pixels, input.pixels + 3 * side * side)));
  NPUSEG_ASSIGN_OR_RETURN(const Matrix text, run_text_encoder(model, exec, input.ids));
  NPUSEG_RETURN_IF_ERROR(write_text(packer, input, text));
  std::vector<Matrix> levels;
  {
    NPUSEG_ASSIGN_OR_RETURN(const Matrix vit, run_vit(model, exec, input.pixels));
    NPUSEG_RETURN_IF_ERROR(write(packer, "ref.vit_out", {vit.rows(), vit.cols()}, vit));
    NPUSEG_ASSIGN_OR_RETURN(levels, run_neck(model, exec, vit.view()));
  }
  for (size_t i = 0; i < levels.size(); ++i) {
    NPUSEG_RETURN_IF_ERROR(write(packer, "ref.fpn" + std::to_string(i),
                                 {levels[i].rows(), levels[i].cols()}, levels[i]));
  }
  NPUSEG_ASSIGN_OR_RETURN(const Matrix first,
                          run_detr_encoder_input(model, exec, levels.back().view()));
  NPUSEG_ASSIGN_OR_RETURN(const Matrix memory,
                          run_detr_encoder(model, exec, first.view(), text.view()));
  NPUSEG_RETURN_IF_ERROR(write(packer, "ref.enc_out", {memory.rows(), memory.cols()}, memory));
  NPUSEG_ASSIGN_OR_RETURN(const DecoderOutput decoded,
                          run_detr_decoder(model, exec, memory.view(), text.view()));
  // Of all layers' hidden states the last is compared alone.
  Floats hidden(config.detr_decoder.layers * config.queries * config.hidden_size);
  const size_t last = config.queries * config.hidden_size;
  std::copy_n(decoded.hidden.data(), last, hidden.end() - static_cast<std::ptrdiff_t>(last));
  NPUSEG_RETURN_IF_ERROR(packer.floats(
      "ref.dec_hidden", {config.detr_decoder.layers, config.queries, config.hidden_size}, hidden));
  Detection detection;
  detection.side = config.mask_side();
  NPUSEG_ASSIGN_OR_RETURN(detection.logits,
                          run_scoring(model, exec, decoded.hidden.view(), text.view()));
  DetectOptions options;
  options.all_masks = true;
  options.threshold = input.threshold;
  choose_queries(decoded, options, &detection);
  NPUSEG_ASSIGN_OR_RETURN(const Matrix pixels,
                          run_pixel_decoder(model, exec, levels, memory.view(), text.view()));
  NPUSEG_ASSIGN_OR_RETURN(detection.masks, run_mask_head(model, exec, decoded.hidden.view(),
                                                         detection.masked, pixels.view()));
  NPUSEG_ASSIGN_OR_RETURN(detection.semantic, run_semantic_head(model, exec, pixels.view()));
  NPUSEG_RETURN_IF_ERROR(write_detection(packer, detection));
  return detection;
}

}  // namespace npuseg::sam3

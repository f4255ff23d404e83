// SPDX-License-Identifier: Apache-2.0
#include "engine/sam3_stage_check.h"

#include <algorithm>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/check_references.h"
#include "image/mask.h"
#include "model/sam3/npu_stages.h"
#include "model/sam3/scoring.h"
#include "model/sam3/text_encoder.h"

namespace npuseg::engine {

using compute::Exec;
using core::Call;
using core::Code;
using core::format;
using core::Matrix;
using core::Result;
using core::Status;
using sam3::NpuParts;

namespace {

constexpr double kLeastText = 0.9999;
constexpr double kLeastVit = 0.98;
constexpr double kLeastNeck = 0.995;
constexpr double kLeastEncoder = 0.99;
constexpr double kLeastHidden = 0.999;
constexpr double kMostBox = 0.01;
constexpr double kMostLogit = 0.1;
constexpr double kMostPresence = 0.05;
constexpr double kLeastMasks = 0.995;
constexpr double kLeastSemantic = 0.99;
// Of queries below it boxes and logits mean nothing.
constexpr float kLeastProbability = 0.1f;

Result<Matrix> copy_of(const Exec& exec, core::ConstMatrixView values) {
  NPUSEG_ASSIGN_OR_RETURN(Matrix matrix,
                          Matrix::make(exec.budget, values.rows, values.cols, "reference"));
  std::copy_n(values.data, values.rows * values.cols, matrix.data());
  return matrix;
}

class StageCheck {
 public:
  StageCheck(const sam3::NpuModel& model, Call* call, Report* report)
      : model_(model),
        npu_(model.parts()),
        p_(npu_.params()),
        stored_(*npu_.bundle),
        exec_{call, model.budget()},
        report_(report) {}

  Status run() {
    using Stage = Status (StageCheck::*)();
    const std::pair<const char*, Stage> stages[] = {
        {"packing", &StageCheck::packing},
        {"text encoder", &StageCheck::text},
        {"ViT", &StageCheck::vit},
        {"neck", &StageCheck::neck},
        {"DETR encoder", &StageCheck::encoder},
        {"DETR decoder", &StageCheck::decoder},
        {"mask decoder", &StageCheck::masks},
    };
    for (const auto& [name, stage] : stages) {
      if (!stored_.has(std::string(name) == "packing" ? "pack_test.B" : "ref.vit_out")) continue;
      const Status status = (this->*stage)();
      if (ends_check(status)) return status;
      if (!status.ok()) report_->fail(name, "run", status.message());
    }
    return {};
  }

 private:
  // A row of a stage's values against a reference of the same size.
  Status compare(const char* subject, const char* name, const std::string& reference,
                 const Matrix& found, double least) {
    NPUSEG_ASSIGN_OR_RETURN(const auto want,
                            stored_.floats(reference, {found.rows(), found.cols()}));
    report_->compare(subject, name, cosine(found.data(), want.data(), want.size()), Bound::kAbove,
                     least, "cosine");
    return {};
  }

  Status packing() {
    const bundle::PackedLayout& layout = npu_.layout("d_s");
    NPUSEG_ASSIGN_OR_RETURN(const auto b, stored_.floats("pack_test.B", {layout.k, layout.n}));
    NPUSEG_ASSIGN_OR_RETURN(const auto bias, stored_.floats("pack_test.bias", {layout.n}));
    NPUSEG_ASSIGN_OR_RETURN(const auto want,
                            npu_.bundle->tensors().packed("pack_test.packed", layout.bytes()));
    std::vector<unsigned char> packed(layout.bytes());
    NPUSEG_RETURN_IF_ERROR(bundle::pack_matrix(layout, b.data(), layout.n, 1, bias.data(), packed));
    size_t different = 0;
    for (size_t i = 0; i < packed.size(); ++i) different += packed[i] != want[i] ? 1 : 0;
    report_->compare("packing", "bytes", static_cast<double>(different), Bound::kEqual, 0.0,
                     format("that differ, of %zu", packed.size()));
    return {};
  }

  Status text() {
    NPUSEG_ASSIGN_OR_RETURN(const std::vector<int64_t> ids, reference_ids());
    NPUSEG_ASSIGN_OR_RETURN(const Matrix found, sam3::run_text_encoder(model_, exec_, ids));
    NPUSEG_ASSIGN_OR_RETURN(const auto want, prompt());
    report_->compare("text encoder", "tokens",
                     cosine(found.data(), want.data, want.rows * want.cols), Bound::kAbove,
                     kLeastText, "cosine");
    return {};
  }

  Status vit() {
    const size_t side = p_.image_size;
    NPUSEG_ASSIGN_OR_RETURN(const auto pixels, stored_.floats("ref.pixel_values", {3, side, side}));
    NPUSEG_ASSIGN_OR_RETURN(const Matrix found, sam3::run_npu_vit(npu_, exec_, pixels.data()));
    return compare("ViT", "map", "ref.vit_out", found, kLeastVit);
  }

  Status neck() {
    NPUSEG_ASSIGN_OR_RETURN(const auto map,
                            stored_.matrix("ref.vit_out", p_.tokens(), p_.vit_dim, p_.tokens()));
    NPUSEG_ASSIGN_OR_RETURN(const std::vector<Matrix> found, sam3::run_npu_neck(npu_, exec_, map));
    for (size_t i = 0; i < found.size(); ++i) {
      const std::string level = std::to_string(i);
      NPUSEG_RETURN_IF_ERROR(
          compare("neck", ("level " + level).c_str(), "ref.fpn" + level, found[i], kLeastNeck));
    }
    return {};
  }

  Status encoder() {
    NPUSEG_ASSIGN_OR_RETURN(const auto text, prompt());
    NPUSEG_ASSIGN_OR_RETURN(const auto map, coarsest("ref.fpn2"));
    NPUSEG_ASSIGN_OR_RETURN(const auto folded, sam3::fold_all_prompts(npu_, exec_, text));
    NPUSEG_ASSIGN_OR_RETURN(const Matrix first, sam3::run_npu_encoder_input(npu_, exec_, map));
    NPUSEG_ASSIGN_OR_RETURN(const Matrix found,
                            sam3::run_npu_encoder(npu_, exec_, first.view(), folded, text.rows));
    return compare("DETR encoder", "map", "ref.enc_out", found, kLeastEncoder);
  }

  Status decoder() {
    const char* subject = "DETR decoder";
    NPUSEG_ASSIGN_OR_RETURN(const auto text, prompt());
    NPUSEG_ASSIGN_OR_RETURN(const auto memory, coarsest("ref.enc_out"));
    NPUSEG_ASSIGN_OR_RETURN(const auto wanted_hidden, hidden());
    NPUSEG_ASSIGN_OR_RETURN(const auto wanted_boxes,
                            stored_.floats("ref.pred_boxes", {p_.queries, 4}));
    NPUSEG_ASSIGN_OR_RETURN(const auto wanted_logits,
                            stored_.floats("ref.pred_logits", {p_.queries}));
    NPUSEG_ASSIGN_OR_RETURN(const auto wanted_presence, stored_.floats("ref.presence", {1}));
    NPUSEG_ASSIGN_OR_RETURN(const auto keys, sam3::make_npu_vision_keys(npu_, exec_, memory));
    NPUSEG_ASSIGN_OR_RETURN(const sam3::DecoderOutput found,
                            sam3::run_detr_decoder(model_, exec_, keys, text));
    NPUSEG_ASSIGN_OR_RETURN(const std::vector<float> logits,
                            sam3::run_scoring(model_, exec_, found.hidden.view(), text));
    report_->compare(subject, "hidden",
                     cosine(found.hidden.data(), wanted_hidden.data, p_.queries * p_.d_model),
                     Bound::kAbove, kLeastHidden, "cosine");
    double box = 0.0;
    double logit = 0.0;
    size_t likely = 0;
    for (size_t q = 0; q < p_.queries; ++q) {
      if (image::sigmoid(wanted_logits[q]) <= kLeastProbability) continue;
      ++likely;
      const float* centre = found.references.data() + 4 * q;
      const float corners[4] = {centre[0] - 0.5f * centre[2], centre[1] - 0.5f * centre[3],
                                centre[0] + 0.5f * centre[2], centre[1] + 0.5f * centre[3]};
      box = std::max(box, largest_difference(corners, wanted_boxes.data() + 4 * q, 4));
      logit = std::max(logit, largest_difference(&logits[q], &wanted_logits[q], 1));
    }
    const std::string of = format("largest difference of %zu likely queries", likely);
    report_->compare(subject, "boxes", box, Bound::kBelow, kMostBox, of);
    report_->compare(subject, "logits", logit, Bound::kBelow, kMostLogit, of);
    report_->compare(subject, "presence",
                     largest_difference(&found.presence_logit, wanted_presence.data(), 1),
                     Bound::kBelow, kMostPresence, "difference");
    return {};
  }

  Status masks() {
    NPUSEG_ASSIGN_OR_RETURN(const auto text, prompt());
    NPUSEG_ASSIGN_OR_RETURN(const auto memory, coarsest("ref.enc_out"));
    NPUSEG_ASSIGN_OR_RETURN(const auto wanted_hidden, hidden());
    NPUSEG_ASSIGN_OR_RETURN(const auto folded, sam3::fold_all_prompts(npu_, exec_, text));
    std::vector<Matrix> levels(3);
    for (size_t i = 0; i < 3; ++i) {
      const size_t side = p_.grid * (size_t{4} >> i);
      NPUSEG_ASSIGN_OR_RETURN(
          const auto level,
          stored_.matrix("ref.fpn" + std::to_string(i), side * side, p_.d_model, side * side));
      NPUSEG_ASSIGN_OR_RETURN(levels[i], copy_of(exec_, level));
    }
    std::vector<uint32_t> queries(p_.queries);
    for (uint32_t q = 0; q < queries.size(); ++q) queries[q] = q;
    NPUSEG_ASSIGN_OR_RETURN(
        const Matrix pixels,
        sam3::run_npu_pixel_decoder(npu_, exec_, levels, memory, folded, text.rows));
    NPUSEG_ASSIGN_OR_RETURN(
        const sam3::NpuMasks found,
        sam3::run_npu_mask_head(npu_, exec_, wanted_hidden, queries, pixels.view()));
    NPUSEG_RETURN_IF_ERROR(
        compare("mask decoder", "masks", "ref.pred_masks", found.masks, kLeastMasks));
    return compare("mask decoder", "semantic map", "ref.semantic", found.semantic, kLeastSemantic);
  }

  // Ids of the valid tokens, which come first.
  Result<std::vector<int64_t>> reference_ids() const {
    NPUSEG_ASSIGN_OR_RETURN(const auto ids, stored_.integers("ref.input_ids", p_.text_len));
    NPUSEG_ASSIGN_OR_RETURN(const auto mask, stored_.integers("ref.attention_mask", p_.text_len));
    const auto end = std::find(mask.begin(), mask.end(), 0);
    return std::vector<int64_t>(ids.begin(), ids.begin() + (end - mask.begin()));
  }
  Result<core::ConstMatrixView> prompt() const {
    NPUSEG_ASSIGN_OR_RETURN(const std::vector<int64_t> ids, reference_ids());
    if (ids.empty()) {
      return Status(Code::kCorruptData, "tensor ref.attention_mask has no valid token");
    }
    return stored_.matrix("ref.text", ids.size(), p_.d_model, p_.text_len);
  }
  Result<core::ConstMatrixView> coarsest(const char* name) const {
    return stored_.matrix(name, p_.tokens(), p_.d_model, p_.tokens());
  }
  // Of the last layer.
  Result<core::ConstMatrixView> hidden() const {
    NPUSEG_ASSIGN_OR_RETURN(
        const auto all, stored_.floats("ref.dec_hidden", {p_.dec_layers, p_.queries, p_.d_model}));
    const size_t last = p_.queries * p_.d_model;
    return core::ConstMatrixView{all.data() + (p_.dec_layers - 1) * last, p_.queries, p_.d_model,
                                 p_.d_model};
  }

  const sam3::NpuModel& model_;
  const NpuParts& npu_;
  const bundle::Sam3Params& p_;
  const References stored_;
  const Exec exec_;
  Report* report_;
};

}  // namespace

Status check_sam3_stages(const sam3::NpuModel& model, Call& call, Report* report) {
  return StageCheck(model, &call, report).run();
}

}  // namespace npuseg::engine

// SPDX-License-Identifier: Apache-2.0
// A SAM 3 bundle against its references: tokenizer, pixels, stages, whole cases (spec
// iron-bundle-sam3.md, 10.1).
#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include "engine/check_references.h"
#include "engine/sam3_engine.h"
#include "engine/sam3_stage_check.h"
#include "image/rle.h"
#include "model/sam3/npu_stages.h"

namespace npuseg::engine {

using bundle::Bundle;
using core::Call;
using core::Code;
using core::DType;
using core::format;
using core::Matrix;
using core::Result;
using core::Shape;
using core::Status;

namespace {

constexpr double kPixelDifference = 1e-4;
constexpr double kLeastIou = 0.97;
constexpr double kMostScore = 0.03;
}  // namespace

// What begins with a text or a picture: tokenizer, pixels, whole cases.
class Sam3CaseCheck {
 public:
  Sam3CaseCheck(Sam3Engine* engine, const Bundle& bundle, Call* call, Report* report)
      : engine_(engine), bundle_(bundle), stored_(bundle), call_(call), report_(report) {}

  Status before_stages() {
    for (const bundle::Sam3TokenTest& test : bundle_.sam3().token_tests) {
      const std::string subject = format("tokens %zu", test.index);
      NPUSEG_RETURN_IF_ERROR(keep(subject, check_tokens(test, subject)));
    }
    if (!stored_.has("ref.rgb")) return {};
    NPUSEG_RETURN_IF_ERROR(keep("picture", check_pixels()));
    return keep("picture", check_decoding());
  }

  Status behind_stages() {
    for (const bundle::Sam3Case& one : bundle_.sam3().cases) {
      const std::string subject = format("case %zu", one.index);
      NPUSEG_RETURN_IF_ERROR(keep(subject, check_case(one, subject)));
    }
    if (!bundle_.sam3().point_cases.empty()) {
      report_->note("points", format("%zu cases", bundle_.sam3().point_cases.size()),
                    "not checked: this version answers no points");
    }
    return {};
  }

 private:
  // What a row failed with is the row.
  Status keep(const std::string& subject, const Status& status) {
    if (ends_check(status)) return status;
    if (!status.ok()) report_->fail(subject, "run", status.message());
    return {};
  }

  Status check_tokens(const bundle::Sam3TokenTest& test, const std::string& subject) {
    const size_t length = bundle_.sam3().params.text_len;
    const std::string prefix = format("tok.%zu.", test.index);
    NPUSEG_ASSIGN_OR_RETURN(const auto ids, stored_.integers(prefix + "ids", length));
    NPUSEG_ASSIGN_OR_RETURN(const auto mask, stored_.integers(prefix + "mask", length));
    NPUSEG_ASSIGN_OR_RETURN(const text::Prompt prompt,
                            engine_->tokenizer_->encode_prompt(test.text, length, true));
    size_t different = 0;
    for (size_t i = 0; i < length; ++i) {
      const bool valid = i < prompt.ids.size();
      const int64_t id = valid ? prompt.ids[i] : engine_->pad_id_;
      if (id != ids[i] || (mask[i] != 0) != valid) ++different;
    }
    report_->compare(subject, "ids", static_cast<double>(different), Bound::kEqual, 0.0,
                     format("that differ, of %zu", prompt.ids.size()));
    return {};
  }

  // The reference picture's stored bytes.
  Result<image::RgbView> reference_picture() const {
    const bundle::StoredTensor* rgb = bundle_.tensors().find("ref.rgb");
    const Shape& shape = rgb->view.shape;
    if (rgb->view.dtype != DType::kU8 || shape.rank != 3 || shape[2] != 3 || shape[0] == 0 ||
        shape[1] == 0 || shape[0] > UINT32_MAX / 3 || shape[1] > UINT32_MAX / 3) {
      return Status(Code::kCorruptData, "tensor ref.rgb is no picture of rows of RGB bytes");
    }
    image::RgbView view;
    view.data = static_cast<const uint8_t*>(rgb->view.data);
    view.width = static_cast<uint32_t>(shape[1]);
    view.height = static_cast<uint32_t>(shape[0]);
    view.stride = shape[1] * 3;
    return view;
  }

  Status check_pixels() {
    const size_t side = bundle_.sam3().params.image_size;
    NPUSEG_ASSIGN_OR_RETURN(const image::RgbView view, reference_picture());
    NPUSEG_ASSIGN_OR_RETURN(const auto want, stored_.floats("ref.pixel_values", {3, side, side}));
    NPUSEG_ASSIGN_OR_RETURN(Matrix found,
                            Matrix::make(engine_->budget_, 3 * side, side, "model input"));
    NPUSEG_RETURN_IF_ERROR(engine_->model_input(view, *call_, found.data()));
    size_t different = 0;
    for (size_t i = 0; i < want.size(); ++i) {
      const double off =
          std::fabs(static_cast<double>(found.data()[i]) - static_cast<double>(want[i]));
      if (!(off <= kPixelDifference)) ++different;
    }
    report_->compare("picture", "pixels", static_cast<double>(different), Bound::kEqual, 0.0,
                     format("that differ by more than %g, of %zu", kPixelDifference, want.size()));
    return {};
  }

  Status check_decoding() {
    const std::string& path = bundle_.sam3().ref_image;
    if (path.empty()) return {};
    NPUSEG_ASSIGN_OR_RETURN(const image::RgbView want, reference_picture());
    auto photo = Photo::open(bundle_.path(path), {});
    if (!photo.ok()) {
      report_->note("picture", "decoding", photo.status().message());
      return {};
    }
    NPUSEG_ASSIGN_OR_RETURN(const image::RgbView found, photo.value()->pixels());
    if (found.width != want.width || found.height != want.height) {
      report_->note("picture", "decoding", "the file is of another size than ref.rgb");
      return {};
    }
    size_t different = 0;
    for (size_t y = 0; y < want.height; ++y) {
      for (size_t i = 0; i < size_t{want.width} * 3; ++i) {
        different += found.row(y)[i] != want.row(y)[i] ? 1 : 0;
      }
    }
    report_->info("picture", "decoding", static_cast<double>(different), "bytes that differ");
    return {};
  }

  Status check_case(const bundle::Sam3Case& one, const std::string& subject) {
    const std::string prefix = format("case.%zu.", one.index);
    auto opened = Photo::open(bundle_.path(one.image), {});
    if (opened.status().code() == Code::kUnsupported) {
      report_->note(subject, "decoding", opened.status().message());
      return {};
    }
    NPUSEG_ASSIGN_OR_RETURN(const std::shared_ptr<Photo> photo, std::move(opened));
    const bundle::StoredTensor* stored = bundle_.tensors().find(prefix + "scores");
    const size_t count = stored == nullptr ? 0 : stored->view.shape.elements();
    const size_t area = size_t{photo->width()} * photo->height();
    NPUSEG_ASSIGN_OR_RETURN(const auto scores, stored_.floats(prefix + "scores", {count}));
    NPUSEG_ASSIGN_OR_RETURN(const auto masks,
                            stored_.values<uint8_t>(prefix + "masks", DType::kU8, {count, area}));
    SegmentOptions options;
    options.truncate = true;
    NPUSEG_ASSIGN_OR_RETURN(const std::shared_ptr<const Answer> answer,
                            engine_->segment(*photo, one.prompt, options, *call_));
    const auto& found = answer->instances;
    report_->compare(subject, "instances", static_cast<double>(found.size()), Bound::kEqual,
                     static_cast<double>(count), "\"" + one.prompt + "\"");
    std::vector<std::vector<uint8_t>> own(found.size());
    for (size_t i = 0; i < found.size(); ++i) {
      own[i].resize(area);
      NPUSEG_RETURN_IF_ERROR(image::rle_to_mask(found[i].mask, own[i].data(), photo->width()));
    }
    double least = 1.0;
    double score = 0.0;
    std::vector<bool> used(found.size(), false);
    for (size_t m = 0; m < count; ++m) {
      double best = -1.0;
      size_t at = found.size();
      for (size_t i = 0; i < found.size(); ++i) {
        if (used[i]) continue;
        const double iou = overlap(masks.subspan(m * area, area), own[i]);
        if (iou > best) {
          best = iou;
          at = i;
        }
      }
      if (at == found.size()) {
        least = 0.0;
        continue;
      }
      used[at] = true;
      least = std::min(least, best);
      score = std::max(score, largest_difference(&found[at].score, &scores[m], 1));
    }
    report_->compare(subject, "mask IoU", least, Bound::kAbove, kLeastIou, "least");
    report_->compare(subject, "scores", score, Bound::kBelow, kMostScore, "largest difference");
    return {};
  }

  // Intersection over union; two empty masks are equal.
  static double overlap(std::span<const uint8_t> a, std::span<const uint8_t> b) {
    size_t both = 0;
    size_t either = 0;
    for (size_t i = 0; i < a.size(); ++i) {
      both += a[i] != 0 && b[i] != 0 ? 1 : 0;
      either += a[i] != 0 || b[i] != 0 ? 1 : 0;
    }
    return either == 0 ? 1.0 : static_cast<double>(both) / static_cast<double>(either);
  }

  Sam3Engine* engine_;
  const Bundle& bundle_;
  const References stored_;
  Call* call_;
  Report* report_;
};

Status Sam3Engine::check(Call& call, Report* report) {
  if (npu_model_ == nullptr) {
    return {Code::kUnsupported,
            "cannot check model: a checkpoint carries no references; give an NPU bundle"};
  }
  const Bundle& bundle = *npu_model_->parts().bundle;
  const bundle::Sam3Manifest& manifest = bundle.sam3();
  if (bundle.tensors().find("ref.vit_out") == nullptr && manifest.cases.empty()) {
    return {Code::kWrongState, "cannot check bundle: " + bundle.directory() +
                                   ": it carries no references; export it with them"};
  }
  NPUSEG_RETURN_IF_ERROR(graph_->check_files());
  Sam3CaseCheck cases(this, bundle, &call, report);
  NPUSEG_RETURN_IF_ERROR(cases.before_stages());
  {
    const std::unique_lock held = npu_model_->hold();
    NPUSEG_RETURN_IF_ERROR(check_sam3_stages(*npu_model_, call, report));
  }
  return cases.behind_stages();
}

}  // namespace npuseg::engine

// SPDX-License-Identifier: Apache-2.0
// An EmbeddingGemma 2 bundle against its references (spec iron-bundle-embeddinggemma2.md, 17).
#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "engine/check_references.h"
#include "engine/embeddinggemma2_engine.h"

namespace npuseg::engine {

using bundle::Bundle;
using core::Call;
using core::Code;
using core::DType;
using core::format;
using core::Matrix;
using core::Result;
using core::Status;

namespace {

constexpr double kMostPixelDifference = 1e-6;
constexpr double kLeastCosine = 0.999;
constexpr const char* kNoPrompt = "-";

class Checker {
 public:
  Checker(const Bundle& bundle, const EmbeddingGemma2Facts& facts,
          const embeddinggemma2::Graph& graph, const text::GemmaTokenizer* tokenizer, Call* call,
          Report* report)
      : bundle_(bundle),
        facts_(facts),
        graph_(graph),
        tokenizer_(tokenizer),
        call_(call),
        report_(report) {}

  Status run(const std::vector<int64_t>& before, const std::vector<int64_t>& behind,
             const image::PatchRule& rule) {
    const bundle::Gemma2Manifest& manifest = bundle_.gemma2();
    if (manifest.pictures.empty()) {
      return {Code::kWrongState, "cannot check bundle: " + bundle_.directory() +
                                     ": it carries no references; export it with them"};
    }
    for (const bundle::Gemma2Picture& picture : manifest.pictures) {
      const std::string subject = "picture " + picture.name;
      NPUSEG_RETURN_IF_ERROR(keep(subject, check_picture(picture, subject, before, behind, rule)));
    }
    for (const bundle::Gemma2TextCase& one : manifest.text_cases) {
      const std::string subject = format("text %zu", one.index);
      NPUSEG_RETURN_IF_ERROR(keep(subject, check_text(one, subject)));
    }
    if (manifest.text_cases.empty()) return {};
    report_->info("texts", "with identical ids", static_cast<double>(same_ids_),
                  format("of %zu", manifest.text_cases.size()));
    report_->info("texts", "worst embedding", worst_text_, "cosine");
    return {};
  }

 private:
  // What a picture or a text failed with is its row.
  Status keep(const std::string& subject, Status status) {
    if (status.ok()) return {};
    if (ends_check(status)) return status;
    report_->fail(subject, "run", status.message());
    return {};
  }

  template <class T>
  Result<std::span<const T>> stored(const std::string& name, DType dtype) const {
    const bundle::StoredTensor* tensor = bundle_.tensors().find(name);
    if (tensor == nullptr || tensor->view.dtype != dtype) {
      return Status(Code::kCorruptData, "tensor " + name + " is missing or of another type");
    }
    return std::span<const T>(static_cast<const T*>(tensor->view.data),
                              tensor->view.shape.elements());
  }

  // A unit vector against <prefix>.embedding and, where there is one, .npu_embedding.
  Status check_vector(const std::string& subject, const std::string& prefix,
                      std::span<const float> vector, double* found) {
    NPUSEG_ASSIGN_OR_RETURN(const auto wanted, stored<float>(prefix + ".embedding", DType::kF32));
    if (wanted.size() != vector.size()) {
      return {Code::kCorruptData, format("tensor %s.embedding has %zu values, the model's have %zu",
                                         prefix.c_str(), wanted.size(), vector.size())};
    }
    *found = cosine(vector.data(), wanted.data(), vector.size());
    report_->compare(subject, "embedding", *found, Bound::kAtLeast, kLeastCosine, "cosine");
    const auto npu = stored<float>(prefix + ".npu_embedding", DType::kF32);
    if (npu.ok() && npu.value().size() == vector.size()) {
      report_->info(subject, "embedding of the exporter's NPU program",
                    cosine(vector.data(), npu.value().data(), vector.size()), "cosine");
    }
    return {};
  }

  Status check_picture(const bundle::Gemma2Picture& picture, const std::string& subject,
                       const std::vector<int64_t>& before, const std::vector<int64_t>& behind,
                       const image::PatchRule& rule) {
    const std::string prefix = "ref." + picture.name;
    NPUSEG_ASSIGN_OR_RETURN(const auto rgb, stored<uint8_t>(prefix + ".rgb", DType::kU8));
    if (picture.width == 0 || picture.height == 0 || picture.width > UINT32_MAX / 3 ||
        picture.height > UINT32_MAX || rgb.size() / picture.height / 3 != picture.width ||
        rgb.size() != picture.width * picture.height * 3) {
      return {Code::kCorruptData,
              format("tensor %s.rgb has %zu bytes, a picture of %zu x %zu "
                     "pixels is stated",
                     prefix.c_str(), rgb.size(), picture.width, picture.height)};
    }
    image::RgbView view;
    view.data = rgb.data();
    view.width = static_cast<uint32_t>(picture.width);
    view.height = static_cast<uint32_t>(picture.height);
    view.stride = picture.width * 3;
    NPUSEG_ASSIGN_OR_RETURN(const image::PatchedPicture patched,
                            image::make_patches(*call_, view, rule, graph_.budget()));
    NPUSEG_ASSIGN_OR_RETURN(const auto pixels, stored<float>(prefix + ".pixels", DType::kF32));
    const size_t count = patched.pixels.rows() * patched.pixels.cols();
    report_->compare(subject, "pixels",
                     pixels.size() == count
                         ? largest_difference(patched.pixels.data(), pixels.data(), count)
                         : std::numeric_limits<double>::infinity(),
                     Bound::kAtMost, kMostPixelDifference, "largest difference");
    NPUSEG_ASSIGN_OR_RETURN(const auto places, stored<int32_t>(prefix + ".positions", DType::kI32));
    const std::vector<int64_t> own = image::patch_positions(patched.grid);
    report_->compare(subject, "positions", static_cast<double>(differences<int32_t>(own, places)),
                     Bound::kEqual, 0.0, "that differ");

    embeddinggemma2::Patches patches;
    patches.pixels = patched.pixels.view();
    patches.grid_width = patched.grid.width;
    patches.grid_height = patched.grid.height;
    NPUSEG_ASSIGN_OR_RETURN(const Matrix soft, graph_.encode_picture(*call_, patches, nullptr));
    const auto wanted = stored<float>(prefix + ".soft", DType::kF32);
    if (wanted.ok() && wanted.value().size() == soft.rows() * soft.cols()) {
      report_->info(subject, "soft tokens",
                    cosine(soft.data(), wanted.value().data(), wanted.value().size()), "cosine");
    }
    const embeddinggemma2::Sequence sequence = {{before, {}}, {{}, soft.view()}, {behind, {}}};
    NPUSEG_ASSIGN_OR_RETURN(const Matrix out, graph_.embed(*call_, {&sequence, 1}, nullptr));
    const std::span<const float> vector(out.view().row(0), out.cols());
    double found = 0.0;
    NPUSEG_RETURN_IF_ERROR(check_vector(subject, prefix, vector, &found));
    if (bundle_.tensors().find("ref.texts") == nullptr) return {};
    return check_ranking(subject, prefix, vector);
  }

  // Which text is nearest, and how near all are, for the picture's vector and for its reference.
  Status check_ranking(const std::string& subject, const std::string& prefix,
                       std::span<const float> vector) {
    NPUSEG_ASSIGN_OR_RETURN(const auto texts, stored<float>("ref.texts", DType::kF32));
    NPUSEG_ASSIGN_OR_RETURN(const auto wanted, stored<float>(prefix + ".embedding", DType::kF32));
    if (texts.empty() || texts.size() % vector.size() != 0) {
      return {Code::kCorruptData, format("tensor ref.texts has %zu values, a text's vector %zu",
                                         texts.size(), vector.size())};
    }
    size_t own_best = 0;
    size_t wanted_best = 0;
    double own_nearest = -2.0;
    double wanted_nearest = -2.0;
    double largest = 0.0;
    for (size_t row = 0; row < texts.size() / vector.size(); ++row) {
      const float* text = texts.data() + row * vector.size();
      const double own = cosine(vector.data(), text, vector.size());
      const double reference = cosine(wanted.data(), text, vector.size());
      if (own > own_nearest) own_best = row;
      if (reference > wanted_nearest) wanted_best = row;
      own_nearest = std::max(own_nearest, own);
      wanted_nearest = std::max(wanted_nearest, reference);
      largest = std::max(largest, std::fabs(own - reference));
    }
    report_->compare(subject, "nearest text", static_cast<double>(own_best), Bound::kEqual,
                     static_cast<double>(wanted_best), "number of the text");
    report_->info(subject, "cosines with the texts", largest, "largest difference");
    return {};
  }

  Status check_text(const bundle::Gemma2TextCase& one, const std::string& subject) {
    const std::string prefix = format("tref.%zu", one.index);
    if (tokenizer_ == nullptr) {
      return {Code::kUnsupported, "this bundle has no text path"};
    }
    std::string text;
    if (one.prompt != kNoPrompt) {
      const checkpoint::TaskPrompt* prompt = facts_.sentence.find_prompt(one.prompt);
      if (prompt == nullptr) {
        return {Code::kCorruptData, "there is no prompt " + one.prompt.substr(0, 100)};
      }
      text = prompt->text;
    }
    NPUSEG_ASSIGN_OR_RETURN(const std::vector<int64_t> ids, tokenizer_->encode(text + one.text));
    NPUSEG_ASSIGN_OR_RETURN(const auto wanted, stored<int32_t>(prefix + ".ids", DType::kI32));
    const size_t different = differences<int32_t>(ids, wanted);
    same_ids_ += different == 0 ? 1 : 0;
    report_->compare(subject, "ids", static_cast<double>(different), Bound::kEqual, 0.0,
                     format("that differ, of %zu", ids.size()));
    const embeddinggemma2::Sequence sequence = {{ids, {}}};
    NPUSEG_ASSIGN_OR_RETURN(const Matrix out, graph_.embed(*call_, {&sequence, 1}, nullptr));
    double found = 0.0;
    NPUSEG_RETURN_IF_ERROR(check_vector(subject, prefix, {out.view().row(0), out.cols()}, &found));
    worst_text_ = std::min(worst_text_, found);
    return {};
  }

  // Values that differ, and those that only one list has.
  template <class T>
  static size_t differences(std::span<const int64_t> own, std::span<const T> wanted) {
    const size_t common = std::min(own.size(), wanted.size());
    size_t count = std::max(own.size(), wanted.size()) - common;
    for (size_t i = 0; i < common; ++i) count += own[i] != int64_t{wanted[i]} ? 1 : 0;
    return count;
  }

  const Bundle& bundle_;
  const EmbeddingGemma2Facts& facts_;
  const embeddinggemma2::Graph& graph_;
  const text::GemmaTokenizer* tokenizer_;
  Call* call_;
  Report* report_;
  size_t same_ids_ = 0;
  double worst_text_ = 1.0;
};

}  // namespace

Status EmbeddingGemma2Engine::check(Call& call, Report* report) const {
  return Checker(*bundle_, facts_, *graph_, tokenizer_.get(), &call, report)
      .run({start_, facts_.config.boi_token_id}, {facts_.config.eoi_token_id, end_},
           rule_of(facts_.processor));
}

}  // namespace npuseg::engine

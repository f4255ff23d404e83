// SPDX-License-Identifier: Apache-2.0
#include "engine/repack.h"

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "bundle/bundle.h"
#include "bundle/writer.h"
#include "core/file.h"
#include "engine/model_options.h"
#include "engine/photo.h"
#include "engine/sam3_engine.h"
#include "image/rle.h"
#include "model/sam3/repack.h"
#include "model/sam3/sam3.h"
#include "text/clip_tokenizer.h"
#include "text/clip_vocabulary.h"

namespace npuseg::engine {

using core::Call;
using core::Code;
using core::Result;
using core::Status;

namespace {

constexpr float kCaseThreshold = 0.5f;

// Everything that the work needs, opened and found to fit.
struct Job {
  std::shared_ptr<const Sam3Engine> engine;
  std::shared_ptr<const sam3::Model> model;  // the engine's
  bundle::Bundle kernels;
};

Result<bundle::Bundle> open_kernels(const std::string& directory) {
  if (!bundle::Bundle::is_bundle(directory)) {
    return Status(Code::kInvalidArgument, "cannot repack: " + directory +
                                              ": holds no manifest.txt; name a bundle, whose "
                                              "kernels the new one is to have");
  }
  NPUSEG_ASSIGN_OR_RETURN(const bundle::BundleKind kind, bundle::Bundle::probe(directory));
  if (kind != bundle::BundleKind::kSam3) {
    return Status(Code::kUnsupported,
                  "cannot repack: " + directory +
                      ": is a bundle of EmbeddingGemma 2, whose weights' layout is not laid down; "
                      "SAM 3 alone can be repacked");
  }
  return bundle::Bundle::open(directory);
}

Result<Job> open_job(const std::string& checkpoint, const std::string& kernels,
                     const ModelOptions& options) {
  if (bundle::Bundle::is_bundle(checkpoint)) {
    return Status(Code::kInvalidArgument, "cannot repack: " + checkpoint +
                                              ": is a bundle; name the checkpoint folder that "
                                              "holds config.json");
  }
  Job job;
  NPUSEG_ASSIGN_OR_RETURN(job.kernels, open_kernels(kernels));
  NPUSEG_RETURN_IF_ERROR(check_kind(checkpoint, checkpoint::ModelKind::kSam3).status());
  ModelOptions model_options = options;
  model_options.device = "cpu";
  model_options.precision = Precision::kAuto;
  NPUSEG_ASSIGN_OR_RETURN(job.engine, Sam3Engine::load(checkpoint, model_options));
  job.model = job.engine->float_model();
  NPUSEG_RETURN_IF_ERROR(sam3::check_repack(*job.model, job.kernels, checkpoint));
  return job;
}

std::string_view word(std::string_view* line) {
  constexpr std::string_view kBlanks = " \t\r";
  const size_t begin = std::min(line->find_first_not_of(kBlanks), line->size());
  const size_t end = std::min(line->find_first_of(kBlanks, begin), line->size());
  const std::string_view found = line->substr(begin, end - begin);
  line->remove_prefix(end);
  return found;
}

// The lines of the old manifest that are of the kernels, with the new tokenizer's ids. What is of
// the old weights goes: references, cases, the tracker.
std::string new_manifest(std::string_view old, const text::ClipTokenizer& tokenizer) {
  static const std::set<std::string_view> kKept = {"version", "xclbin", "gemm", "mha", "op"};
  std::string manifest;
  while (!old.empty()) {
    const size_t end = std::min(old.find('\n'), old.size());
    std::string_view line = old.substr(0, end);
    old.remove_prefix(std::min(end + 1, old.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    std::string_view rest = line;
    const std::string_view tag = word(&rest);
    bool keep = kKept.count(tag) != 0;
    if (tag == "param") {
      const std::string_view name = word(&rest);
      keep = name != "bos" && name != "eos" && name != "pad" && name != "tracker" &&
             !name.starts_with("trk");
    }
    if (keep) manifest += std::string(line) + "\n";
  }
  const auto id = [&](const char* name, int64_t value) {
    manifest += core::format("param %s %lld\n", name, static_cast<long long>(value));
  };
  id("bos", tokenizer.bos_id());
  id("eos", tokenizer.eos_id());
  id("pad", tokenizer.pad_id());
  return manifest;
}

Status copy_kernels(const bundle::Bundle& kernels, bundle::Writer* out) {
  std::set<std::string> paths;
  for (const bundle::KernelFiles& kernel : kernels.kernels()) {
    paths.insert(kernel.xclbin);
    paths.insert(kernel.insts);
  }
  // Contexts that no kernel of the model runs on are in the manifest all the same.
  for (const auto& [key, record] : kernels.manifest().xclbins()) paths.insert(record.file);
  for (const std::string& path : paths) {
    NPUSEG_RETURN_IF_ERROR(out->copy_file(path, kernels.path(path)));
  }
  return {};
}

// The instances that the checkpoint finds in the reference picture, as case 0; none is no case.
Status add_case(const bundle::Sam3Manifest& old, const Answer& answer, bundle::Writer* out,
                std::string* manifest) {
  const size_t count = answer.instances.size();
  if (count == 0) return {};
  const size_t pixels = size_t{answer.width} * answer.height;
  std::vector<float> scores;
  std::vector<unsigned char> masks(count * pixels);
  for (size_t i = 0; i < count; ++i) {
    scores.push_back(answer.instances[i].score);
    NPUSEG_RETURN_IF_ERROR(
        image::rle_to_mask(answer.instances[i].mask, masks.data() + i * pixels, answer.width));
  }
  const auto* bytes = reinterpret_cast<const unsigned char*>(scores.data());
  NPUSEG_RETURN_IF_ERROR(
      out->add_tensor("case.0.scores", core::DType::kF32, {count}, {bytes, count * sizeof(float)}));
  *manifest += "case 0 " + old.ref_image + " " + old.ref_prompt + "\n";
  return out->add_tensor("case.0.masks", core::DType::kU8, {count, answer.height, answer.width},
                         masks);
}

// Appends the records to `manifest`.
Status add_references(const Job& job, const ModelOptions& options, bundle::Writer* out,
                      std::string* manifest) {
  const bundle::Sam3Manifest& old = job.kernels.sam3();
  if (old.ref_image.empty() || old.ref_prompt.empty()) {
    options.log(core::LogLevel::kWarn, "engine.repack",
                "the bundle has no reference picture; nothing is stored to check the new one");
    return {};
  }
  NPUSEG_RETURN_IF_ERROR(out->copy_file(old.ref_image, job.kernels.path(old.ref_image)));
  NPUSEG_ASSIGN_OR_RETURN(const std::shared_ptr<Photo> photo,
                          Photo::open(job.kernels.path(old.ref_image), {}));
  NPUSEG_ASSIGN_OR_RETURN(const image::RgbView rgb, photo->pixels());
  Call call(job.engine->with_defaults(options.call));
  std::vector<float> pixels(job.engine->model_input_floats());
  NPUSEG_RETURN_IF_ERROR(job.engine->model_input(rgb, call, pixels.data()));
  NPUSEG_ASSIGN_OR_RETURN(const text::Prompt prompt,
                          job.engine->tokenizer().encode_prompt(
                              old.ref_prompt, job.model->config().text.positions, true));
  std::vector<unsigned char> bytes;
  for (size_t y = 0; y < photo->height(); ++y) {
    bytes.insert(bytes.end(), rgb.row(y), rgb.row(y) + size_t{photo->width()} * 3);
  }
  sam3::ReferenceInput input;
  input.rgb = bytes;
  input.width = photo->width();
  input.height = photo->height();
  input.pixels = pixels.data();
  input.ids = prompt.ids;
  input.pad = static_cast<int32_t>(job.engine->tokenizer().pad_id());
  input.threshold = kCaseThreshold;
  Answer answer;
  answer.width = photo->width();
  answer.height = photo->height();
  NPUSEG_ASSIGN_OR_RETURN(answer.detection,
                          sam3::repack_references(call, *job.model, job.kernels, input, out));
  *manifest += "ref_image " + old.ref_image + "\nref_prompt " + old.ref_prompt + "\n";
  NPUSEG_RETURN_IF_ERROR(answer.finish(call, kCaseThreshold));
  return add_case(old, answer, out, manifest);
}

}  // namespace

Status repack(const std::string& checkpoint, const std::string& kernels, const std::string& out,
              const ModelOptions& options) {
  NPUSEG_ASSIGN_OR_RETURN(const Job job, open_job(checkpoint, kernels, options));
  NPUSEG_ASSIGN_OR_RETURN(const std::unique_ptr<bundle::Writer> writer,
                          bundle::Writer::create(out));
  Call call(job.engine->with_defaults(options.call));
  NPUSEG_RETURN_IF_ERROR(sam3::repack_tensors(call, *job.model, job.kernels, writer.get()));
  NPUSEG_RETURN_IF_ERROR(copy_kernels(job.kernels, writer.get()));
  NPUSEG_ASSIGN_OR_RETURN(const text::ClipVocabularyFiles vocabulary,
                          text::clip_vocabulary_files(checkpoint));
  NPUSEG_RETURN_IF_ERROR(writer->add_file("vocab.json", vocabulary.vocab));
  NPUSEG_RETURN_IF_ERROR(writer->add_file("merges.txt", vocabulary.merges));
  NPUSEG_ASSIGN_OR_RETURN(
      const std::string old,
      core::read_file(core::join_path(kernels, "manifest.txt"), bundle::kMaxManifestBytes));
  std::string manifest = new_manifest(old, job.engine->tokenizer());
  NPUSEG_RETURN_IF_ERROR(add_references(job, options, writer.get(), &manifest));
  return writer->finish(manifest);
}

}  // namespace npuseg::engine

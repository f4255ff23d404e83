// SPDX-License-Identifier: Apache-2.0
// segment: every prompt on every picture, as table, JSON, overlay, masks and raw tensors.
#include <npuseg.h>

#include <algorithm>
#include <cstdio>
#include <optional>

#include "commands.h"
#include "handles.h"
#include "json.h"
#include "model.h"
#include "output.h"
#include "progress.h"
#include "targets.h"

namespace cli {

namespace {

constexpr size_t kStages = NPUSEG_STAGE_COUNT;

// The tensors that --raw writes for every prompt.
struct RawTensor {
  uint32_t which;  // NPUSEG_RAW_*
  const char* name;
};
constexpr RawTensor kRawTensors[] = {
    {NPUSEG_RAW_PRED_LOGITS, "pred_logits"},   {NPUSEG_RAW_PRESENCE_LOGITS, "presence_logits"},
    {NPUSEG_RAW_PRED_BOXES, "pred_boxes"},     {NPUSEG_RAW_PRED_MASKS, "pred_masks"},
    {NPUSEG_RAW_SEMANTIC_SEG, "semantic_seg"}, {NPUSEG_RAW_INPUT_IDS, "input_ids"}};

struct PromptAnswer {
  std::optional<std::string> text;  // absent: boxes alone
  ResultPtr result;
  npuseg_result_data info{};
  std::vector<npuseg_instance> instances;
  std::optional<Failure> failed;
};

double stage_ms(const npuseg_result_data& info, uint32_t stage) {
  return static_cast<double>(info.stage_nanoseconds[stage]) / 1e6;
}

double prompt_ms(const npuseg_result_data& info) {
  double sum = 0.0;
  for (const uint32_t stage :
       {NPUSEG_STAGE_TEXT, NPUSEG_STAGE_GEOMETRY, NPUSEG_STAGE_DETR_ENCODER,
        NPUSEG_STAGE_DETR_DECODER, NPUSEG_STAGE_MASK_DECODER, NPUSEG_STAGE_POSTPROCESS}) {
    sum += stage_ms(info, stage);
  }
  return sum;
}

class Segment {
 public:
  explicit Segment(const Options& options)
      : options_(options), progress_(options.progress && !options.quiet) {}

  int run() {
    if (const int status = check_usage(); status != kDone) return status;
    if (const int status = check_targets(options_, files()); status != kDone) return status;
    for (const std::string& folder : {options_.overlay_dir, options_.masks_dir, options_.raw_dir}) {
      if (!folder.empty() && !make_directory(folder)) return kInput;
    }
    for (uint32_t rep = 0; rep < options_.reps; ++rep) {
      if (const int status = load(rep != 0); status != kDone) return status;
      last_rep_ = rep + 1 == options_.reps;
      for (size_t i = 1; i < options_.positional.size(); ++i) {
        if (const int status = run_picture(i - 1, options_.positional[i]); status != kDone) {
          return status;
        }
      }
    }
    return finish();
  }

 private:
  int check_usage() {
    const auto wrong = [](const char* what) {
      report(std::string("wrong usage: segment: ") + what + "; see npuseg-cli segment --help");
      return kUsage;
    };
    if (options_.positional.size() < 2) return wrong("needs MODEL and at least one IMAGE");
    const bool positive = std::any_of(options_.boxes.begin(), options_.boxes.end(),
                                      [](const npuseg_box& box) { return box.label == 1; });
    if (options_.prompts.empty() && !positive) {
      return wrong("needs -p TEXT, or a --box around an example");
    }
    if (!options_.overlay.empty() && options_.positional.size() > 2) {
      return wrong("-o takes one picture; use --overlay-dir for several");
    }
    return kDone;
  }

  // What is read and what --raw writes.
  [[nodiscard]] FilePlan files() const {
    FilePlan plan;
    for (size_t i = 1; i < options_.positional.size(); ++i) {
      plan.reads.emplace_back(options_.positional[i], kPictureToRead);
      const std::string number = std::to_string(i - 1);
      plan.raw.push_back(number + "_pixel_values.npy");
      for (size_t p = 0; p < std::max<size_t>(options_.prompts.size(), 1); ++p) {
        for (const RawTensor& tensor : kRawTensors) {
          plan.raw.push_back(number + "_" + std::to_string(p) + "_" + tensor.name + ".npy");
        }
      }
    }
    return plan;
  }

  int load(bool again) {
    const int status = load_model(options_, again, &progress_, npuseg_sam3_load, &model_);
    if (status != kDone) return status;
    facts_.struct_size = sizeof facts_;
    npuseg_sam3_info(model_.get(), &facts_);
    return kDone;
  }

  int run_picture(size_t number, const std::string& path) {
    ImagePtr image;
    const npuseg_status status =
        open_picture(path, {options_.apply_exif, options_.alpha, options_.colour}, &image);
    if (last_rep_ && !options_.json.empty()) images_.open('{').key("path").text(path);
    if (status != NPUSEG_OK) return bad_picture(failure(status));
    if (interrupted()) return stopped();
    npuseg_image_data picture{};
    picture.struct_size = sizeof picture;
    npuseg_image_info(image.get(), &picture);

    std::vector<PromptAnswer> answers(std::max<size_t>(options_.prompts.size(), 1));
    for (size_t p = 0; p < answers.size(); ++p) {
      if (!options_.prompts.empty()) answers[p].text = options_.prompts[p];
      if (const int done = ask(image.get(), path, &answers[p]); done != kDone) return done;
    }
    collect_times(picture, answers);
    if (!last_rep_) return kDone;
    print(path, picture, answers);
    if (!options_.json.empty()) write_json(picture, answers);
    return write_files(number, path, image.get(), picture, answers);
  }

  int ask(npuseg_image* image, const std::string& path, PromptAnswer* answer) {
    npuseg_segment_options wanted{};
    wanted.struct_size = sizeof wanted;
    wanted.threshold = to_library(options_.threshold);
    wanted.mask_threshold = to_library(options_.mask_threshold);
    wanted.boxes = options_.boxes.data();
    wanted.box_count = static_cast<uint32_t>(options_.boxes.size());
    wanted.box_bytes = sizeof(npuseg_box);
    if (!options_.raw_dir.empty())
      wanted.flags = NPUSEG_SEGMENT_ALL_MASKS | NPUSEG_SEGMENT_SEMANTIC;
    wanted.progress = on_progress;
    wanted.progress_user = &progress_;
    progress_.begin(path);
    npuseg_result* result = nullptr;
    const char* text = answer->text ? answer->text->c_str() : nullptr;
    const npuseg_status status = npuseg_segment(model_.get(), image, text, &wanted, &result);
    progress_.end();
    if (status != NPUSEG_OK) {
      const Failure failed = failure(status);
      const int exit = exit_of(status, kInput);
      if (exit == kInterrupted) return stopped();
      report("cannot segment: " + path + ": " + failed.message);
      if (exit != kInput) return exit;
      answer->failed = failed;
      status_ = kInput;
      return kDone;
    }
    answer->result.reset(result);
    answer->info.struct_size = sizeof answer->info;
    npuseg_result_info(result, &answer->info);
    size_t count = answer->info.instances;
    answer->instances.resize(count);
    npuseg_result_instances(result, answer->instances.data(), sizeof(npuseg_instance), &count);
    return kDone;
  }

  int bad_picture(const Failure& failed) {
    if (failed.status == NPUSEG_OUT_OF_MEMORY) {
      report(failed.message);
      return kLimit;
    }
    if (!last_rep_) return kDone;
    report(failed.message);
    status_ = kInput;
    if (!options_.json.empty()) {
      write_error(failed, &images_);
      images_.close('}');
    }
    return kDone;
  }

  void print(const std::string& path, const npuseg_image_data& picture,
             const std::vector<PromptAnswer>& answers) {
    if (options_.json_to_stdout()) return;
    char line[256];
    for (const PromptAnswer& answer : answers) {
      if (answer.failed) continue;
      const std::string what = answer.text ? "\"" + *answer.text + "\"" : "boxes";
      const size_t count = answer.instances.size();
      text_ += path + "  " + std::to_string(picture.width) + "x" + std::to_string(picture.height) +
               "  " + what + ": " + std::to_string(count) +
               (count == 1 ? " instance\n" : " instances\n");
      for (size_t i = 0; i < count; ++i) {
        const npuseg_instance& found = answer.instances[i];
        std::snprintf(
            line, sizeof line, "  %zu  score %.3f  box [%.1f, %.1f, %.1f, %.1f]  mask %llu px\n",
            i + 1, static_cast<double>(found.score), static_cast<double>(found.box[0]),
            static_cast<double>(found.box[1]), static_cast<double>(found.box[2]),
            static_cast<double>(found.box[3]), static_cast<unsigned long long>(found.area));
        text_ += line;
      }
    }
    write_failed_ = !write_stdout(text_) || write_failed_;
    text_.clear();
  }

  void write_json(const npuseg_image_data& picture, const std::vector<PromptAnswer>& answers) {
    images_.key("width").number(uint64_t{picture.width});
    images_.key("height").number(uint64_t{picture.height});
    images_.key("prompts").open('[');
    for (const PromptAnswer& answer : answers) write_prompt(picture, answer);
    images_.close(']');
    double preprocess = 0.0;
    double image = 0.0;
    for (const PromptAnswer& answer : answers) {
      preprocess += stage_ms(answer.info, NPUSEG_STAGE_PREPROCESS);
      image += stage_ms(answer.info, NPUSEG_STAGE_VIT) + stage_ms(answer.info, NPUSEG_STAGE_NECK);
    }
    images_.key("ms").open('{').key("decode");
    images_.number(static_cast<double>(picture.decode_nanoseconds) / 1e6);
    images_.key("preprocess").number(preprocess).key("image").number(image);
    images_.key("prompts").open('[');
    for (const PromptAnswer& answer : answers) images_.number(prompt_ms(answer.info));
    images_.close(']').close('}').close('}');
  }

  void write_prompt(const npuseg_image_data& picture, const PromptAnswer& answer) {
    images_.open('{').key("text");
    answer.text ? images_.text(*answer.text) : images_.null();
    images_.key("boxes").open('[');
    for (const npuseg_box& box : options_.boxes) {
      images_.open('{').key("box").open('[');
      images_.number(box.x0).number(box.y0).number(box.x1).number(box.y1).close(']');
      images_.key("label").number(int64_t{box.label}).close('}');
    }
    images_.close(']');
    if (answer.failed) {
      write_error(*answer.failed, &images_);
      images_.close('}');
      return;
    }
    images_.key("presence").number(answer.info.presence).key("instances").open('[');
    for (size_t i = 0; i < answer.instances.size(); ++i) {
      const npuseg_instance& found = answer.instances[i];
      images_.open('{').key("query").number(uint64_t{found.query}).key("score").number(found.score);
      images_.key("box").open('[');
      for (const float corner : found.box) images_.number(corner);
      images_.close(']').key("area").number(uint64_t{found.area});
      images_.key("mask").open('{').key("size").open('[');
      images_.number(uint64_t{picture.height}).number(uint64_t{picture.width}).close(']');
      images_.key("counts").text(runs_of(answer.result.get(), i)).close('}').close('}');
    }
    images_.close(']').close('}');
  }

  static std::string runs_of(const npuseg_result* result, size_t index) {
    size_t needed = 0;
    npuseg_result_mask(result, index, NPUSEG_MASK_RLE_STRING, nullptr, 0, 0, &needed);
    std::string runs(needed, '\0');
    npuseg_result_mask(result, index, NPUSEG_MASK_RLE_STRING, runs.data(), 0, runs.size(), nullptr);
    if (!runs.empty()) runs.pop_back();  // the terminating NUL
    return runs;
  }

  int write_files(size_t number, const std::string& path, npuseg_image* image,
                  const npuseg_image_data& picture, const std::vector<PromptAnswer>& answers) {
    const std::string stem = stem_of(path);
    bool fine = true;
    if (!options_.overlay.empty()) {
      fine = write_overlay(options_.overlay, image, picture, answers) && fine;
    }
    if (!options_.overlay_dir.empty()) {
      fine = write_overlay(join(options_.overlay_dir, overlay_names_.take(stem) + ".png"), image,
                           picture, answers) &&
             fine;
    }
    if (!options_.masks_dir.empty()) {
      fine = write_masks(mask_names_.take(stem), picture, answers) && fine;
    }
    if (!options_.raw_dir.empty()) fine = write_raw(number, image, answers) && fine;
    if (!fine) write_failed_ = true;
    return interrupted() ? stopped() : kDone;
  }

  bool write_overlay(const std::string& path, npuseg_image* image, const npuseg_image_data& picture,
                     const std::vector<PromptAnswer>& answers) {
    size_t needed = 0;
    npuseg_image_pixels(image, nullptr, 0, 0, &needed);
    std::string pixels(needed, '\0');
    npuseg_status status = npuseg_image_pixels(image, pixels.data(), 0, pixels.size(), nullptr);
    uint32_t colour = 0;
    for (const PromptAnswer& answer : answers) {
      if (answer.failed || status != NPUSEG_OK) continue;
      const NoWriting guard;
      status = npuseg_result_draw(answer.result.get(), answer.text ? answer.text->c_str() : nullptr,
                                  colour, pixels.data(), 0, pixels.size());
      colour += answer.info.instances;
    }
    if (status != NPUSEG_OK) {
      report(failure(status).message);
      return false;
    }
    return write_png(path, NPUSEG_FORMAT_RGB, picture.width, picture.height, pixels);
  }

  bool write_masks(const std::string& stem, const npuseg_image_data& picture,
                   const std::vector<PromptAnswer>& answers) {
    std::string pixels(size_t{picture.width} * picture.height, '\0');
    for (size_t p = 0; p < answers.size(); ++p) {
      for (size_t i = 0; i < answers[p].instances.size(); ++i) {
        if (interrupted()) return true;  // write_files tells
        const npuseg_status status =
            npuseg_result_mask(answers[p].result.get(), i, NPUSEG_MASK_BYTES, pixels.data(), 0,
                               pixels.size(), nullptr);
        const std::string name =
            stem + "_" + std::to_string(p + 1) + "_" + std::to_string(i + 1) + ".png";
        if (status != NPUSEG_OK) {
          report(failure(status).message);
          return false;
        }
        if (!write_png(join(options_.masks_dir, name), NPUSEG_FORMAT_GREY, picture.width,
                       picture.height, pixels)) {
          return false;
        }
      }
    }
    return true;
  }

  bool write_raw(size_t number, npuseg_image* image, const std::vector<PromptAnswer>& answers) {
    const std::string prefix = join(options_.raw_dir, std::to_string(number)) + "_";
    size_t needed = 0;
    npuseg_image_model_input(image, model_.get(), nullptr, 0, &needed);
    std::vector<float> input(needed / sizeof(float));
    if (const npuseg_status status =
            npuseg_image_model_input(image, model_.get(), input.data(), needed, nullptr);
        status != NPUSEG_OK) {
      report(failure(status).message);
      return false;
    }
    const uint64_t side = facts_.image_side;
    if (!write_npy(prefix + "pixel_values.npy", "<f4", {3, side, side}, input.data(), needed)) {
      return false;
    }
    std::vector<uint64_t> data;  // aligned for both element types
    for (size_t p = 0; p < answers.size(); ++p) {
      if (answers[p].failed) continue;
      if (interrupted()) return true;  // write_files tells
      for (const auto& [which, name] : kRawTensors) {
        uint64_t shape[4] = {};
        const npuseg_result* result = answers[p].result.get();
        npuseg_result_raw(result, which, nullptr, 0, &needed, shape);
        data.resize((needed + sizeof(uint64_t) - 1) / sizeof(uint64_t));
        if (const npuseg_status status =
                npuseg_result_raw(result, which, data.data(), needed, nullptr, nullptr);
            status != NPUSEG_OK) {
          report(failure(status).message);
          return false;
        }
        std::vector<uint64_t> dims(shape, std::find(shape, shape + 4, uint64_t{0}));
        if (!write_npy(prefix + std::to_string(p) + "_" + name + ".npy",
                       which == NPUSEG_RAW_INPUT_IDS ? "<i8" : "<f4", dims, data.data(), needed)) {
          return false;
        }
      }
    }
    return true;
  }

  void collect_times(const npuseg_image_data& picture, const std::vector<PromptAnswer>& answers) {
    if (options_.reps == 1) return;
    times_.add("decode", static_cast<double>(picture.decode_nanoseconds) / 1e6);
    for (const PromptAnswer& answer : answers) {
      for (uint32_t stage = 1; stage < kStages; ++stage) {
        if (answer.info.stage_runs[stage] != 0) {
          times_.add(stage_name(stage), stage_ms(answer.info, stage));
        }
      }
    }
  }

  int finish() {
    times_.print();
    if (!options_.json.empty()) {
      const std::string document = document_head("npuseg-segment-1", options_, facts_) +
                                   ",\"images\":[" + images_.str() + "]}";
      if (!emit_json(options_, document)) write_failed_ = true;
    }
    if (status_ == kDone && write_failed_) return kInput;
    return status_;
  }

  const Options& options_;
  Progress progress_;
  ModelPtr model_;
  npuseg_model_info facts_{};
  JsonWriter images_;
  std::string text_;
  UniqueNames overlay_names_;
  UniqueNames mask_names_;
  StageTimes times_;
  bool last_rep_ = true;
  bool write_failed_ = false;
  int status_ = kDone;
};

}  // namespace

int run_segment(const Options& options) { return Segment(options).run(); }

}  // namespace cli

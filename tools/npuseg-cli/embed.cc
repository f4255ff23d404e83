// SPDX-License-Identifier: Apache-2.0
// embed: vectors of pictures, texts and both, as table, matrix, JSON, NumPy and raw tensors.
#include <npuseg.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "commands.h"
#include "embed_items.h"
#include "model.h"
#include "output.h"
#include "targets.h"

namespace cli {

namespace {

// Items that run together, and bytes of their decoded pictures.
constexpr size_t kBatchItems = 256;
constexpr uint64_t kBatchBytes = uint64_t{256} << 20;

// An item as the library takes it; pictures are shared by the items of a batch.
struct Prepared {
  EmbedItem* item = nullptr;
  size_t number = 0;
  std::vector<npuseg_embed_part> parts;

  [[nodiscard]] npuseg_embed_input input() const {
    npuseg_embed_input in{};
    in.parts = parts.data();
    in.part_count = static_cast<uint32_t>(parts.size());
    in.part_bytes = sizeof(npuseg_embed_part);
    in.task = item->task ? item->task->c_str() : nullptr;
    return in;
  }
};

std::string where_of(const EmbedItem& item, size_t number) {
  if (item.line != 0) return "line " + std::to_string(item.line);
  for (const EmbedPart& part : item.parts) {
    if (part.picture) return part.value;
  }
  return "item " + std::to_string(number + 1);
}

class Embed {
 public:
  explicit Embed(const Options& options)
      : options_(options), progress_(options.progress && !options.quiet) {}

  int run() {
    if (const int status = check_usage(); status != kDone) return status;
    if (const int status = read_items(options_, &items_); status != kDone) return status;
    if (const int status = check_targets(options_, files()); status != kDone) return status;
    if (!options_.raw_dir.empty() && !make_directory(options_.raw_dir)) return kInput;
    for (const EmbedItem& item : items_) {
      if (!item.failed) continue;
      report(item.failed->message);
      status_ = kInput;
    }
    for (uint32_t rep = 0; rep < options_.reps; ++rep) {
      if (const int status = load(rep != 0); status != kDone) return status;
      last_rep_ = rep + 1 == options_.reps;
      if (const int status = embed_all(); status != kDone) return status;
      collect_times();
    }
    return finish();
  }

 private:
  int check_usage() {
    const auto wrong = [](const char* what) {
      report(std::string("wrong usage: embed: ") + what + "; see npuseg-cli embed --help");
      return kUsage;
    };
    if (options_.positional.empty()) return wrong("needs MODEL");
    if (options_.items.empty() && options_.input.empty()) {
      return wrong("needs at least one IMAGE, --text, --pair or --input");
    }
    return kDone;
  }

  // What is read and what --raw writes.
  [[nodiscard]] FilePlan files() const {
    FilePlan plan;
    if (!options_.input.empty() && options_.input != "-") {
      plan.reads.emplace_back(options_.input, "the file of --input");
    }
    for (size_t i = 0; i < items_.size(); ++i) {
      for (const EmbedPart& part : items_[i].parts) {
        if (part.picture) plan.reads.emplace_back(part.value, kPictureToRead);
      }
      if (items_[i].failed) continue;
      plan.raw.push_back(std::to_string(i) + "_input_ids.npy");
      for (size_t p = 0; p < items_[i].pictures(); ++p) {
        plan.raw.push_back(raw_prefix(i, p) + "pixel_values.npy");
        plan.raw.push_back(raw_prefix(i, p) + "position_ids.npy");
      }
    }
    return plan;
  }

  // Pictures are numbered where an item has several.
  [[nodiscard]] std::string raw_prefix(size_t number, size_t picture) const {
    const std::string prefix = std::to_string(number) + "_";
    return items_[number].pictures() == 1 ? prefix : prefix + std::to_string(picture) + "_";
  }

  int load(bool again) {
    if (const int status =
            load_model(options_, again, &progress_, npuseg_embeddinggemma2_load, &model_);
        status != kDone) {
      return status;
    }
    facts_.struct_size = sizeof facts_;
    npuseg_embeddinggemma2_info(model_.get(), &facts_);
    if (const int status = check_dims(); status != kDone) return status;
    return check_task();
  }

  int check_dims() {
    dims_ = options_.dims == 0 ? facts_.embedding_dim : options_.dims;
    size_t count = 0;
    npuseg_embeddinggemma2_dims(model_.get(), nullptr, &count);
    std::vector<uint32_t> offered(count);
    npuseg_embeddinggemma2_dims(model_.get(), offered.data(), &count);
    if (options_.dims == 0 || std::count(offered.begin(), offered.end(), dims_) != 0) return kDone;
    std::string list;
    for (const uint32_t size : offered) list += (list.empty() ? "" : ", ") + std::to_string(size);
    report("wrong usage: --dims: " + std::to_string(dims_) + " is no size of the model; use " +
           list);
    return kUsage;
  }

  int check_task() {
    if (options_.task.empty() || options_.task == "none") return kDone;
    uint32_t count = 0;
    npuseg_embeddinggemma2_task_count(model_.get(), &count);
    std::string list = "none";
    for (uint32_t i = 0; i < count; ++i) {
      const char* name = nullptr;
      npuseg_embeddinggemma2_task_at(model_.get(), i, &name, nullptr);
      if (name == nullptr) continue;
      if (options_.task == name) return kDone;
      list += std::string(", ") + name;
    }
    report("wrong usage: --task: " + options_.task + " is no task of the model; use " + list);
    return kUsage;
  }

  int embed_all() {
    decode_ms_ = 0.0;
    progress_.begin("");
    for (size_t next = 0; next < items_.size();) {
      pictures_.clear();
      batch_.clear();
      uint64_t bytes = 0;
      for (; next < items_.size() && batch_.size() < kBatchItems && bytes < kBatchBytes; ++next) {
        if (interrupted()) return stop();
        if (const int status = prepare(next, &bytes); status != kDone) return status;
      }
      if (const int status = embed_batch(); status != kDone) return status;
      if (last_rep_ && !options_.raw_dir.empty()) {
        progress_.end();
        for (const Prepared& one : batch_) {
          if (interrupted()) return stop();
          if (!write_raw(one)) write_failed_ = true;
        }
      }
    }
    progress_.end();
    return kDone;
  }

  int stop() {
    progress_.end();
    return stopped();
  }

  // Reads the pictures of an item and checks it; a bad one is told and left out.
  int prepare(size_t number, uint64_t* bytes) {
    EmbedItem& item = items_[number];
    if (item.failed) return kDone;
    Prepared made;
    made.item = &item;
    made.number = number;
    for (const EmbedPart& part : item.parts) {
      npuseg_embed_part out{};
      if (part.picture) {
        npuseg_status status = NPUSEG_OK;
        out.image = picture(part.value, item.how, &status, bytes);
        if (status != NPUSEG_OK) return bad_item(&item, failure(status), "");
      } else {
        out.text = part.value.c_str();
        out.text_bytes = part.value.size();
      }
      made.parts.push_back(out);
    }
    const npuseg_embed_input input = made.input();
    npuseg_status status = NPUSEG_OK;
    {
      const NoWriting guard;
      status = npuseg_embed_tokens(model_.get(), &input, nullptr, &item.tokens, nullptr);
    }
    if (status != NPUSEG_OK) {
      return bad_item(&item, failure(status), "cannot embed: " + where_of(item, number) + ": ");
    }
    batch_.push_back(std::move(made));
    return kDone;
  }

  npuseg_image* picture(const std::string& path, const PictureOptions& how, npuseg_status* status,
                        uint64_t* bytes) {
    const auto key = std::make_pair(path, how);
    if (const auto known = pictures_.find(key); known != pictures_.end()) {
      return known->second.get();
    }
    ImagePtr image;
    *status = open_picture(path, how, &image);
    if (*status != NPUSEG_OK) return nullptr;
    npuseg_image_data data{};
    data.struct_size = sizeof data;
    npuseg_image_info(image.get(), &data);
    *bytes += uint64_t{3} * data.width * data.height;
    decode_ms_ += static_cast<double>(data.decode_nanoseconds) / 1e6;
    return pictures_.emplace(key, std::move(image)).first->second.get();
  }

  int bad_item(EmbedItem* item, const Failure& failed, const std::string& where) {
    progress_.end();
    report(where + failed.message);
    if (failed.status == NPUSEG_OUT_OF_MEMORY) return kLimit;
    item->failed = failed;
    status_ = kInput;
    return kDone;
  }

  int embed_batch() {
    if (batch_.empty()) return kDone;
    std::vector<npuseg_embed_input> inputs;
    for (const Prepared& one : batch_) inputs.push_back(one.input());
    npuseg_embed_options wanted{};
    wanted.struct_size = sizeof wanted;
    wanted.dims = options_.dims;
    wanted.progress = on_progress;
    wanted.progress_user = &progress_;
    progress_.next("items " + std::to_string(batch_.front().number + 1) + " to " +
                   std::to_string(batch_.back().number + 1) + " of " +
                   std::to_string(items_.size()));
    std::vector<float> vectors(inputs.size() * dims_);
    const npuseg_status status =
        npuseg_embed_batch(model_.get(), inputs.data(), sizeof inputs[0], inputs.size(), &wanted,
                           vectors.data(), 0, vectors.size());
    if (status != NPUSEG_OK) {
      const Failure failed = failure(status);
      if (status == NPUSEG_CANCELLED) return stop();
      progress_.end();
      report(failed.message);
      return status == NPUSEG_LIMIT_EXCEEDED ? kLimit : exit_of(status, kModel);
    }
    auto row = vectors.begin();
    for (const Prepared& one : batch_) {
      one.item->vector.assign(row, row + static_cast<std::ptrdiff_t>(dims_));
      row += static_cast<std::ptrdiff_t>(dims_);
    }
    return kDone;
  }

  bool write_raw(const Prepared& one) {
    const std::string ids = join(options_.raw_dir, std::to_string(one.number) + "_input_ids.npy");
    if (!write_tensor(one, NPUSEG_EMBED_RAW_INPUT_IDS, 0, "<i8", ids)) return false;
    const size_t count = one.item->pictures();
    for (size_t p = 0; p < count; ++p) {
      if (interrupted()) return true;  // embed_all tells
      const std::string prefix = join(options_.raw_dir, raw_prefix(one.number, p));
      if (!write_tensor(one, NPUSEG_EMBED_RAW_PIXEL_VALUES, p, "<f4",
                        prefix + "pixel_values.npy") ||
          !write_tensor(one, NPUSEG_EMBED_RAW_POSITION_IDS, p, "<i8",
                        prefix + "position_ids.npy")) {
        return false;
      }
    }
    return true;
  }

  bool write_tensor(const Prepared& one, uint32_t which, size_t picture, const char* descr,
                    const std::string& path) {
    const npuseg_embed_input input = one.input();
    const auto index = static_cast<uint32_t>(picture);
    size_t needed = 0;
    uint64_t shape[2] = {};
    std::vector<uint64_t> data;  // aligned for both element types
    npuseg_status status = npuseg_embed_model_input(model_.get(), &input, nullptr, which, index,
                                                    nullptr, 0, &needed, shape);
    if (status == NPUSEG_OK) {
      data.resize((needed + sizeof(uint64_t) - 1) / sizeof(uint64_t));
      status = npuseg_embed_model_input(model_.get(), &input, nullptr, which, index, data.data(),
                                        needed, nullptr, nullptr);
    }
    if (status != NPUSEG_OK) {
      report(failure(status).message);
      return false;
    }
    const std::vector<uint64_t> dims(shape, std::find(shape, shape + 2, uint64_t{0}));
    return write_npy(path, descr, dims, data.data(), needed);
  }

  // Of one repetition: all items together.
  void collect_times() {
    if (options_.reps == 1) return;
    npuseg_counters counters{};
    counters.struct_size = sizeof counters;
    npuseg_embeddinggemma2_counters(model_.get(), &counters);
    if (decode_ms_ > 0.0) times_.add("decode", decode_ms_);
    for (uint32_t stage = 1; stage < NPUSEG_STAGE_COUNT; ++stage) {
      if (counters.runs[stage] == 0) continue;
      times_.add(stage_name(stage), static_cast<double>(counters.nanoseconds[stage]) / 1e6);
    }
  }

  int finish() {
    times_.print();
    std::vector<float> matrix;
    if (options_.similarity) {
      const NoWriting guard;
      matrix = similarities(items_);
    }
    if (!options_.npy.empty() && !write_vectors(options_.npy, items_, dims_)) write_failed_ = true;
    if (!options_.json.empty()) {
      std::string document = document_head("npuseg-embed-1", options_, facts_) +
                             ",\"dims\":" + std::to_string(dims_) + items_json(items_);
      if (options_.similarity) document += similarity_json(items_.size(), matrix);
      if (!emit_json(options_, document + "}")) write_failed_ = true;
    }
    if (!options_.json_to_stdout()) {
      std::string text = items_text(items_, options_.similarity);
      if (options_.similarity) text += "\n" + similarity_text(items_, matrix);
      if (!write_stdout(text)) write_failed_ = true;
    }
    return status_ == kDone && write_failed_ ? kInput : status_;
  }

  const Options& options_;
  Progress progress_;
  EmbedderPtr model_;
  npuseg_model_info facts_{};
  size_t dims_ = 0;
  std::vector<EmbedItem> items_;
  // Of the batch that runs.
  std::map<std::pair<std::string, PictureOptions>, ImagePtr> pictures_;
  std::vector<Prepared> batch_;
  StageTimes times_;
  double decode_ms_ = 0.0;
  bool last_rep_ = true;
  bool write_failed_ = false;
  int status_ = kDone;
};

}  // namespace

int run_embed(const Options& options) { return Embed(options).run(); }

}  // namespace cli

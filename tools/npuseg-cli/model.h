// SPDX-License-Identifier: Apache-2.0
// What the commands that run a model share: opening it and pictures, times of stages, the head of
// a JSON answer.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "handles.h"
#include "options.h"
#include "progress.h"

namespace cli {

// The options of the command line; again: weights that were checked before are not checked again.
npuseg_model_options model_options(const Options& options, bool again, Progress* progress);

// After reporting why options.positional[0] was not opened: the exit status.
int load_failed(const Options& options, npuseg_status status);

template <class Handle>
int load_model(const Options& options, bool again, Progress* progress,
               npuseg_status (*load)(const char*, const npuseg_model_options*, Handle**),
               std::unique_ptr<Handle, Releaser>* model) {
  const npuseg_model_options wanted = model_options(options, again, progress);
  const std::string& path = options.positional[0];
  model->reset();
  Handle* opened = nullptr;
  npuseg_status status = NPUSEG_OK;
  progress->begin(path);
  {
    const NoWriting guard;
    status = load(path.c_str(), &wanted, &opened);
  }
  progress->end();
  model->reset(opened);
  return status == NPUSEG_OK ? kDone : load_failed(options, status);
}

// What a directory holds, of either kind. On failure the message is that of the kind it is.
npuseg_status probe_model(const std::string& path, npuseg_model_info* info, Failure* failed);

// How pictures are read.
struct PictureOptions {
  bool apply_exif = true;
  uint32_t alpha = NPUSEG_ALPHA_DROP;
  uint32_t colour = 0;
  bool operator<(const PictureOptions& other) const {
    return std::tie(apply_exif, alpha, colour) <
           std::tie(other.apply_exif, other.alpha, other.colour);
  }
};
npuseg_status open_picture(const std::string& path, const PictureOptions& how, ImagePtr* image);

// Milliseconds of stages over repetitions, min/median/max of each on standard error.
class StageTimes {
 public:
  void add(const std::string& stage, double ms) { times_[stage].push_back(ms); }
  void print();

 private:
  std::map<std::string, std::vector<double>> times_;
};

// {"format":...,"library":...,"model":{...},"device":{...}: the document is still open.
std::string document_head(const char* format, const Options& options,
                          const npuseg_model_info& facts);

// "error":{...} of an entry.
class JsonWriter;
void write_error(const Failure& failed, JsonWriter* json);

int stopped();  // kInterrupted after saying so

}  // namespace cli

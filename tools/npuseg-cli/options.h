// SPDX-License-Identifier: Apache-2.0
// The command line as data.
#pragma once

#include <npuseg.h>

#include <string>
#include <string_view>
#include <vector>

namespace cli {

// What embed is to embed, in the order of the command line.
struct CommandItem {
  std::string image;  // empty: none
  std::string text;
  bool has_text = false;
};

struct Options {
  std::string command;
  std::vector<std::string> positional;  // MODEL, then pictures
  std::string device = "auto";
  uint32_t threads = 0;
  uint32_t precision = NPUSEG_PRECISION_AUTO;
  uint32_t log_level = NPUSEG_LOG_WARN;
  bool quiet = false;
  bool progress = true;
  bool help = false;
  bool version = false;

  std::vector<std::string> prompts;
  std::vector<npuseg_box> boxes;
  float threshold = 0.5f;
  float mask_threshold = 0.5f;
  bool apply_exif = true;
  uint32_t alpha = NPUSEG_ALPHA_DROP;
  uint32_t colour = 0;
  std::string overlay;  // -o: of repack the new bundle
  std::string overlay_dir;
  std::string masks_dir;
  std::string json;  // file, or "-"
  std::string raw_dir;
  uint32_t reps = 1;

  std::vector<CommandItem> items;
  std::string input;  // file of JSON lines, or "-"
  std::string task;   // empty: not given
  uint32_t dims = 0;  // 0: the model's largest
  bool similarity = false;
  std::string npy;

  std::string kernels;  // the bundle whose kernels repack takes

  [[nodiscard]] bool json_to_stdout() const { return json == "-"; }
};

// kDone, kUsage or kInput (a box that is unreadable), after reporting why.
int parse(int argc, char** argv, Options* options);

const char* usage_text();
const char* help_text(const std::string& command);

// "drop", "white" or "RRGGBB" as the library takes them.
bool read_alpha(std::string_view word, uint32_t* alpha, uint32_t* colour);

// Thresholds as the library takes them: 0 there means the default.
float to_library(float threshold);

}  // namespace cli

// SPDX-License-Identifier: Apache-2.0
#include "options.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "handles.h"

namespace cli {

namespace {

// Independent of the locale, nothing left behind the number.
template <class T>
bool read_number(std::string_view text, T* out) {
  if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
  const auto end = std::from_chars(text.data(), text.data() + text.size(), *out);
  return end.ec == std::errc() && end.ptr == text.data() + text.size();
}

bool read_box(std::string_view text, npuseg_box* box) {
  float* const corners[] = {&box->x0, &box->y0, &box->x1, &box->y1};
  for (size_t i = 0; i < 4; ++i) {
    const size_t comma = i < 3 ? text.find(',') : text.size();
    if (comma == std::string_view::npos) return false;
    if (!read_number(text.substr(0, comma), corners[i]) || !std::isfinite(*corners[i])) {
      return false;
    }
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return text.empty();
}

bool one_of(const std::string& value, std::initializer_list<std::string_view> words,
            uint32_t* index) {
  const auto at = std::find(words.begin(), words.end(), value);
  *index = static_cast<uint32_t>(at - words.begin());
  return at != words.end();
}

class Parser {
 public:
  Parser(int argc, char** argv, Options* options) : options_(options) {
    for (int i = 1; i < argc; ++i) words_.emplace_back(argv[i]);
  }

  int run() {
    bool options_end = false;
    while (at_ < words_.size()) {
      const std::string word = words_[at_++];
      if (options_end || word == "-" || word.empty() || word[0] != '-') {
        if (options_->command.empty()) {
          options_->command = word;
        } else {
          if (!options_->positional.empty()) options_->items.push_back({word, "", false});
          options_->positional.push_back(word);
        }
      } else if (word == "--") {
        options_end = true;
      } else if (const int status = option(word); status != kDone) {
        return status;
      }
    }
    return check_command();
  }

 private:
  // An option that a command does not know is an error, never ignored.
  int check_command() {
    const auto known = [this](const std::string& name) {
      const auto in = [&](std::initializer_list<std::string_view> names) {
        return std::find(names.begin(), names.end(), name) != names.end();
      };
      if (in({"--help", "-h", "--version", "--quiet", "--no-progress", "--device", "--threads",
              "--precision", "--log", "--json"})) {
        return true;
      }
      const bool runs = options_->command == "segment" || options_->command == "embed";
      if (runs && in({"--raw", "--reps"})) return true;
      if (options_->command == "embed") {
        return in({"--text", "--pair", "--input", "--task", "--dims", "--similarity", "--npy"});
      }
      if (options_->command == "repack") return in({"--kernels", "-o"});
      return options_->command == "segment" &&
             in({"-p", "--prompt", "--box", "--not-box", "--threshold", "--mask-threshold",
                 "--exif", "--alpha", "-o", "--overlay", "--overlay-dir", "--masks"});
    };
    for (const char* command :
         {"segment", "embed", "info", "devices", "check", "verify", "repack"}) {
      if (options_->command != command) continue;
      for (const std::string& name : used_) {
        if (!known(name)) return wrong(name, options_->command + " does not take it");
      }
    }
    return kDone;
  }

  int wrong(const std::string& where, const std::string& why) {
    report("wrong usage: " + where + ": " + why + "; see npuseg-cli --help");
    return kUsage;
  }
  int wrong(const std::string& why) { return wrong(name_, why); }

  int option(const std::string& word) {
    name_ = word;
    value_.clear();
    has_value_ = false;
    if (const size_t equals = word.find('=');
        word.starts_with("--") && equals != std::string::npos) {
      name_ = word.substr(0, equals);
      value_ = word.substr(equals + 1);
      has_value_ = true;
    }
    used_.push_back(name_);
    if (name_ == "--help" || name_ == "-h") return flag(&options_->help, true);
    if (name_ == "--version") return flag(&options_->version, true);
    if (name_ == "--quiet") return flag(&options_->quiet, true);
    if (name_ == "--no-progress") return flag(&options_->progress, false);
    if (name_ == "--device") return text(&options_->device);
    if (name_ == "--threads") return count(&options_->threads, 0, 1024);
    if (name_ == "--reps") return count(&options_->reps, 1, 100000);
    if (name_ == "--precision")
      return word_of({"auto", "f32", "bf16", "int8"}, &options_->precision);
    if (name_ == "--log") {
      const int status = word_of({"error", "warn", "info", "debug"}, &options_->log_level);
      options_->log_level += NPUSEG_LOG_ERROR;
      return status;
    }
    if (name_ == "-p" || name_ == "--prompt") {
      if (!take()) return wrong("needs a text");
      options_->prompts.push_back(value_);
      return kDone;
    }
    if (name_ == "--box" || name_ == "--not-box") return box(name_ == "--box" ? 1 : 0);
    if (name_ == "--threshold") return threshold(&options_->threshold);
    if (name_ == "--mask-threshold") return threshold(&options_->mask_threshold);
    if (name_ == "--exif") {
      uint32_t ignore = 0;
      const int status = word_of({"apply", "ignore"}, &ignore);
      options_->apply_exif = ignore == 0;
      return status;
    }
    if (name_ == "--alpha") return alpha();
    if (name_ == "-o" || name_ == "--overlay") return text(&options_->overlay);
    if (name_ == "--overlay-dir") return text(&options_->overlay_dir);
    if (name_ == "--masks") return text(&options_->masks_dir);
    if (name_ == "--json") return text(&options_->json);
    if (name_ == "--raw") return text(&options_->raw_dir);
    if (name_ == "--text") {
      if (!take()) return wrong("needs a text");
      options_->items.push_back({"", value_, true});
      return kDone;
    }
    if (name_ == "--pair") return pair();
    if (name_ == "--input") return text(&options_->input);
    if (name_ == "--task") return text(&options_->task);
    if (name_ == "--dims") return count(&options_->dims, 1, 1u << 20);
    if (name_ == "--similarity") return flag(&options_->similarity, true);
    if (name_ == "--npy") return text(&options_->npy);
    if (name_ == "--kernels") return text(&options_->kernels);
    return wrong("unknown option");
  }

  bool take() {
    if (!has_value_) {
      if (at_ == words_.size()) return false;
      value_ = words_[at_++];
      has_value_ = true;
    }
    return true;
  }

  int flag(bool* out, bool value) {
    if (has_value_) return wrong("takes no value");
    *out = value;
    return kDone;
  }

  int text(std::string* out) {
    if (!take() || value_.empty()) return wrong("needs a value");
    *out = value_;
    return kDone;
  }

  int count(uint32_t* out, uint32_t least, uint32_t most) {
    if (!take() || !read_number(value_, out) || *out < least || *out > most) {
      return wrong("needs a number from " + std::to_string(least) + " to " + std::to_string(most));
    }
    return kDone;
  }

  int word_of(std::initializer_list<std::string_view> words, uint32_t* out) {
    if (take() && one_of(value_, words, out)) return kDone;
    std::string list;
    for (const std::string_view word : words)
      list += (list.empty() ? "" : ", ") + std::string(word);
    return wrong("needs one of " + list);
  }

  int threshold(float* out) {
    if (!take() || !read_number(value_, out) || !(*out >= 0.0f && *out <= 1.0f)) {
      return wrong("needs a number from 0 to 1");
    }
    return kDone;
  }

  int box(int32_t label) {
    if (!take()) return wrong("needs X0,Y0,X1,Y1");
    npuseg_box box{};
    box.label = label;
    if (!read_box(value_, &box)) {
      report("cannot read box: " + name_ + " " + value_ +
             ": four finite numbers with commas are needed; give X0,Y0,X1,Y1 in pixels");
      return kInput;
    }
    options_->boxes.push_back(box);
    return kDone;
  }

  int alpha() {
    if (take() && read_alpha(value_, &options_->alpha, &options_->colour)) return kDone;
    return wrong("needs drop, white or RRGGBB");
  }

  int pair() {
    if (!take() || value_.empty() || at_ == words_.size()) return wrong("needs IMAGE and TEXT");
    options_->items.push_back({value_, words_[at_++], true});
    return kDone;
  }

  Options* options_;
  std::vector<std::string> words_;
  std::vector<std::string> used_;  // names of options as given
  size_t at_ = 0;
  std::string name_;
  std::string value_;
  bool has_value_ = false;
};

}  // namespace

int parse(int argc, char** argv, Options* options) { return Parser(argc, argv, options).run(); }

bool read_alpha(std::string_view word, uint32_t* alpha, uint32_t* colour) {
  uint32_t index = 0;
  if (one_of(std::string(word), {"drop", "white"}, &index)) {
    *alpha = index == 0 ? NPUSEG_ALPHA_DROP : NPUSEG_ALPHA_WHITE;
    return true;
  }
  const auto end = std::from_chars(word.data(), word.data() + word.size(), *colour, 16);
  *alpha = NPUSEG_ALPHA_COLOUR;
  return word.size() == 6 && word[0] != '-' && end.ec == std::errc() && end.ptr == word.data() + 6;
}

float to_library(float threshold) { return threshold == 0.0f ? -1.0f : threshold; }

const char* usage_text() {
  return "usage: npuseg-cli [COMMON] segment MODEL IMAGE... -p TEXT [-p TEXT]... [OPTION]...\n"
         "       npuseg-cli [COMMON] embed MODEL [IMAGE]... [--text TEXT]... [OPTION]...\n"
         "       npuseg-cli [COMMON] info MODEL [--json FILE|-]\n"
         "       npuseg-cli [COMMON] devices [--json FILE|-]\n"
         "       npuseg-cli [COMMON] check BUNDLE [--json FILE|-]\n"
         "       npuseg-cli [COMMON] verify MODEL [--json FILE|-]\n"
         "       npuseg-cli [COMMON] repack CHECKPOINT --kernels BUNDLE -o NEW [--json FILE|-]\n"
         "       npuseg-cli --help | --version\n";
}

const char* help_text(const std::string& command) {
  if (command == "segment") {
    return "npuseg-cli segment MODEL IMAGE... -p TEXT [-p TEXT]...\n"
           "Finds what a text names in pictures. The text may be left out where a positive box is "
           "given.\n\n"
           "  -p TEXT                  prompt; may be given several times\n"
           "  --box X0,Y0,X1,Y1        an example, pixels of the upright picture; several allowed\n"
           "  --not-box X0,Y0,X1,Y1    a counter-example\n"
           "  --threshold N            instances with a score above N (0.5)\n"
           "  --mask-threshold N       mask where the probability is above N (0.5)\n"
           "  --exif apply|ignore      turn the picture upright (apply)\n"
           "  --alpha drop|white|RRGGBB  transparency (drop)\n"
           "  -o, --overlay FILE       picture with what was found drawn in, PNG; one picture "
           "only\n"
           "  --overlay-dir DIR        the same for several, <image stem>.png\n"
           "  --masks DIR              <image stem>_<prompt number>_<instance number>.png, from 1\n"
           "  --json FILE|-            everything as JSON; - is standard output\n"
           "  --raw DIR                raw tensors as .npy\n"
           "  --reps N                 repeat and print min/median/max of every stage\n";
  }
  if (command == "embed") {
    return "npuseg-cli embed MODEL [IMAGE]... [--text TEXT]... [--pair IMAGE TEXT]... "
           "[--input FILE|-]\n"
           "A unit vector of every picture, text, or both together; near vectors mean alike.\n\n"
           "  --text TEXT              a text; may be given several times\n"
           "  --pair IMAGE TEXT        a picture and a text as one input; likewise\n"
           "  --input FILE|-           JSON lines, one input a line, for example\n"
           "                           {\"items\":[{\"image\":\"a.jpg\"},{\"text\":\"a cat\"}]};\n"
           "                           may have \"task\", \"exif\" and \"alpha\"\n"
           "  --task none|NAME         the model's words in front of texts, not of pictures\n"
           "  --dims N                 numbers of a vector, of those that the model offers\n"
           "  --similarity             how near every item is to every other one, -1 to 1\n"
           "  --json FILE|-            everything as JSON; - is standard output\n"
           "  --npy FILE               the vectors, float32 [items, dims]\n"
           "  --raw DIR                what the model is fed, as .npy\n"
           "  --reps N                 repeat and print min/median/max of every stage\n";
  }
  if (command == "info") {
    return "npuseg-cli info MODEL [--json FILE|-]\nWhat a model directory holds; reads no "
           "weights.\n";
  }
  if (command == "devices") {
    return "npuseg-cli devices [--json FILE|-]\nEvery device, usable or not, with reason and "
           "remedy.\n";
  }
  if (command == "check") {
    return "npuseg-cli check BUNDLE [--json FILE|-]\nRuns an NPU bundle against the references "
           "that it carries, a line each. Exit status 0 only\nwhen all hold, else 3.\n";
  }
  if (command == "verify") {
    return "npuseg-cli verify MODEL [--json FILE|-]\nCompares the files of a model with the "
           "SHA-256 that its directory states (SHA256SUMS, Hugging\nFace downloads) and looks at "
           "the structure of each; computes nothing. Exit status 0 only when\nall is well, else "
           "3.\n";
  }
  if (command == "repack") {
    return "npuseg-cli repack CHECKPOINT --kernels BUNDLE -o NEW [--json FILE|-]\n"
           "Packs the weights of a SAM 3 checkpoint for the kernels of an existing bundle as the "
           "bundle NEW, which\nmust not exist, then runs check on it.\n\n"
           "  --kernels BUNDLE         whose kernels NEW is to have\n"
           "  -o NEW                   folder to be made\n"
           "  --json FILE|-            the report of check\n";
  }
  return "npuseg-cli finds things in pictures with SAM 3 and embeds pictures and texts with "
         "EmbeddingGemma 2.\n\n"
         "usage: npuseg-cli [COMMON] COMMAND ...\n\n"
         "commands:\n"
         "  segment    find what a text names in pictures\n"
         "  embed      vectors of pictures and texts, and how near they are\n"
         "  info       what a model directory holds\n"
         "  devices    what a model can run on\n"
         "  check      an NPU bundle against the references that it carries\n"
         "  verify     files of a model against the sums that its directory states\n"
         "  repack     a checkpoint as a bundle with the kernels of another one\n\n"
         "common options:\n"
         "  --device auto|cpu|soft[:faithful]|amdxdna[:N]|xrt[:N]   where to run (auto)\n"
         "  --threads N              0 = what the process may use (0)\n"
         "  --precision auto|f32|bf16|int8   arithmetic (auto)\n"
         "  --log error|warn|info|debug      messages on standard error (warn)\n"
         "  --quiet                  no messages but errors\n"
         "  --no-progress            no progress line\n"
         "  --version, --help\n\n"
         "npuseg-cli COMMAND --help tells the options of a command.\n\n"
         "exit status: 0 done, 1 wrong usage, 2 an input is unreadable or refused, 3 the model "
         "directory\nis unusable, 4 the device failed, 5 out of memory or over a limit, 130 "
         "interrupted\n";
}

}  // namespace cli

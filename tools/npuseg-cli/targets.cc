// SPDX-License-Identifier: Apache-2.0
// Names are compared as folder and file, folders after following links; existing files also by
// their identity, so that another spelling or a hard link of an input is found too.
#include "targets.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <system_error>
#include <utility>

#include "handles.h"
#include "output.h"

namespace cli {

namespace {

namespace fs = std::filesystem;

fs::path folder_of(const std::string& path) {
  const fs::path parent = fs::path(path).parent_path();
  return parent.empty() ? fs::path(".") : parent;
}

fs::path resolved(const fs::path& folder) {
  std::error_code error;
  fs::path real = fs::weakly_canonical(folder, error);
  if (error) real = folder.lexically_normal();
  // "x/" and "x" are one folder.
  return real.has_filename() ? real : real.parent_path();
}

using Place = std::pair<std::string, std::string>;  // folder, file

Place place_of(const std::string& path) {
  return {resolved(folder_of(path)).string(), fs::path(path).filename().string()};
}

bool is_number(std::string_view text) {
  return !text.empty() && text[0] != '0' &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// "<stem>_<prompt>_<instance>.png" for one of these stems; the instances are not known yet.
bool is_mask_name(std::string name, const std::set<std::string>& stems) {
  if (!name.ends_with(".png")) return false;
  name.resize(name.size() - 4);
  for (int i = 0; i < 2; ++i) {
    const size_t at = name.find_last_of('_');
    if (at == std::string::npos || !is_number(std::string_view(name).substr(at + 1))) return false;
    name.resize(at);
  }
  return stems.contains(name);
}

class Targets {
 public:
  Targets(const Options& options, const FilePlan& plan) : options_(options), plan_(plan) {}

  int run() {
    for (const auto& [path, what] : plan_.reads) read(path, what);
    if (!options_.positional.empty()) read_model(options_.positional[0], true);
    if (!options_.kernels.empty()) read_model(options_.kernels, true);
    if (!options_.json.empty() && !options_.json_to_stdout()) file(options_.json, "--json");
    if (!options_.overlay.empty()) file(options_.overlay, "-o");
    if (!options_.npy.empty()) file(options_.npy, "--npy");
    std::set<std::string> mask_stems;
    UniqueNames overlay_names;
    UniqueNames mask_names;
    for (size_t i = 1; i < options_.positional.size() && !bad(); ++i) {
      const std::string stem = stem_of(options_.positional[i]);
      if (!options_.overlay_dir.empty()) {
        write(join(options_.overlay_dir, overlay_names.take(stem) + ".png"), "--overlay-dir");
      }
      mask_stems.insert(mask_names.take(stem));
    }
    if (!options_.raw_dir.empty()) {
      for (const std::string& name : plan_.raw) write(join(options_.raw_dir, name), "--raw");
    }
    if (!options_.masks_dir.empty()) masks(mask_stems);
    return status_;
  }

 private:
  [[nodiscard]] bool bad() const { return status_ != kDone; }

  void refuse(const std::string& path, const std::string& why, int status) {
    if (bad()) return;
    report("cannot write: " + path + ": " + why + "; choose another place");
    status_ = status;
  }

  void read(const std::string& path, const char* what) {
    taken_.emplace(place_of(path), what);
    if (const auto identity = file_identity(path)) inputs_.emplace(*identity, what);
  }

  // Models have files in their folder and in those in it, a bundle in kernels/.
  void read_model(const std::string& folder, bool with_folders) {
    std::error_code error;
    for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
      std::error_code ignored;
      if (!at->is_directory(ignored)) {
        read(at->path().string(), "a file of the model");
      } else if (with_folders) {
        read_model(at->path().string(), false);
      }
    }
  }

  // A single file: its folder has to be there.
  void file(const std::string& path, const char* option) {
    if (is_special(path)) return refuse(path, "it is a folder or a device", kInput);
    const std::string folder = folder_of(path).string();
    std::error_code error;
    if (!fs::is_directory(folder, error)) {
      return refuse(path, "there is no folder " + folder, kInput);
    }
    if (::access(folder.c_str(), W_OK | X_OK) != 0) {
      return refuse(path, "the folder " + folder + " cannot be written", kInput);
    }
    write(path, option);
  }

  void write(const std::string& path, const char* option) {
    if (bad()) return;
    const auto [at, fresh] = taken_.emplace(place_of(path), std::string("written by ") + option);
    if (!fresh) return refuse(path, std::string(option) + ": it is " + at->second, kUsage);
    if (const auto identity = file_identity(path)) {
      const auto input = inputs_.find(*identity);
      if (input != inputs_.end()) {
        refuse(path, std::string(option) + ": it is " + input->second, kUsage);
      }
    }
  }

  void masks(const std::set<std::string>& stems) {
    const std::string folder = resolved(options_.masks_dir).string();
    for (const auto& [place, what] : taken_) {
      if (place.first == folder && is_mask_name(place.second, stems)) {
        return refuse(join(options_.masks_dir, place.second), "--masks: it is " + what, kUsage);
      }
    }
  }

  const Options& options_;
  const FilePlan& plan_;
  std::map<Place, std::string> taken_;
  std::map<FileIdentity, const char*> inputs_;
  int status_ = kDone;
};

}  // namespace

int check_targets(const Options& options, const FilePlan& plan) {
  return Targets(options, plan).run();
}

}  // namespace cli

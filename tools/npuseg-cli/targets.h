// SPDX-License-Identifier: Apache-2.0
// Where answers go, checked before any work: no output may replace an input or another output.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "options.h"

namespace cli {

inline constexpr char kPictureToRead[] = "a picture to read";

struct FilePlan {
  std::vector<std::pair<std::string, const char*>> reads;  // path, what it is
  std::vector<std::string> raw;                            // names that --raw writes in its folder
};

// What a command reads, files of the model among it, against the files that it will write. kDone,
// or the exit status after reporting what is in the way. Makes no file and no folder.
int check_targets(const Options& options, const FilePlan& plan = {});

}  // namespace cli

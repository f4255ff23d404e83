// SPDX-License-Identifier: Apache-2.0
// The SHA-256 that a directory states for its files.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "engine/report.h"

namespace npuseg::engine {

struct StatedSum {
  std::string sha256;  // 64 digits, lower case
  std::string by;      // who states it
};
// By path below the directory, with '/' between folders.
using StatedSums = std::map<std::string, StatedSum>;

// 64 hexadecimal digits, of either case.
bool is_sha256(std::string_view text);

// Reads SHA256SUMS (lines of sha256sum), then the notes that a download from Hugging Face leaves
// beside the files, and the names of the files that links of its cache lead to; `files` are those
// that are there. Lines that are no statement, and paths that leave the directory, are failed rows.
StatedSums read_stated_sums(const std::string& directory, const std::vector<std::string>& files,
                            Report* report);

}  // namespace npuseg::engine

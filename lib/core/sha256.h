// SPDX-License-Identifier: Apache-2.0
// SHA-256 of files, by libcrypto where the build has it.
#pragma once

#include <cstddef>
#include <string>

#include "core/status.h"
#include "core/threads.h"

namespace npuseg::core {

bool has_sha256();

// A file is read in pieces of this many bytes; each, also a last part of one, is a step of the
// call's stage.
constexpr size_t kSha256Piece = size_t{1} << 20;

// 64 digits of lower case. UNSUPPORTED without libcrypto.
Result<std::string> sha256_of_file(const std::string& path, Call& call);

}  // namespace npuseg::core

// SPDX-License-Identifier: Apache-2.0
// The commands: each returns the exit status of the tool.
#pragma once

#include "options.h"

namespace cli {

int run_segment(const Options& options);
int run_embed(const Options& options);
int run_info(const Options& options);
int run_devices(const Options& options);
int run_check(const Options& options);
int run_verify(const Options& options);
int run_repack(const Options& options);

// A JSON document to where --json says.
bool emit_json(const Options& options, const std::string& document);

}  // namespace cli

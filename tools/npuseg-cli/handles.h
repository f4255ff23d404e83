// SPDX-License-Identifier: Apache-2.0
// Scoped ownership of library handles, and failures as the tool reports them.
#pragma once

#include <npuseg.h>

#include <memory>
#include <string>

namespace cli {

struct Releaser {
  void operator()(void* handle) const { npuseg_release(handle); }
};
using ModelPtr = std::unique_ptr<npuseg_sam3, Releaser>;
using EmbedderPtr = std::unique_ptr<npuseg_embeddinggemma2, Releaser>;
using ImagePtr = std::unique_ptr<npuseg_image, Releaser>;
using ResultPtr = std::unique_ptr<npuseg_result, Releaser>;

// Exit statuses of the tool's contract.
enum Exit : int {
  kDone = 0,
  kUsage = 1,
  kInput = 2,
  kModel = 3,
  kDevice = 4,
  kLimit = 5,
  kInterrupted = 130,
};

struct Failure {
  npuseg_status status = NPUSEG_OK;
  std::string message;
};

// The failure of the call that just returned `status` on this thread.
inline Failure failure(npuseg_status status) { return {status, npuseg_last_error()}; }

// What a failing call means for the exit status; `otherwise` is that of the step that failed.
int exit_of(npuseg_status status, int otherwise);

// "npuseg-cli: error: ..." on stderr, one line.
void report(const std::string& message);

}  // namespace cli

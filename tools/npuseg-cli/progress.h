// SPDX-License-Identifier: Apache-2.0
// Interruption by SIGINT and SIGTERM, and the progress line on a terminal.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace cli {

// From now on SIGINT and SIGTERM only set a flag that the progress callback looks at.
void catch_signals();
bool interrupted();

inline constexpr char kStopped[] =
    "stopped: npuseg-cli: interrupted by a signal; run it again, no partial file was left";

// While one lives nothing is being written, so that a signal may end the tool at once: for work
// that has no progress callback, such as decoding.
class NoWriting {
 public:
  // scratch: an empty folder that is removed first; the tool does not end while it is not empty.
  explicit NoWriting(const char* scratch = nullptr);
  ~NoWriting();
  NoWriting(const NoWriting&) = delete;
  NoWriting& operator=(const NoWriting&) = delete;
};

// The library's progress callback; user is a Progress.
int32_t on_progress(void* user, uint32_t stage, uint64_t done, uint64_t total);

// Shows stage, percent and time left when stderr is a terminal and the work takes over a second.
class Progress {
 public:
  explicit Progress(bool wanted);
  void begin(const std::string& what);
  // The next part of work that has begun.
  void next(const std::string& what);
  void update(uint32_t stage, uint64_t done, uint64_t total);
  void end();  // wipes the line

 private:
  using Clock = std::chrono::steady_clock;
  bool enabled_;
  bool shown_ = false;
  std::string what_;
  Clock::time_point begin_;
  Clock::time_point stage_begin_;
  Clock::time_point last_;
  uint32_t stage_ = 0;
};

// "vit", "text", ... of NPUSEG_STAGE_*.
const char* stage_name(uint32_t stage);

}  // namespace cli

// SPDX-License-Identifier: Apache-2.0
#include "progress.h"

#include <npuseg.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>

#include "handles.h"

namespace cli {

namespace {

volatile std::sig_atomic_t signalled = 0;

volatile std::sig_atomic_t may_end = 0;
const char* volatile scratch_folder = nullptr;

// Only what a signal handler may call.
extern "C" void on_signal(int) {
  signalled = 1;
  if (may_end == 0) return;
  if (scratch_folder != nullptr && ::rmdir(scratch_folder) != 0) return;
  constexpr char kHead[] = "npuseg-cli: error: ";
  const ssize_t head = ::write(STDERR_FILENO, kHead, sizeof kHead - 1);
  const ssize_t text = ::write(STDERR_FILENO, kStopped, sizeof kStopped - 1);
  const ssize_t line = ::write(STDERR_FILENO, "\n", 1);
  static_cast<void>(head + text + line);
  ::_exit(kInterrupted);
}

}  // namespace

void catch_signals() {
  struct sigaction action {};
  action.sa_handler = on_signal;
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  // A closed pipe is a write error with a message, not a silent death.
  std::signal(SIGPIPE, SIG_IGN);
}

NoWriting::NoWriting(const char* scratch) {
  scratch_folder = scratch;
  may_end = 1;
  if (signalled != 0) on_signal(0);  // came just before
}

NoWriting::~NoWriting() { may_end = 0; }

bool interrupted() { return signalled != 0; }

int32_t on_progress(void* user, uint32_t stage, uint64_t done, uint64_t total) {
  static_cast<Progress*>(user)->update(stage, done, total);
  return interrupted() ? 1 : 0;
}

Progress::Progress(bool wanted) : enabled_(wanted && isatty(STDERR_FILENO) == 1) { begin(""); }

void Progress::begin(const std::string& what) {
  begin_ = last_ = Clock::now();
  next(what);
}

void Progress::next(const std::string& what) {
  what_ = what;
  stage_begin_ = Clock::now();
  stage_ = 0;
}

void Progress::update(uint32_t stage, uint64_t done, uint64_t total) {
  if (!enabled_) return;
  const auto now = Clock::now();
  if (stage != stage_) {
    stage_ = stage;
    stage_begin_ = now;
  }
  constexpr auto kQuiet = std::chrono::seconds(1);
  constexpr auto kEvery = std::chrono::milliseconds(100);
  if (now - begin_ < kQuiet || now - last_ < kEvery) return;
  last_ = now;
  shown_ = true;
  const double spent = std::chrono::duration<double>(now - stage_begin_).count();
  if (done != 0 && total != 0) {
    const double part = static_cast<double>(done) / static_cast<double>(total);
    std::fprintf(stderr, "\r\033[K%s  %s %3.0f%%  %.0f s left", what_.c_str(), stage_name(stage),
                 100.0 * part, spent / part - spent);
  } else {
    std::fprintf(stderr, "\r\033[K%s  %s", what_.c_str(), stage_name(stage));
  }
  std::fflush(stderr);
}

void Progress::end() {
  if (!shown_) return;
  std::fputs("\r\033[K", stderr);
  shown_ = false;
}

const char* stage_name(uint32_t stage) {
  switch (stage) {
    case NPUSEG_STAGE_LOAD:
      return "load";
    case NPUSEG_STAGE_PREPROCESS:
      return "preprocess";
    case NPUSEG_STAGE_VIT:
      return "vit";
    case NPUSEG_STAGE_NECK:
      return "neck";
    case NPUSEG_STAGE_TEXT:
      return "text";
    case NPUSEG_STAGE_GEOMETRY:
      return "geometry";
    case NPUSEG_STAGE_DETR_ENCODER:
      return "detr_encoder";
    case NPUSEG_STAGE_DETR_DECODER:
      return "detr_decoder";
    case NPUSEG_STAGE_MASK_DECODER:
      return "mask_decoder";
    case NPUSEG_STAGE_POSTPROCESS:
      return "postprocess";
    default:
      return "stage";
  }
}

}  // namespace cli

// SPDX-License-Identifier: Apache-2.0
// How often stages run and how long they take.
#pragma once

#include <chrono>

#include "model/embeddinggemma2/embeddinggemma2.h"

namespace npuseg::embeddinggemma2 {

// Counts a run of a stage and its time, also when the stage fails.
class StageTimer {
 public:
  StageTimer(StageTimes* times, Stage stage)
      : times_(times), stage_(stage), begin_(std::chrono::steady_clock::now()) {}
  StageTimer(const StageTimer&) = delete;
  StageTimer& operator=(const StageTimer&) = delete;
  ~StageTimer() {
    if (times_ == nullptr) return;
    const auto spent = std::chrono::steady_clock::now() - begin_;
    const size_t index = static_cast<size_t>(stage_);
    times_->runs[index] += 1;
    times_->nanoseconds[index] +=
        static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(spent).count());
  }

 private:
  StageTimes* times_;
  Stage stage_;
  std::chrono::steady_clock::time_point begin_;
};

}  // namespace npuseg::embeddinggemma2

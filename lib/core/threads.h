// SPDX-License-Identifier: Apache-2.0
// The one thread pool of the process (OpenMP's, which packaged oneDNN uses too), cancellation and
// progress of one running call.
//
// Exactness rule: a loop body must depend on its index alone, never on the number of threads or on
// which thread runs it; then results are the same bytes for any thread count.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <type_traits>
#include <utility>

#include "core/status.h"

namespace npuseg::core {

// Threads that this process may use: its affinity mask, cut by the cgroup's CPU quota; at least 1.
int usable_threads();

// One running call of the library: how many threads it may use and how it is told to stop.
// The thread that made the call is the only one that runs user callbacks.
class Call {
 public:
  // Returns non-zero to stop the call. stage is a stable id, done counts towards total.
  using ProgressFn = int32_t (*)(void* user, uint32_t stage, uint64_t done, uint64_t total);

  struct Options {
    int threads = 0;  // 0: usable_threads()
    ProgressFn progress = nullptr;
    void* user = nullptr;
    int64_t deadline_ns = 0;  // from now; 0: none
  };

  Call() : Call(Options{}) {}
  explicit Call(const Options& options);
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  [[nodiscard]] int threads() const { return threads_; }

  // Begins a stage of `total` steps; total 0 means unknown.
  void begin_stage(uint32_t stage, uint64_t total);
  // Marks `count` more steps of the stage as done. Any thread.
  void advance(uint64_t count = 1) { done_.fetch_add(count, std::memory_order_relaxed); }

  // True as soon as the call is to stop. Any thread, a relaxed load.
  [[nodiscard]] bool stopped() const { return stop_.load(std::memory_order_relaxed); }

  // Runs the progress callback (at most every few milliseconds) and looks at the deadline. Does
  // nothing on other threads than the one that made the call.
  void poll();
  // poll() and, when stopped, CANCELLED or TIMEOUT.
  Status check();

  // A worker's failure (bad_alloc) becomes the call's.
  void fail_from_worker(Status status) { stop(std::move(status)); }

 private:
  void poll_now();
  void stop(Status why);

  const std::thread::id owner_ = std::this_thread::get_id();
  int threads_ = 1;
  ProgressFn progress_ = nullptr;
  void* user_ = nullptr;
  std::chrono::steady_clock::time_point deadline_{};
  bool has_deadline_ = false;
  std::chrono::steady_clock::time_point next_poll_{};
  uint32_t stage_ = 0;
  std::atomic<uint64_t> done_{0};
  uint64_t total_ = 0;
  std::atomic<bool> stop_{false};
  std::mutex why_mutex_;
  Status why_;  // guarded by why_mutex_; the first reason wins
};

namespace internal {
using LoopBody = void (*)(void* context, size_t index, int slot);
Status run_loop(Call& call, size_t count, LoopBody body, void* context, double nanoseconds);
constexpr double kLargeLoop = 1e9;
}  // namespace internal

// Runs body(index, slot) for every index in [0, count) on the call's threads, in any order. slot is
// in [0, call.threads()) and never used by two bodies at once: an index into per-thread scratch.
// Returns CANCELLED/TIMEOUT when the call was stopped (then some indices did not run). Calls made
// inside a body run serially. A body should take at most a few milliseconds. `nanoseconds` is a
// rough guess of the whole loop on one thread: a loop that costs no more than waking and joining
// the pool runs on the calling thread alone.
template <class Body>
Status parallel_for(Call& call, size_t count, Body&& body,
                    double nanoseconds = internal::kLargeLoop) {
  using Plain = std::remove_reference_t<Body>;
  return internal::run_loop(
      call, count,
      [](void* context, size_t index, int slot) { (*static_cast<Plain*>(context))(index, slot); },
      const_cast<void*>(static_cast<const void*>(&body)), nanoseconds);
}

}  // namespace npuseg::core

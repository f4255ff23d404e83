// SPDX-License-Identifier: Apache-2.0
#include "core/threads.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <thread>

#ifdef _OPENMP
#include <omp.h>
#endif

namespace npuseg::core {

namespace {

// CPUs granted by the cgroup (v2, or v1's quota files), rounded up; 0 when unlimited or unknown.
int cgroup_cpus() {
  long long quota = -1;
  long long period = 0;
  if (std::FILE* file = std::fopen("/sys/fs/cgroup/cpu.max", "re")) {
    char text[64] = {};
    if (std::fgets(text, sizeof text, file) != nullptr && std::strncmp(text, "max", 3) != 0) {
      if (std::sscanf(text, "%lld %lld", &quota, &period) != 2) quota = -1;
    }
    std::fclose(file);
  } else {
    if (std::FILE* q = std::fopen("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "re")) {
      if (std::fscanf(q, "%lld", &quota) != 1) quota = -1;
      std::fclose(q);
    }
    if (std::FILE* p = std::fopen("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "re")) {
      if (std::fscanf(p, "%lld", &period) != 1) period = 0;
      std::fclose(p);
    }
  }
  if (quota <= 0 || period <= 0) return 0;
  return static_cast<int>(std::min<long long>((quota + period - 1) / period, 1 << 16));
}

#ifdef _OPENMP
// OpenMP's workers do not survive fork(): in a child a parallel region would wait for ever, so a
// child runs every loop on its own thread (same results by the exactness rule).
std::atomic<pid_t> pool_owner{0};

bool pool_is_ours() {
  const pid_t self = getpid();
  pid_t owner = 0;
  return pool_owner.compare_exchange_strong(owner, self) || owner == self;
}

// Joining a pool of a dozen threads takes some ten microseconds, far more on a busy machine.
constexpr double kWorthThreads = 1e5;
#endif

// OpenMP ends the process when it cannot make a thread, so a call is not given more than there are
// processors for, or a few where these are fewer.
constexpr int kFew = 16;

constexpr auto kPollEvery = std::chrono::milliseconds(4);

}  // namespace

int usable_threads() {
  int count = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0) count = std::max(1, CPU_COUNT(&set));
  if (const int granted = cgroup_cpus(); granted > 0) count = std::min(count, granted);
  return count;
}

Call::Call(const Options& options)
    : threads_(options.threads > 0 ? std::min(options.threads, std::max(usable_threads(), kFew))
                                   : usable_threads()),
      progress_(options.progress),
      user_(options.user) {
  const auto now = std::chrono::steady_clock::now();
  next_poll_ = now;
  if (options.deadline_ns > 0) {
    has_deadline_ = true;
    deadline_ = now + std::chrono::nanoseconds(options.deadline_ns);
  }
}

void Call::begin_stage(uint32_t stage, uint64_t total) {
  stage_ = stage;
  total_ = total;
  done_.store(0, std::memory_order_relaxed);
  poll_now();
}

void Call::poll() {
  if (std::this_thread::get_id() != owner_) return;
  if (std::chrono::steady_clock::now() >= next_poll_) poll_now();
}

void Call::poll_now() {
  if (std::this_thread::get_id() != owner_) return;
  if (stopped()) return;
  const auto now = std::chrono::steady_clock::now();
  next_poll_ = now + kPollEvery;
  if (has_deadline_ && now >= deadline_) {
    stop(Status(Code::kTimeout, "call stopped: its deadline passed; allow more time"));
    return;
  }
  if (progress_ != nullptr) {
    const int32_t answer = progress_(user_, stage_, done_.load(std::memory_order_relaxed), total_);
    if (answer != 0) {
      stop(Status(Code::kCancelled,
                  format("call stopped: the progress callback returned %d", answer), answer));
    }
  }
}

Status Call::check() {
  poll();
  if (!stopped()) return {};
  const std::lock_guard lock(why_mutex_);
  return why_;
}

void Call::stop(Status why) {
  const std::lock_guard lock(why_mutex_);
  if (stopped()) return;
  why_ = std::move(why);
  stop_.store(true, std::memory_order_relaxed);
}

namespace internal {

Status run_loop(Call& call, size_t count, LoopBody body, void* context, double nanoseconds) {
  NPUSEG_RETURN_IF_ERROR(call.check());
  std::atomic<size_t> next{0};
  const auto work = [&](int slot, bool is_caller) noexcept {
    try {
      for (;;) {
        if (is_caller) call.poll();
        if (call.stopped()) return;
        const size_t index = next.fetch_add(1, std::memory_order_relaxed);
        if (index >= count) return;
        body(context, index, slot);
      }
    } catch (const std::bad_alloc&) {
      call.fail_from_worker(Status(Code::kOutOfMemory, "out of memory in a worker thread"));
    } catch (...) {
      call.fail_from_worker(Status(Code::kInternal, "unexpected exception in a worker thread"));
    }
  };
  const int threads = static_cast<int>(
      std::min<size_t>(static_cast<size_t>(call.threads()), std::max<size_t>(count, 1)));
#ifdef _OPENMP
  if (threads > 1 && nanoseconds > kWorthThreads && !omp_in_parallel() && pool_is_ours()) {
#pragma omp parallel num_threads(threads)
    work(omp_get_thread_num(), omp_get_thread_num() == 0);
    return call.check();
  }
#endif
  static_cast<void>(threads);
  static_cast<void>(nanoseconds);
  work(0, true);
  return call.check();
}

}  // namespace internal

}  // namespace npuseg::core

// SPDX-License-Identifier: Apache-2.0
// What the benchmarks share: clock, peak memory, and the GEMM peak that figures are compared with.
#pragma once

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <vector>

#include "compute/gemm.h"
#include "core/threads.h"

namespace npuseg::bench {

inline double now_ms() {
  return std::chrono::duration<double, std::milli>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

inline double peak_rss_mib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024.0;
}

// Now, mapped files included.
inline double rss_mib() {
  std::ifstream statm("/proc/self/statm");
  double size = 0;
  double resident = 0;
  statm >> size >> resident;
  return resident * static_cast<double>(sysconf(_SC_PAGESIZE)) / 1048576.0;
}

// GFLOP/s of independent single-threaded products on all threads of the call.
inline double gemm_peak(core::Call& call) {
  constexpr size_t kM = 648;
  constexpr size_t kN = 512;
  constexpr size_t kK = 1024;
  const size_t threads = static_cast<size_t>(call.threads());
  std::vector<float> a(threads * kM * kK, 0.5f);
  std::vector<float> b(threads * kN * kK, 0.25f);
  std::vector<float> c(threads * kM * kN);
  double best = 1e30;
  for (int round = 0; round < 8; ++round) {
    const double begin = now_ms();
    const auto status = core::parallel_for(call, threads, [&](size_t i, int) {
      for (int rep = 0; rep < 8; ++rep) {
        compute::sgemm(kM, kN, kK, 1.0f, a.data() + i * kM * kK, kK, b.data() + i * kN * kK, kK,
                       true, 0.0f, c.data() + i * kM * kN, kN);
      }
    });
    if (!status.ok()) return 0.0;
    best = std::min(best, now_ms() - begin);
  }
  return 2.0 * 8.0 * static_cast<double>(threads * kM * kN * kK) / best / 1e6;
}

}  // namespace npuseg::bench

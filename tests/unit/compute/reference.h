// SPDX-License-Identifier: Apache-2.0
// Support of this room's tests: random values, memory that ends at a guard page, the loop over all
// instruction sets of the machine, and the rounding constants that bounds are made of.
//
// Bounds: u = 2^-24 is the largest relative error of one float32 operation. A sum of n products in
// any order is off by at most n*u*S, S the sum of the absolute products; rounding errors behave
// like independent ones, so 6*sqrt(n)*u*S holds but for one sum in some 10^7 (Higham and Mary 2019,
// theorem 2.8 with lambda 6). sum_error is the smaller of the two.
#pragma once

#include <hwy/highway.h>
#include <hwy/targets.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "compute/gemm.h"
#include "core/threads.h"

namespace npuseg::test {

constexpr double kU = 1.0 / (1 << 24);

inline double sum_error(size_t n) {
  const auto terms = static_cast<double>(n);
  return std::min(terms, 6.0 * std::sqrt(terms)) * kU;
}

// xorshift64*: the same values on every machine.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15u + 1) {}
  uint64_t bits() {
    state_ ^= state_ >> 12;
    state_ ^= state_ << 25;
    state_ ^= state_ >> 27;
    return state_ * 0x2545F4914F6CDD1Du;
  }
  float uniform(float low, float high) {
    const auto unit = static_cast<float>(bits() >> 40) / static_cast<float>(1 << 24);
    return low + (high - low) * unit;
  }

 private:
  uint64_t state_;
};

// count values of T whose last byte is the last of a page; the page behind may not be touched.
template <class T>
class Guarded {
 public:
  explicit Guarded(size_t count) : count_(count) {
    const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    const size_t body = (count * sizeof(T) + page - 1) / page * page;
    bytes_ = body + page;
    void* map = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED) std::abort();
    map_ = static_cast<unsigned char*>(map);
    if (mprotect(map_ + body, page, PROT_NONE) != 0) std::abort();
    data_ = map_ + body - count * sizeof(T);
  }
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;
  ~Guarded() { munmap(map_, bytes_); }

  T* data() { return reinterpret_cast<T*>(data_); }
  const T* data() const { return reinterpret_cast<const T*>(data_); }
  T& operator[](size_t i) { return data()[i]; }
  const T& operator[](size_t i) const { return data()[i]; }
  size_t size() const { return count_; }

 private:
  size_t count_;
  size_t bytes_ = 0;
  unsigned char* map_ = nullptr;
  unsigned char* data_ = nullptr;
};

template <class Floats>
void fill(Floats& values, Random& random, float low = -1.0f, float high = 1.0f) {
  for (size_t i = 0; i < values.size(); ++i) values[i] = random.uniform(low, high);
}

inline core::ConstMatrixView view(const float* data, size_t rows, size_t cols, size_t stride = 0) {
  return {data, rows, cols, stride == 0 ? cols : stride};
}
inline core::MatrixView view(float* data, size_t rows, size_t cols, size_t stride = 0) {
  return {data, rows, cols, stride == 0 ? cols : stride};
}

inline core::TensorView tensor(const void* data, core::DType type, core::Shape shape) {
  return {data, type, shape};
}
inline core::TensorView tensor(const std::vector<float>& values, core::Shape shape) {
  return {values.data(), core::DType::kF32, shape};
}

// A call on a number of threads; 0: all.
struct OnThreads {
  explicit OnThreads(int threads = 0) : call(options(threads)) { exec.call = &call; }
  static core::Call::Options options(int threads) {
    core::Call::Options o;
    o.threads = threads;
    return o;
  }
  core::Call call;
  compute::Exec exec;
};

constexpr int kThreadCounts[] = {1, 2, 3, 7};

// Stops a call from its progress callback once `after_ms` have passed.
struct Stopper {
  static int32_t progress(void* user, uint32_t, uint64_t, uint64_t) {
    auto* self = static_cast<Stopper*>(user);
    return now() - self->begin >= self->after_ms ? 1 : 0;
  }
  static double now() {
    return std::chrono::duration<double, std::milli>(
               std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }
  core::Call::Options options() {
    core::Call::Options o;
    o.threads = 2;
    o.progress = progress;
    o.user = this;
    return o;
  }
  double begin = now();
  double after_ms = 10.0;
};

// Share of an output, filled with NaN before, that a stopped call has written. The tests compare
// work and not time with a bound: that holds on slow and busy machines and under sanitizers.
inline double written_share(const std::vector<float>& out) {
  const auto left = std::count_if(out.begin(), out.end(), [](float v) { return std::isnan(v); });
  return 1.0 - static_cast<double>(left) / static_cast<double>(out.size());
}

// Keeps the largest ratio of error to bound of a case.
class Worst {
 public:
  void add(double got, double want, double bound) {
    const double error = std::fabs(got - want);
    const double ratio = error == 0.0 ? 0.0 : error / bound;
    // Written so that a NaN is kept.
    if (!(ratio <= ratio_)) {
      ratio_ = ratio;
      got_ = got;
      want_ = want;
      bound_ = bound;
    }
  }
  bool within(const char* what) const {
    if (ratio_ <= 1.0) return true;
    std::fprintf(stderr, "%s: got %.9g, want %.9g, bound %.3g (%.3g of it)\n", what, got_, want_,
                 bound_, ratio_);
    return false;
  }
  double ratio() const { return ratio_; }

 private:
  double ratio_ = 0.0;
  double got_ = 0.0;
  double want_ = 0.0;
  double bound_ = 0.0;
};

// Runs `group` once for every instruction set that this machine and this build share. Sum of its
// results.
template <class Group>
int on_every_target(Group group) {
  int failed = 0;
  for (int64_t left = hwy::SupportedTargets() & HWY_TARGETS; left != 0; left &= left - 1) {
    const int64_t target = left & -left;
    hwy::SetSupportedTargetsForTest(target);
    std::fprintf(stderr, "target %s\n", hwy::TargetName(target));
    failed += group();
  }
  hwy::SetSupportedTargetsForTest(0);
  return failed;
}

}  // namespace npuseg::test

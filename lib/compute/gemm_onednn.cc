// SPDX-License-Identifier: Apache-2.0
// The product by oneDNN, always on the calling thread: our tiles are the only parallelism.
#include <oneapi/dnnl/dnnl.h>

#include <array>
#include <cstdio>
#include <new>

#include "compute/gemm_backend.h"

#ifdef _OPENMP
#include <omp.h>
#endif

namespace npuseg::compute {

namespace {

// oneDNN asks OpenMP how many threads it may use; outside of a parallel region that is the whole
// pool, inside it is one. Other thread counts may cut the sum at other places.
class OneThread {
 public:
  OneThread() {
#ifdef _OPENMP
    if (!omp_in_parallel()) {
      before_ = omp_get_max_threads();
      if (before_ != 1) omp_set_num_threads(1);
    }
#endif
  }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;
  ~OneThread() {
#ifdef _OPENMP
    if (before_ > 1) omp_set_num_threads(before_);
#endif
  }

 private:
  int before_ = 0;
};

}  // namespace

void backend_sgemm(size_t m, size_t n, size_t k, float alpha, const float* a, size_t a_stride,
                   const float* b, size_t b_stride, bool b_is_transposed, float beta, float* c,
                   size_t c_stride) {
  const OneThread one;
  const auto dim = [](size_t value) { return static_cast<dnnl_dim_t>(value); };
  const dnnl_status_t status =
      dnnl_sgemm('N', b_is_transposed ? 'T' : 'N', dim(m), dim(n), dim(k), alpha, a, dim(a_stride),
                 b, dim(b_stride), beta, c, dim(c_stride));
  // The arguments are valid by construction, so what is left is memory for packing.
  if (status != dnnl_success) throw std::bad_alloc();
}

const char* backend_name() {
  using Name = std::array<char, 40>;
  static const Name name = [] {
    Name text{};
    const dnnl_version_t* version = dnnl_version();
    std::snprintf(text.data(), text.size(), "oneDNN %d.%d.%d", version->major, version->minor,
                  version->patch);
    return text;
  }();
  return name.data();
}

void limit_gemm_isa(const std::string& limit) {
  if (limit == "scalar" || limit == "sse4") {
    dnnl_set_max_cpu_isa(dnnl_cpu_isa_sse41);
  } else if (limit == "avx2") {
    dnnl_set_max_cpu_isa(dnnl_cpu_isa_avx2);
  } else if (limit == "avx512") {
    dnnl_set_max_cpu_isa(dnnl_cpu_isa_avx512_core);
  }
}

}  // namespace npuseg::compute

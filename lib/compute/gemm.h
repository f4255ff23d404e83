// SPDX-License-Identifier: Apache-2.0
// Matrix products with fused epilogues: linear layers.
//
// Numeric contract: float32 products and sums; weights of F16/BF16/I8 are widened exactly first. An
// output value is one chain of multiply-adds over the inputs in order (fused where the instruction
// set is), so a row has the same bits whatever other rows there are, how many, and on how many
// threads.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/buffer.h"
#include "core/tensor_view.h"
#include "core/threads.h"

namespace npuseg::compute {

enum class Activation : uint8_t {
  kNone,
  kRelu,
  kGelu,       // exact: x/2 * (1 + erf(x/sqrt 2))
  kQuickGelu,  // x * sigmoid(1.702 x)
  kGeluTanh,
  kSilu,
};

// What happens to a tile of x*W^T while it is still in cache: + bias, activation, + residual.
struct Epilogue {
  core::TensorView bias{};  // [N] any float dtype; empty: none
  Activation activation = Activation::kNone;
  core::ConstMatrixView residual{};  // [M, N], added after the activation; may alias `out`
  // Row of `out` (and of residual) that row m of the product goes to; -1 drops the row. Null: m.
  const int32_t* out_rows = nullptr;
};

// Everything a compute call needs besides its operands. budget may be null.
struct Exec {
  core::Call* call = nullptr;
  core::MemoryBudgetPtr budget;
};

// out[m, :] = epilogue(x[m, :] * weight^T). x [M,K]; weight [N,K] (trailing dims of 1 or the
// flattened dims behind the first count as K); out [M,N]. out must not alias x.
core::Status linear(const Exec& exec, core::ConstMatrixView x, const core::TensorView& weight,
                    core::MatrixView out, const Epilogue& epilogue = {});

// The same with weight already float32, [N, K] rows of `weight`.
core::Status linear(const Exec& exec, core::ConstMatrixView x, core::ConstMatrixView weight,
                    core::MatrixView out, const Epilogue& epilogue = {});

// A weight [N, K] in a form that its holder alone can read.
class WeightReader {
 public:
  virtual ~WeightReader() = default;
  // Inputs first .. first + depth of rows first_row .. as float32, row i from out + i * stride; any
  // thread. first is a multiple of 64. False: all are zero, and `out` was not written.
  virtual bool read(size_t first_row, size_t rows, size_t first, size_t depth, float* out,
                    size_t stride) const = 0;

 protected:
  WeightReader() = default;
  WeightReader(const WeightReader&) = default;
  WeightReader& operator=(const WeightReader&) = default;
};

// The same with a weight of n rows that is read once for every few hundred rows of x.
core::Status linear(const Exec& exec, core::ConstMatrixView x, const WeightReader& weight, size_t n,
                    core::MatrixView out, const Epilogue& epilogue = {});

// C [M,N] = alpha * A op(B) + beta * C on the calling thread, dense row-major with row strides.
// b_is_transposed: B is [N,K], else [K,N]. The building block of all of the above.
void sgemm(size_t m, size_t n, size_t k, float alpha, const float* a, size_t a_stride,
           const float* b, size_t b_stride, bool b_is_transposed, float beta, float* c,
           size_t c_stride);

// "oneDNN 2.6.3 (avx2)" or "Highway (AVX2)": for info and bug reports.
const char* gemm_backend();

}  // namespace npuseg::compute

// SPDX-License-Identifier: Apache-2.0
#include "compute/gemm.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "compute/elementwise.h"
#include "compute/gemm_backend.h"
#include "compute/simd_kernels.h"

namespace npuseg::compute {

using core::ConstMatrixView;
using core::MatrixView;
using core::Status;
using core::TensorView;

namespace {

// Tiles are a function of the shapes alone. About 0.7 GFLOP (10 ms of one core here) at most, so
// that a call can be stopped soon; enough of them for a dozen cores; and large enough that packing
// costs a few percent.
struct Tiles {
  size_t rows;
  size_t cols;
};

size_t even_split(size_t total, size_t largest, size_t multiple) {
  const size_t parts = std::max<size_t>(1, (total + largest - 1) / largest);
  const size_t part = (total + parts - 1) / parts;
  return (part + multiple - 1) / multiple * multiple;
}

Tiles choose_tiles(size_t m, size_t n, size_t k) {
  constexpr double kMostFlops = 0.72e9;
  constexpr size_t kEnoughTiles = 24;
  size_t rows = 648;
  size_t cols = 512;
  const auto flops = [&] {
    return 2.0 * static_cast<double>(std::min(rows, m)) * static_cast<double>(std::min(cols, n)) *
           static_cast<double>(k);
  };
  while (flops() > kMostFlops && (rows > 216 || cols > 128)) {
    if (rows > 216) {
      rows /= 2;
    } else {
      cols /= 2;
    }
  }
  const auto count = [&] { return ((m + rows - 1) / rows) * ((n + cols - 1) / cols); };
  while (count() < kEnoughTiles && cols > 64) cols /= 2;
  return {even_split(m, rows, 8), even_split(n, cols, 16)};
}

// At some 50 GFLOP/s of one core.
double product_nanoseconds(size_t m, size_t n, size_t k) {
  return static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k) / 25.0;
}

bool usable_in_place(const TensorView& tensor) {
  return tensor.dtype == core::DType::kF32 &&
         reinterpret_cast<uintptr_t>(tensor.data) % alignof(float) == 0;
}

// Where a tile's rows of the weight come from: the file's floats as they are, or widened copies in
// the worker's scratch.
struct WeightRows {
  ConstMatrixView plain;
  TensorView stored;  // empty: plain is used
};

struct Scratch {
  std::vector<float> weight;
  std::vector<float> product;
  size_t widened_first = SIZE_MAX;
};

void write_rows(const Epilogue& epilogue, const float* bias, const float* product,
                size_t product_stride, size_t first_row, size_t rows, size_t first_col, size_t cols,
                MatrixView out) {
  for (size_t r = 0; r < rows; ++r) {
    size_t row = first_row + r;
    if (epilogue.out_rows != nullptr) {
      const int32_t target = epilogue.out_rows[row];
      if (target < 0) continue;
      row = static_cast<size_t>(target);
    }
    const float* residual =
        epilogue.residual.data == nullptr ? nullptr : epilogue.residual.row(row) + first_col;
    epilogue_row(product + r * product_stride, bias == nullptr ? nullptr : bias + first_col,
                 epilogue.activation, residual, out.row(row) + first_col, cols);
  }
}

Status run_linear(const Exec& exec, ConstMatrixView x, const WeightRows& weight, size_t n,
                  MatrixView out, const Epilogue& epilogue) {
  const size_t m = x.rows;
  const size_t k = x.cols;
  if (m == 0 || n == 0) return exec.call->check();
  std::vector<float> bias;
  if (!epilogue.bias.empty()) {
    bias.resize(n);
    widen(epilogue.bias, 0, n, bias.data());
  }
  const float* bias_data = bias.empty() ? nullptr : bias.data();
  const Tiles tile = choose_tiles(m, n, k);
  const size_t down = (m + tile.rows - 1) / tile.rows;
  const size_t across = (n + tile.cols - 1) / tile.cols;
  const bool direct = epilogue.residual.data == nullptr && epilogue.out_rows == nullptr;
  const bool plain_copy =
      direct && bias_data == nullptr && epilogue.activation == Activation::kNone;
  std::vector<Scratch> scratch(static_cast<size_t>(exec.call->threads()));
  return core::parallel_for(
      *exec.call, down * across,
      [&](size_t index, int slot) {
        Scratch& own = scratch[static_cast<size_t>(slot)];
        // Neighbouring indices share the columns, so a widened block serves several tiles.
        const size_t first_row = (index % down) * tile.rows;
        const size_t first_col = (index / down) * tile.cols;
        const size_t rows = std::min(tile.rows, m - first_row);
        const size_t cols = std::min(tile.cols, n - first_col);
        const float* b;
        size_t b_stride;
        if (weight.stored.empty()) {
          b = weight.plain.row(first_col);
          b_stride = weight.plain.stride;
        } else {
          if (own.widened_first != first_col) {
            own.weight.resize(tile.cols * k);
            widen(weight.stored, first_col * k, cols * k, own.weight.data());
            own.widened_first = first_col;
          }
          b = own.weight.data();
          b_stride = k;
        }
        float* c = out.row(first_row) + first_col;
        size_t c_stride = out.stride;
        if (!direct) {
          own.product.resize(tile.rows * tile.cols);
          c = own.product.data();
          c_stride = tile.cols;
        }
        sgemm(rows, cols, k, 1.0f, x.row(first_row), x.stride, b, b_stride, true, 0.0f, c,
              c_stride);
        if (!plain_copy) {
          write_rows(epilogue, bias_data, c, c_stride, first_row, rows, first_col, cols, out);
        }
      },
      product_nanoseconds(m, n, k));
}

}  // namespace

void sgemm(size_t m, size_t n, size_t k, float alpha, const float* a, size_t a_stride,
           const float* b, size_t b_stride, bool b_is_transposed, float beta, float* c,
           size_t c_stride) {
  // BLAS wants leading dimensions of at least the row length, also where there is one row.
  const size_t b_cols = b_is_transposed ? k : n;
  backend_sgemm(m, n, k, alpha, a, std::max(a_stride, m == 1 ? k : a_stride), b,
                std::max(b_stride, b_cols), b_is_transposed, beta, c,
                std::max(c_stride, m == 1 ? n : c_stride));
}

Status linear(const Exec& exec, ConstMatrixView x, const TensorView& weight, MatrixView out,
              const Epilogue& epilogue) {
  const size_t n = weight.shape[0];
  WeightRows rows;
  if (usable_in_place(weight)) {
    rows.plain = {static_cast<const float*>(weight.data), n, x.cols, x.cols};
  } else {
    rows.stored = weight;
  }
  return run_linear(exec, x, rows, n, out, epilogue);
}

Status linear(const Exec& exec, ConstMatrixView x, ConstMatrixView weight, MatrixView out,
              const Epilogue& epilogue) {
  return run_linear(exec, x, WeightRows{weight, {}}, weight.rows, out, epilogue);
}

const char* gemm_backend() { return backend_name(); }

}  // namespace npuseg::compute

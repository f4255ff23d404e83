// SPDX-License-Identifier: Apache-2.0
#include "compute/row_linear.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "compute/elementwise.h"
#include "compute/line_floats.h"
#include "compute/panel_kernels.h"
#include "compute/simd_kernels.h"

namespace npuseg::compute {

using core::ConstMatrixView;
using core::MatrixView;
using core::Status;
using core::TensorView;

namespace {

// A block of the weight's columns over this many inputs, packed, takes a quarter of a small L2; its
// sums as much again.
constexpr size_t kDepth = 256;
constexpr size_t kRowBlock = 384;
constexpr size_t kColBlock = 128;

struct Scratch {
  LineFloats widened;  // [panel, kDepth], rows of the weight
  LineFloats packed;   // [columns of the block / panel][kDepth][panel]
  LineFloats product;  // [rows of the block, columns of the block in whole panels]
};

struct Block {
  size_t first_row;
  size_t rows;
  size_t first_col;
  size_t cols;
};

bool usable_in_place(const TensorView& tensor) {
  return tensor.dtype == core::DType::kF32 &&
         reinterpret_cast<uintptr_t>(tensor.data) % alignof(float) == 0;
}

// Inputs first .. first + depth of the weight's rows of the block as panels.
void pack_weight(const TensorView& weight, size_t k, const Block& block, size_t first, size_t depth,
                 Scratch* own, float* packed) {
  if (usable_in_place(weight)) {
    pack_transposed(static_cast<const float*>(weight.data) + block.first_col * k + first, k,
                    block.cols, depth, packed);
    return;
  }
  const size_t panel = panel_columns();
  float* widened = own->widened.get(panel * depth);
  for (size_t c = 0; c < block.cols; c += panel) {
    const size_t count = std::min(panel, block.cols - c);
    for (size_t i = 0; i < count; ++i) {
      widen(weight, (block.first_col + c + i) * k + first, depth, widened + i * depth);
    }
    pack_transposed(widened, depth, count, depth, packed + c * depth);
  }
}

// Rows of x times rows of the weight, [rows of the block, width].
const float* multiply_block(ConstMatrixView x, const TensorView& weight, const Block& block,
                            size_t width, Scratch* own) {
  const size_t k = x.cols;
  const size_t panel = panel_columns();
  const size_t strip = strip_height();
  float* product = own->product.get(block.rows * width);
  float* packed = own->packed.get(width * std::min(k, kDepth));
  for (size_t first = 0; first < k; first += kDepth) {
    const size_t depth = std::min(kDepth, k - first);
    pack_weight(weight, k, block, first, depth, own, packed);
    for (size_t r = 0; r < block.rows; r += strip) {
      multiply_strip(std::min(strip, block.rows - r), x.row(block.first_row + r) + first, x.stride,
                     packed, width / panel, depth, first != 0, product + r * width, width);
    }
  }
  return product;
}

void write_block(const Epilogue& epilogue, const float* bias, const Block& block,
                 const float* product, size_t width, MatrixView out) {
  for (size_t r = 0; r < block.rows; ++r) {
    size_t row = block.first_row + r;
    if (epilogue.out_rows != nullptr) {
      const int32_t target = epilogue.out_rows[row];
      if (target < 0) continue;
      row = static_cast<size_t>(target);
    }
    const float* residual =
        epilogue.residual.data == nullptr ? nullptr : epilogue.residual.row(row) + block.first_col;
    epilogue_row(product + r * width, bias == nullptr ? nullptr : bias + block.first_col,
                 epilogue.activation, residual, out.row(row) + block.first_col, block.cols);
  }
}

}  // namespace

Status linear_rows(const Exec& exec, ConstMatrixView x, const TensorView& weight, MatrixView out,
                   const Epilogue& epilogue) {
  const size_t m = x.rows;
  const size_t n = weight.shape[0];
  if (m == 0 || n == 0) return exec.call->check();
  if (x.cols == 0) {
    for (size_t r = 0; r < m; ++r) std::fill_n(out.row(r), n, 0.0f);
    return exec.call->check();
  }
  std::vector<float> bias;
  if (!epilogue.bias.empty()) {
    bias.resize(n);
    widen(epilogue.bias, 0, n, bias.data());
  }
  // Enough blocks for every thread to get some, also where there are few rows.
  const auto threads = static_cast<size_t>(exec.call->threads());
  size_t cols = kColBlock;
  const size_t down = (m + kRowBlock - 1) / kRowBlock;
  while (cols > 16 && down * ((n + cols - 1) / cols) < 4 * threads) cols /= 2;
  const size_t rows = (m + down - 1) / down;
  const size_t across = (n + cols - 1) / cols;
  const size_t panel = panel_columns();
  std::vector<Scratch> scratch(threads);
  const double nanoseconds =
      static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(x.cols) / 20.0;
  return core::parallel_for(
      *exec.call, down * across,
      [&](size_t index, int slot) {
        Block block{};
        block.first_row = index % down * rows;
        if (block.first_row >= m) return;
        block.rows = std::min(rows, m - block.first_row);
        block.first_col = index / down * cols;
        block.cols = std::min(cols, n - block.first_col);
        Scratch& own = scratch[static_cast<size_t>(slot)];
        const size_t width = (block.cols + panel - 1) / panel * panel;
        const float* product = multiply_block(x, weight, block, width, &own);
        write_block(epilogue, bias.empty() ? nullptr : bias.data(), block, product, width, out);
      },
      nanoseconds);
}

}  // namespace npuseg::compute

// SPDX-License-Identifier: Apache-2.0
#include "compute/row_linear.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "compute/elementwise.h"
#include "compute/simd_kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "compute/row_linear.cc"
#include <hwy/foreach_target.h>
// Behind foreach_target.
#include <hwy/cache_control.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace npuseg::compute {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Sums of kRows x kCols dot products of length k. The registers of AVX2 hold twelve of them.
template <size_t kRows, size_t kCols>
HWY_INLINE void DotTile(const float* a, size_t a_stride, const float* b, size_t b_stride, size_t k,
                        float* sums, size_t sums_stride, bool add) {
  const hn::ScalableTag<float> d;
  using V = hn::Vec<decltype(d)>;
  const size_t lanes = hn::Lanes(d);
  V acc[kRows][kCols];
  for (size_t r = 0; r < kRows; ++r) {
    for (size_t c = 0; c < kCols; ++c) acc[r][c] = hn::Zero(d);
  }
  size_t i = 0;
  for (; i + lanes <= k; i += lanes) {
    V bv[kCols];
    for (size_t c = 0; c < kCols; ++c) bv[c] = hn::LoadU(d, b + c * b_stride + i);
    for (size_t r = 0; r < kRows; ++r) {
      const V av = hn::LoadU(d, a + r * a_stride + i);
      for (size_t c = 0; c < kCols; ++c) acc[r][c] = hn::MulAdd(av, bv[c], acc[r][c]);
    }
  }
  if (i < k) {
    HWY_ALIGN float part[HWY_MAX_BYTES / sizeof(float)] = {};
    const size_t bytes = (k - i) * sizeof(float);
    V bv[kCols];
    for (size_t c = 0; c < kCols; ++c) {
      std::memcpy(part, b + c * b_stride + i, bytes);
      bv[c] = hn::Load(d, part);
    }
    for (size_t r = 0; r < kRows; ++r) {
      std::memcpy(part, a + r * a_stride + i, bytes);
      const V av = hn::Load(d, part);
      for (size_t c = 0; c < kCols; ++c) acc[r][c] = hn::MulAdd(av, bv[c], acc[r][c]);
    }
  }
  for (size_t r = 0; r < kRows; ++r) {
    for (size_t c = 0; c < kCols; ++c) {
      const float sum = hn::GetLane(hn::SumOfLanes(d, acc[r][c]));
      float& to = sums[r * sums_stride + c];
      to = add ? to + sum : sum;
    }
  }
}

// Up to four columns.
template <size_t kRows>
HWY_INLINE void DotColumns(const float* a, size_t a_stride, const float* b, size_t b_stride,
                           size_t cols, size_t k, float* sums, size_t sums_stride, bool add) {
  constexpr size_t kCols = kRows > 3 ? 2 : 4;
  size_t c = 0;
  for (; c + kCols <= cols; c += kCols) {
    DotTile<kRows, kCols>(a, a_stride, b + c * b_stride, b_stride, k, sums + c, sums_stride, add);
  }
  for (; c < cols; ++c) {
    DotTile<kRows, 1>(a, a_stride, b + c * b_stride, b_stride, k, sums + c, sums_stride, add);
  }
}

HWY_INLINE void DotRows(size_t rows, const float* a, size_t a_stride, const float* b,
                        size_t b_stride, size_t cols, size_t k, float* sums, size_t sums_stride,
                        bool add) {
  switch (rows) {
    case 0:
      return;
    case 1:
      return DotColumns<1>(a, a_stride, b, b_stride, cols, k, sums, sums_stride, add);
    case 2:
      return DotColumns<2>(a, a_stride, b, b_stride, cols, k, sums, sums_stride, add);
    case 3:
      return DotColumns<3>(a, a_stride, b, b_stride, cols, k, sums, sums_stride, add);
    case 4:
      return DotColumns<4>(a, a_stride, b, b_stride, cols, k, sums, sums_stride, add);
    case 5:
      return DotColumns<5>(a, a_stride, b, b_stride, cols, k, sums, sums_stride, add);
    default:
      return DotColumns<6>(a, a_stride, b, b_stride, cols, k, sums, sums_stride, add);
  }
}

// Up to twelve rows: two tiles share every group of columns while it is in L1. next_rows: how many
// rows behind these come after them; they are fetched meanwhile.
void DotBlock(size_t rows, const float* a, size_t a_stride, const float* b, size_t b_stride,
              size_t cols, size_t k, float* sums, size_t sums_stride, bool add, size_t next_rows) {
  constexpr size_t kGroup = 4;
  constexpr size_t kLine = 16;  // floats
  const size_t upper = rows > 6 ? (rows + 1) / 2 : rows;
  const size_t groups = (cols + kGroup - 1) / kGroup;
  const size_t step = (k / kLine + groups) / groups * kLine;
  for (size_t c = 0; c < cols; c += kGroup) {
    const size_t count = HWY_MIN(kGroup, cols - c);
    const size_t first = c / kGroup * step;
    for (size_t r = rows; r < rows + next_rows; ++r) {
      for (size_t i = first; i < HWY_MIN(first + step, k); i += kLine) {
        hwy::Prefetch(a + r * a_stride + i);
      }
    }
    DotRows(upper, a, a_stride, b + c * b_stride, b_stride, count, k, sums + c, sums_stride, add);
    DotRows(rows - upper, a + upper * a_stride, a_stride, b + c * b_stride, b_stride, count, k,
            sums + upper * sums_stride + c, sums_stride, add);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace npuseg::compute
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace npuseg::compute {

HWY_EXPORT(DotBlock);

using core::ConstMatrixView;
using core::MatrixView;
using core::Status;
using core::TensorView;

namespace {

constexpr size_t kMostTileRows = 12;
// Rows of two tiles over this many inputs stay in L1, a block of the weight's rows in L2.
constexpr size_t kDepth = 512;
constexpr size_t kRowBlock = 384;
constexpr size_t kColBlock = 128;

// Floats that begin at a cache line: a vector that crosses one is two loads.
class LineFloats {
 public:
  float* resize(size_t count) {
    store_.resize(count + kLine);
    const auto address = reinterpret_cast<uintptr_t>(store_.data());
    return store_.data() +
           (kLine * sizeof(float) - address % (kLine * sizeof(float))) / sizeof(float) % kLine;
  }

 private:
  static constexpr size_t kLine = 16;
  std::vector<float> store_;
};

struct Scratch {
  LineFloats weight;   // [columns of the block, kDepth]
  LineFloats product;  // [rows of the block, columns of the block]
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

// Rows of x times rows of the weight, [rows of the block, columns of the block].
const float* multiply_block(ConstMatrixView x, const TensorView& weight, const Block& block,
                            Scratch* own) {
  const size_t k = x.cols;
  const bool in_place = usable_in_place(weight);
  float* product = own->product.resize(block.rows * block.cols);
  float* widened = in_place ? nullptr : own->weight.resize(block.cols * std::min(k, kDepth));
  const size_t tiles = (block.rows + kMostTileRows - 1) / kMostTileRows;
  for (size_t first = 0; first < k; first += kDepth) {
    const size_t depth = std::min(kDepth, k - first);
    const float* b = widened;
    size_t b_stride = depth;
    if (in_place) {
      b = static_cast<const float*>(weight.data) + block.first_col * k + first;
      b_stride = k;
    } else {
      for (size_t c = 0; c < block.cols; ++c) {
        widen(weight, (block.first_col + c) * k + first, depth, widened + c * depth);
      }
    }
    size_t row = 0;
    for (size_t t = 0; t < tiles; ++t) {
      const size_t rows = block.rows / tiles + (t < block.rows % tiles ? 1 : 0);
      const size_t next = row + rows;
      const size_t next_rows = t + 1 < tiles ? std::min(rows, block.rows - next) : 0;
      HWY_DYNAMIC_DISPATCH(DotBlock)
      (rows, x.row(block.first_row + row) + first, x.stride, b, b_stride, block.cols, depth,
       product + row * block.cols, block.cols, first != 0, next_rows);
      row = next;
    }
  }
  return product;
}

void write_block(const Epilogue& epilogue, const float* bias, const Block& block,
                 const float* product, MatrixView out) {
  for (size_t r = 0; r < block.rows; ++r) {
    size_t row = block.first_row + r;
    if (epilogue.out_rows != nullptr) {
      const int32_t target = epilogue.out_rows[row];
      if (target < 0) continue;
      row = static_cast<size_t>(target);
    }
    const float* residual =
        epilogue.residual.data == nullptr ? nullptr : epilogue.residual.row(row) + block.first_col;
    epilogue_row(product + r * block.cols, bias == nullptr ? nullptr : bias + block.first_col,
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
        const float* product = multiply_block(x, weight, block, &own);
        write_block(epilogue, bias.empty() ? nullptr : bias.data(), block, product, out);
      },
      nanoseconds);
}

}  // namespace npuseg::compute
#endif

// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <vector>

#include "compute/elementwise.h"
#include "compute/gemm.h"
#include "compute/line_floats.h"
#include "compute/panel_kernels.h"
#include "compute/simd_kernels.h"

namespace npuseg::compute {

using core::ConstMatrixView;
using core::MatrixView;
using core::Status;
using core::TensorView;

namespace {

// A block of the weight's columns over this many inputs, packed, takes a quarter of a small L2, its
// sums half of it; the packing serves so many rows that it costs two percent.
constexpr size_t kDepth = 384;
// Sums this short cost little anyway, and shorter blocks have smaller errors.
constexpr size_t kShortSum = 192;
constexpr size_t kShortDepth = 32;

size_t depth_of(size_t k) { return k <= kShortSum ? kShortDepth : kDepth; }

constexpr size_t kRowBlock = 768;
constexpr size_t kColBlock = 96;
// Up to here reading the weight is not hidden behind the product by itself.
constexpr size_t kFewRows = 48;

struct Scratch {
  LineFloats widened;  // [panel or columns of the block, depth], rows of the weight
  LineFloats packed;   // [columns of the block / panel][depth][panel]
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

// Where the rows of the weight come from: floats used in place, a reader, or stored values that are
// widened.
struct WeightRows {
  const float* plain = nullptr;
  size_t stride = 0;
  const WeightReader* reader = nullptr;
  TensorView stored{};
};

// Inputs first .. first + depth of the weight's rows of the block as panels; false when all are
// zero.
bool pack_weight(const WeightRows& weight, size_t k, const Block& block, size_t first, size_t depth,
                 Scratch* own, float* packed) {
  if (weight.plain != nullptr) {
    pack_transposed(weight.plain + block.first_col * weight.stride + first, weight.stride,
                    block.cols, depth, packed);
    return true;
  }
  const size_t panel = panel_columns();
  if (weight.reader != nullptr) {
    float* rows = own->widened.get(block.cols * depth);
    if (!weight.reader->read(block.first_col, block.cols, first, depth, rows, depth)) return false;
    pack_transposed(rows, depth, block.cols, depth, packed);
    return true;
  }
  float* widened = own->widened.get(panel * depth);
  for (size_t c = 0; c < block.cols; c += panel) {
    const size_t count = std::min(panel, block.cols - c);
    for (size_t i = 0; i < count; ++i) {
      widen(weight.stored, (block.first_col + c + i) * k + first, depth, widened + i * depth);
    }
    pack_transposed(widened, depth, count, depth, packed + c * depth);
  }
  return true;
}

// Rows of x times rows of the weight, [rows of the block, width]; null when the call was stopped.
const float* multiply_block(core::Call& call, ConstMatrixView x, const WeightRows& weight,
                            const Block& block, size_t width, Scratch* own) {
  const size_t k = x.cols;
  const size_t most = depth_of(k);
  const size_t panel = panel_columns();
  const size_t strip = strip_height();
  float* product = own->product.get(block.rows * width);
  float* packed = own->packed.get(width * most);
  if (k == 0) std::fill_n(product, block.rows * width, 0.0f);
  for (size_t first = 0; first < k; first += most) {
    call.poll();
    if (call.stopped()) return nullptr;
    const size_t depth = std::min(most, k - first);
    if (!pack_weight(weight, k, block, first, depth, own, packed)) {
      if (first == 0) std::fill_n(product, block.rows * width, 0.0f);
      continue;
    }
    for (size_t r = 0; r < block.rows; r += strip) {
      multiply_strip(std::min(strip, block.rows - r), x.row(block.first_row + r) + first, x.stride,
                     packed, width / panel, depth, first != 0, product + r * width, width);
    }
  }
  return product;
}

// Adds where the stored values of inputs first .. first + depth of `count` rows of the weight lie.
void lines_of(const WeightRows& weight, size_t k, size_t first_row, size_t count, size_t first,
              size_t depth, std::vector<const float*>* lines) {
  constexpr size_t kLine = 64;
  const bool plain = weight.plain != nullptr;
  const size_t size = plain ? sizeof(float) : core::dtype_bytes(weight.stored.dtype);
  const size_t stride = plain ? weight.stride : k;
  const auto* base = plain ? reinterpret_cast<const unsigned char*>(weight.plain)
                           : static_cast<const unsigned char*>(weight.stored.data);
  for (size_t r = first_row; r < first_row + count; ++r) {
    const unsigned char* from = base + (r * stride + first) * size;
    for (size_t i = 0; i < depth * size; i += kLine) {
      lines->push_back(reinterpret_cast<const float*>(from + i));
    }
  }
}

// multiply_block for so few rows that reading the weight from memory takes as long as the product:
// the next panel's part of it is fetched while a panel is multiplied. Not for readers, whose work
// is their own.
const float* multiply_few_rows(core::Call& call, ConstMatrixView x, const WeightRows& weight,
                               const Block& block, size_t width, Scratch* own) {
  const size_t k = x.cols;
  const size_t most = depth_of(k);
  const size_t panel = panel_columns();
  float* product = own->product.get(block.rows * width);
  float* packed = own->packed.get(panel * most);
  if (k == 0) std::fill_n(product, block.rows * width, 0.0f);
  std::vector<const float*> ahead;
  for (size_t c = 0; c < block.cols; c += panel) {
    call.poll();
    if (call.stopped()) return nullptr;
    Block one = block;
    one.first_col += c;
    one.cols = std::min(panel, block.cols - c);
    const size_t next = std::min(block.cols, c + panel);
    for (size_t first = 0; first < k; first += most) {
      const size_t depth = std::min(most, k - first);
      pack_weight(weight, k, one, first, depth, own, packed);
      ahead.clear();
      lines_of(weight, k, block.first_col + next, std::min(panel, block.cols - next), first, depth,
               &ahead);
      multiply_panel(block.rows, x.row(block.first_row) + first, x.stride, packed, depth,
                     first != 0, product + c, width, ahead.data(), ahead.size());
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

size_t round_up(size_t value, size_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

Status run(const Exec& exec, ConstMatrixView x, const WeightRows& weight, size_t n, MatrixView out,
           const Epilogue& epilogue) {
  const size_t m = x.rows;
  if (m == 0 || n == 0) return exec.call->check();
  std::vector<float> bias;
  if (!epilogue.bias.empty()) {
    bias.resize(n);
    widen(epilogue.bias, 0, n, bias.data());
  }
  // Enough blocks for every thread to get some, also where there are few rows. A row's sums do not
  // depend on the cut, so it may follow the thread count.
  const auto threads = static_cast<size_t>(exec.call->threads());
  const size_t panel = panel_columns();
  const size_t down = (m + kRowBlock - 1) / kRowBlock;
  const size_t rows = round_up((m + down - 1) / down, strip_height());
  size_t across = (n + kColBlock - 1) / kColBlock;
  across = std::max(across, (4 * threads + down - 1) / down);
  const size_t cols = round_up((n + across - 1) / across, panel);
  across = (n + cols - 1) / cols;
  std::vector<Scratch> scratch(threads);
  return core::parallel_for(
      *exec.call, down * across,
      [&](size_t index, int slot) {
        // Neighbouring indices share rows of the weight, which stay in the last-level cache.
        Block block{};
        block.first_row = index % down * rows;
        if (block.first_row >= m) return;
        block.rows = std::min(rows, m - block.first_row);
        block.first_col = index / down * cols;
        block.cols = std::min(cols, n - block.first_col);
        const size_t width = round_up(block.cols, panel);
        const bool few = block.rows <= kFewRows && weight.reader == nullptr;
        const auto multiply = few ? multiply_few_rows : multiply_block;
        const float* product =
            multiply(*exec.call, x, weight, block, width, &scratch[static_cast<size_t>(slot)]);
        if (product == nullptr) return;
        write_block(epilogue, bias.empty() ? nullptr : bias.data(), block, product, width, out);
      },
      static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(x.cols) / 30.0);
}

}  // namespace

Status linear(const Exec& exec, ConstMatrixView x, const TensorView& weight, MatrixView out,
              const Epilogue& epilogue) {
  WeightRows rows;
  if (usable_in_place(weight)) {
    rows.plain = static_cast<const float*>(weight.data);
    rows.stride = x.cols;
  } else {
    rows.stored = weight;
  }
  return run(exec, x, rows, weight.shape[0], out, epilogue);
}

Status linear(const Exec& exec, ConstMatrixView x, ConstMatrixView weight, MatrixView out,
              const Epilogue& epilogue) {
  WeightRows rows;
  rows.plain = weight.data;
  rows.stride = weight.stride;
  return run(exec, x, rows, weight.rows, out, epilogue);
}

Status linear(const Exec& exec, ConstMatrixView x, const WeightReader& weight, size_t n,
              MatrixView out, const Epilogue& epilogue) {
  WeightRows rows;
  rows.reader = &weight;
  return run(exec, x, rows, n, out, epilogue);
}

}  // namespace npuseg::compute

// SPDX-License-Identifier: Apache-2.0
#include "compute/attention.h"

#include <algorithm>
#include <cmath>
#include <tuple>
#include <vector>

#include "compute/row_bands.h"
#include "compute/simd_kernels.h"
#include "compute/weight_forms.h"
#include "core/bf16.h"
#include "npu/soft/kernels.h"

namespace npuseg::npu::soft {

using compute::Exec;
using core::Status;

namespace {

constexpr double kLogOfTwo = 0.6931471805599453;

// Columns of a head, from the first, behind which all of its rows hold zeros.
size_t used_columns(const uint16_t* rows, size_t stride, size_t count, size_t dim) {
  size_t used = 0;
  for (size_t r = 0; r < count && used < dim; ++r) {
    const uint16_t* row = rows + r * stride;
    for (size_t c = dim; c > used; --c) {
      if ((row[c - 1] & 0x7FFFu) != 0) used = c;
    }
  }
  return used;
}

// Heads padded with zeros, as those of the DETR encoder are: products with the padding add nothing
// and its output is zero, so it is left out.
size_t used_head_dim(const Attention& attention, const AttentionOperands& operands, size_t rows,
                     size_t key_rows) {
  constexpr size_t kStep = 8;
  const size_t dim = attention.head_dim;
  const std::tuple<const uint16_t*, const HeadRows*, size_t> parts[] = {
      {operands.q, &attention.q, rows},
      {operands.k, &attention.k, key_rows},
      {operands.v, &attention.v, key_rows}};
  size_t used = 1;
  for (size_t head = 0; head < attention.heads; ++head) {
    for (const auto& [base, view, count] : parts) {
      if (used > dim - std::min(dim, kStep)) return dim;
      used =
          std::max(used, used_columns(base + view->first + head * dim, view->stride, count, dim));
    }
  }
  return std::min(dim, (used + kStep - 1) / kStep * kStep);
}

// Widens the first `used` columns of every head, which then lie side by side.
Status widen_heads(const Exec& exec, const Attention& attention, const uint16_t* base,
                   const HeadRows& view, size_t rows, size_t used, float* to) {
  const size_t dim = attention.head_dim;
  const size_t width = attention.heads * used;
  if (used == dim) return widen_rows(exec, base + view.first, view.stride, rows, width, to);
  return compute::over_rows(exec, rows, width, [&](size_t r) {
    const uint16_t* row = base + view.first + r * view.stride;
    for (size_t head = 0; head < attention.heads; ++head) {
      compute::widen_bf16(row + head * dim, to + r * width + head * used, used);
    }
  });
}

// And back, zeros in the columns behind.
Status narrow_heads(const Exec& exec, const Attention& attention, const float* from, size_t rows,
                    size_t used, uint16_t* base) {
  const HeadRows& view = attention.o;
  const size_t dim = attention.head_dim;
  const size_t width = attention.heads * used;
  if (used == dim) return narrow_rows(exec, from, rows, width, base + view.first, view.stride);
  return compute::over_rows(exec, rows, width, [&](size_t r) {
    uint16_t* row = base + view.first + r * view.stride;
    for (size_t head = 0; head < attention.heads; ++head) {
      compute::narrow_bf16(from + r * width + head * used, row + head * dim, used);
      std::fill_n(row + head * dim + used, dim - used, uint16_t{0});
    }
  });
}

Status run_fast(const Exec& exec, const Attention& attention, const AttentionOperands& operands,
                Scratch* scratch) {
  const size_t rows = attention.windows * attention.length;
  const size_t key_rows = attention.windows == 1 ? operands.keys : rows;
  const size_t dim = used_head_dim(attention, operands, rows, key_rows);
  const size_t width = attention.heads * dim;
  float* work[Scratch::kSlots];
  for (size_t i = 0; i < Scratch::kSlots; ++i) {
    NPUSEG_ASSIGN_OR_RETURN(work[i], scratch->get(exec.budget, i, rows * width));
  }
  NPUSEG_RETURN_IF_ERROR(widen_heads(exec, attention, operands.q, attention.q, rows, dim, work[0]));
  NPUSEG_RETURN_IF_ERROR(
      widen_heads(exec, attention, operands.k, attention.k, key_rows, dim, work[1]));
  NPUSEG_RETURN_IF_ERROR(
      widen_heads(exec, attention, operands.v, attention.v, key_rows, dim, work[2]));
  compute::Attention args;
  args.query = work[0];
  args.key = work[1];
  args.value = work[2];
  args.out = work[3];
  args.query_stride = args.key_stride = args.value_stride = args.out_stride = width;
  args.batch = attention.windows;
  args.queries = attention.length;
  args.keys = operands.keys;
  args.heads = attention.heads;
  args.head_dim = dim;
  args.scale = attention.base2 ? static_cast<float>(attention.scale * kLogOfTwo) : attention.scale;
  NPUSEG_RETURN_IF_ERROR(compute::attention(exec, args));
  return narrow_heads(exec, attention, work[3], rows, dim, operands.o);
}

const uint16_t* row_of(const uint16_t* base, const HeadRows& rows, size_t row) {
  return base + rows.first + row * rows.stride;
}

// One query of one head.
void attend(const Attention& attention, const AttentionOperands& operands, size_t window,
            size_t query, size_t head, double* weights, double* sums) {
  const size_t dim = attention.head_dim;
  const size_t first = window * attention.length;
  const uint16_t* q = row_of(operands.q, attention.q, first + query) + head * dim;
  const double unit = static_cast<double>(attention.scale) * (attention.base2 ? kLogOfTwo : 1.0);
  double largest = -HUGE_VAL;
  for (size_t j = 0; j < operands.keys; ++j) {
    const uint16_t* k = row_of(operands.k, attention.k, first + j) + head * dim;
    double score = 0.0;
    for (size_t i = 0; i < dim; ++i) {
      score +=
          static_cast<double>(core::from_bf16(q[i])) * static_cast<double>(core::from_bf16(k[i]));
    }
    weights[j] = score * unit;
    largest = std::max(largest, weights[j]);
  }
  std::fill_n(sums, dim, 0.0);
  double total = 0.0;
  for (size_t j = 0; j < operands.keys; ++j) {
    const double weight = std::exp(weights[j] - largest);
    const uint16_t* v = row_of(operands.v, attention.v, first + j) + head * dim;
    total += weight;
    for (size_t i = 0; i < dim; ++i) sums[i] += weight * static_cast<double>(core::from_bf16(v[i]));
  }
  uint16_t* o = operands.o + attention.o.first + (first + query) * attention.o.stride + head * dim;
  for (size_t i = 0; i < dim; ++i) o[i] = core::to_bf16(static_cast<float>(sums[i] / total));
}

Status run_faithful(const Exec& exec, const Attention& attention,
                    const AttentionOperands& operands) {
  const size_t rows = attention.windows * attention.length;
  return core::parallel_for(*exec.call, rows, [&](size_t row, int) {
    exec.call->poll();
    if (exec.call->stopped()) return;
    std::vector<double> weights(operands.keys);
    std::vector<double> sums(attention.head_dim);
    for (size_t head = 0; head < attention.heads; ++head) {
      attend(attention, operands, row / attention.length, row % attention.length, head,
             weights.data(), sums.data());
    }
  });
}

}  // namespace

Status run_attention(const Exec& exec, Mode mode, const Attention& attention,
                     const AttentionOperands& operands, Scratch* scratch) {
  return mode == Mode::kFast ? run_fast(exec, attention, operands, scratch)
                             : run_faithful(exec, attention, operands);
}

}  // namespace npuseg::npu::soft

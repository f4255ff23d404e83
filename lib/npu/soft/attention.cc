// SPDX-License-Identifier: Apache-2.0
#include "compute/attention.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/bf16.h"
#include "npu/soft/kernels.h"

namespace npuseg::npu::soft {

using compute::Exec;
using core::Status;

namespace {

constexpr double kLogOfTwo = 0.6931471805599453;

Status run_fast(const Exec& exec, const Attention& attention, const AttentionOperands& operands,
                Scratch* scratch) {
  const size_t rows = attention.windows * attention.length;
  const size_t width = attention.heads * attention.head_dim;
  const size_t key_rows = attention.windows == 1 ? operands.keys : rows;
  float* work[Scratch::kSlots];
  for (size_t i = 0; i < Scratch::kSlots; ++i) {
    NPUSEG_ASSIGN_OR_RETURN(work[i], scratch->get(exec.budget, i, rows * width));
  }
  NPUSEG_RETURN_IF_ERROR(
      widen_rows(exec, operands.q + attention.q.first, attention.q.stride, rows, width, work[0]));
  NPUSEG_RETURN_IF_ERROR(widen_rows(exec, operands.k + attention.k.first, attention.k.stride,
                                    key_rows, width, work[1]));
  NPUSEG_RETURN_IF_ERROR(widen_rows(exec, operands.v + attention.v.first, attention.v.stride,
                                    key_rows, width, work[2]));
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
  args.head_dim = attention.head_dim;
  args.scale = attention.base2 ? static_cast<float>(attention.scale * kLogOfTwo) : attention.scale;
  NPUSEG_RETURN_IF_ERROR(compute::attention(exec, args));
  return narrow_rows(exec, work[3], rows, width, operands.o + attention.o.first,
                     attention.o.stride);
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

// SPDX-License-Identifier: Apache-2.0
// The kernels themselves, over memory. Operands have been checked against the operation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "bundle/bfp16.h"
#include "compute/gemm.h"
#include "core/buffer.h"
#include "npu/operation.h"
#include "npu/soft/soft_device.h"

namespace npuseg::npu::soft {

// Float32 work arrays that grow and stay, since the pages of fresh ones cost more than some
// kernels.
class Scratch {
 public:
  static constexpr size_t kSlots = 4;
  // Contents are undefined.
  core::Result<float*> get(const core::MemoryBudgetPtr& budget, size_t slot, size_t count);

 private:
  core::Buffer slots_[kSlots];
};

struct GemmOperands {
  const uint16_t* a = nullptr;
  std::span<const unsigned char> b;  // `planes` packed matrices, whose sum is B
  size_t planes = 1;
  uint16_t* c = nullptr;
};

bundle::PackedLayout packed_layout(const Gemm& gemm);

core::Status run_gemm(const compute::Exec& exec, Mode mode, const Gemm& gemm,
                      const GemmOperands& operands, Scratch* scratch);

struct AttentionOperands {
  const uint16_t* q = nullptr;  // views begin here; HeadRows.first counts from it
  const uint16_t* k = nullptr;
  const uint16_t* v = nullptr;
  uint16_t* o = nullptr;
  size_t keys = 0;  // 1 .. length; below length only of a single window
};

core::Status run_attention(const compute::Exec& exec, Mode mode, const Attention& attention,
                           const AttentionOperands& operands, Scratch* scratch);

// Float32 throughout: a product of two bfloat16 values is exact in it. The same in both modes.
core::Status run_rope(const compute::Exec& exec, const Rope& rope, const uint16_t* x,
                      const uint16_t* table, uint16_t* y);

struct AddNormOperands {
  const unsigned char* x = nullptr;  // float32 or bf16, as the operation says
  const uint16_t* delta = nullptr;
  unsigned char* x_out = nullptr;
  uint16_t* h = nullptr;
};

core::Status run_add_norm(const compute::Exec& exec, Mode mode, const AddNorm& norm,
                          const AddNormOperands& operands);

// Rows of bfloat16 values as float32 and back; from and to have their own strides.
core::Status widen_rows(const compute::Exec& exec, const uint16_t* from, size_t from_stride,
                        size_t rows, size_t columns, float* to);
core::Status narrow_rows(const compute::Exec& exec, const float* from, size_t rows, size_t columns,
                         uint16_t* to, size_t to_stride);

}  // namespace npuseg::npu::soft

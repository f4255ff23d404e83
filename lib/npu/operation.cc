// SPDX-License-Identifier: Apache-2.0
#include "npu/operation.h"

namespace npuseg::npu {

namespace {

struct Facts {
  size_t arguments;
  uint32_t written;
  uint64_t operations;
  const char* name;
};

Facts facts_of(const Operation& operation) {
  if (const auto* gemm = std::get_if<Gemm>(&operation)) {
    return {3, 1u << 2, uint64_t{2} * gemm->rows * gemm->k * gemm->n, "GEMM"};
  }
  if (const auto* attention = std::get_if<Attention>(&operation)) {
    return {4, 1u << 3,
            uint64_t{4} * attention->windows * attention->heads * attention->length *
                attention->length * attention->head_dim,
            "attention"};
  }
  if (std::holds_alternative<Rope>(operation)) return {3, 1u << 2, 0, "rope"};
  return {4, 1u << 2 | 1u << 3, 0, "add and norm"};
}

}  // namespace

size_t argument_count(const Operation& operation) { return facts_of(operation).arguments; }
uint32_t written_arguments(const Operation& operation) { return facts_of(operation).written; }
uint64_t operation_count(const Operation& operation) { return facts_of(operation).operations; }
const char* operation_name(const Operation& operation) { return facts_of(operation).name; }

}  // namespace npuseg::npu

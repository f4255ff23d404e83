// SPDX-License-Identifier: Apache-2.0
// Element types of stored tensors.
#pragma once

#include <cstddef>
#include <cstdint>

namespace npuseg::core {

// kI8 is never read from a file: it is how npuseg holds weights, with scales (TensorView).
enum class DType : uint8_t { kF32, kF16, kBF16, kF64, kI64, kI32, kU8, kI8, kOther };

constexpr size_t dtype_bytes(DType type) {
  switch (type) {
    case DType::kF64:
    case DType::kI64:
      return 8;
    case DType::kF32:
    case DType::kI32:
      return 4;
    case DType::kF16:
    case DType::kBF16:
      return 2;
    case DType::kU8:
    case DType::kI8:
      return 1;
    case DType::kOther:
      return 0;
  }
  return 0;
}

// The spelling of the safetensors format, for messages.
constexpr const char* dtype_name(DType type) {
  switch (type) {
    case DType::kF32:
      return "F32";
    case DType::kF16:
      return "F16";
    case DType::kBF16:
      return "BF16";
    case DType::kF64:
      return "F64";
    case DType::kI64:
      return "I64";
    case DType::kI32:
      return "I32";
    case DType::kU8:
      return "U8";
    case DType::kI8:
      return "I8";
    case DType::kOther:
      return "other";
  }
  return "other";
}

}  // namespace npuseg::core

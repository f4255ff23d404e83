// SPDX-License-Identifier: Apache-2.0
// bfloat16 values as the upper half of a float32. One value at a time; compute has loops.
#pragma once

#include <bit>
#include <cstdint>

namespace npuseg::core {

// Rounded to nearest, ties to even; beyond the largest finite value: infinity. A NaN stays one.
constexpr uint16_t to_bf16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((bits >> 16) | 0x40u);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

constexpr float from_bf16(uint16_t value) {
  return std::bit_cast<float>(static_cast<uint32_t>(value) << 16);
}

// The float32 nearest to `value` that bfloat16 holds.
constexpr float round_to_bf16(float value) { return from_bf16(to_bf16(value)); }

}  // namespace npuseg::core

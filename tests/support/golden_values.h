// SPDX-License-Identifier: Apache-2.0
// The value sequences and the checksum in which the bundle specs state their golden values.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace npuseg::test {

// ((i * 7919) mod 2003 - 1001) / 512, exact in float32.
inline float val(size_t i) {
  return static_cast<float>(static_cast<int>(i * 7919 % 2003) - 1001) / 512.0f;
}

// The float32 whose bits are i * 2654435761 mod 2^32.
inline float wild(size_t i) { return std::bit_cast<float>(static_cast<uint32_t>(i) * 2654435761u); }

inline unsigned char u8v(size_t k) {
  return static_cast<unsigned char>((static_cast<uint32_t>(k) * 2654435761u) >> 24);
}

// CRC-32 as in zip files.
inline uint32_t crc32(const void* data, size_t bytes) {
  static const std::array<uint32_t, 256> table = [] {
    std::array<uint32_t, 256> made{};
    for (uint32_t i = 0; i < 256; ++i) {
      uint32_t value = i;
      for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ ((value & 1) * 0xedb88320u);
      made[i] = value;
    }
    return made;
  }();
  uint32_t crc = 0xffffffffu;
  const auto* at = static_cast<const unsigned char*>(data);
  for (size_t i = 0; i < bytes; ++i) crc = table[(crc ^ at[i]) & 0xff] ^ (crc >> 8);
  return ~crc;
}

}  // namespace npuseg::test

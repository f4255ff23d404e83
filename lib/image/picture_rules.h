// SPDX-License-Identifier: Apache-2.0
// Checks and arithmetic that the decoders and the pixel converter share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "core/status.h"
#include "image/picture.h"

namespace npuseg::image {

// LIMIT_EXCEEDED when the sides or their product pass the limits; zero sides are not looked at.
core::Status check_picture_size(uint64_t width, uint64_t height, const DecodeLimits& limits,
                                const std::string& where);
core::Status check_file_size(size_t bytes, const DecodeLimits& limits, const std::string& where);

// t/255 rounded, for t in 0..255*255.
constexpr uint8_t div255(uint32_t t) {
  const uint32_t u = t + 128;
  return static_cast<uint8_t>(((u >> 8) + u) >> 8);
}

// c over the background b with alpha a.
constexpr uint8_t over(uint8_t c, uint8_t a, uint8_t b) {
  return div255(uint32_t{c} * a + uint32_t{b} * (255u - a));
}

}  // namespace npuseg::image

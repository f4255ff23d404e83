// SPDX-License-Identifier: Apache-2.0
// Any bytes as a picture file, under small limits and every way of reading transparency.
#include <cstddef>
#include <cstdint>
#include <span>

#include "image/picture.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  npuseg::image::DecodeOptions options;
  options.limits.max_pixels = 1u << 20;
  options.limits.max_side = 1u << 14;
  options.limits.max_scans = 20;
  if (size > 0) {
    const uint8_t last = data[size - 1];
    options.apply_exif = (last & 1) != 0;
    options.accept_truncated = (last & 2) != 0;
    if ((last & 4) != 0) options.alpha.mode = npuseg::image::AlphaMode::kOverColour;
  }
  const auto result = npuseg::image::decode(std::span(data, size), options, "fuzz");
  if (!result.ok()) return 0;
  const npuseg::image::Picture& picture = result.value();
  if (picture.width == 0 || picture.height == 0) __builtin_trap();
  // Every byte must be there and written.
  unsigned sum = 0;
  for (size_t i = 0; i < picture.stride() * picture.height; ++i) sum += picture.rgb.data()[i];
  return sum == ~0u ? 1 : 0;
}

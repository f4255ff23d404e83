// SPDX-License-Identifier: Apache-2.0
// COCO run-length masks: column-major runs (zeros first), the compressed string, area and box.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/status.h"

namespace npuseg::image {

struct Rle {
  uint32_t height = 0;
  uint32_t width = 0;
  std::vector<uint32_t> counts;  // zeros, ones, zeros, ...; sum is height*width
};

// COCO counts are 32 bits: height*width must stay below 2^32. Both sides at least 1.
core::Status check_rle_size(uint32_t height, uint32_t width);

// Nonzero bytes are set. stride in bytes.
core::Result<Rle> rle_from_mask(const uint8_t* mask, size_t stride, uint32_t height,
                                uint32_t width);
// Writes 0/255 rows. The runs must be valid (rle_from_* and rle_from_string make only such).
core::Status rle_to_mask(const Rle& rle, uint8_t* mask, size_t stride);

std::string rle_to_string(const Rle& rle);
core::Result<Rle> rle_from_string(std::string_view text, uint32_t height, uint32_t width);
// Checks and takes uncompressed counts.
core::Result<Rle> rle_from_counts(std::vector<uint32_t> counts, uint32_t height, uint32_t width);

uint64_t rle_area(const Rle& rle);
// x, y, width, height of the set pixels, as pycocotools' toBbox; zeros for an empty mask.
std::array<uint32_t, 4> rle_bbox(const Rle& rle);
// The part of the mask inside a box that lies within it.
core::Result<Rle> rle_crop(const Rle& rle, uint32_t x, uint32_t y, uint32_t width, uint32_t height);

}  // namespace npuseg::image

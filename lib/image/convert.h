// SPDX-License-Identifier: Apache-2.0
// Pixels of a caller, in the layouts programs commonly hold, into a Picture.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/status.h"
#include "image/picture.h"

namespace npuseg::image {

// Values are those of the public pixel format constants; all are 8 bits a sample, interleaved.
enum class PixelFormat : int32_t { kRgb = 1, kBgr = 2, kRgba = 3, kBgra = 4, kGrey = 5 };

// 0 for a value that is no format.
uint32_t bytes_per_pixel(PixelFormat format);

// Bytes that pixels of this geometry occupy: stride*(height-1) + width*bytes_per_pixel.
// INVALID_ARGUMENT for an unknown format, an empty side, or a stride shorter than a row.
core::Result<size_t> pixels_bytes(PixelFormat format, uint32_t width, uint32_t height,
                                  size_t stride);

// stride 0 means tight rows. `pixels` must hold at least pixels_bytes().
core::Result<Picture> from_pixels(std::span<const uint8_t> pixels, PixelFormat format,
                                  uint32_t width, uint32_t height, size_t stride,
                                  const AlphaRule& alpha, const DecodeLimits& limits,
                                  const core::MemoryBudgetPtr& budget = nullptr);

}  // namespace npuseg::image

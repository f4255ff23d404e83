// SPDX-License-Identifier: Apache-2.0
// EXIF/XMP orientation: finding the value and turning a picture upright.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "core/status.h"
#include "image/picture.h"

namespace npuseg::image {

// Orientation in a TIFF block ("II*\0..." or "MM\0*..."); 0 when there is no such tag or the block
// is damaged; a stored 0 counts as 1 (upright).
uint32_t orientation_of_tiff(std::span<const uint8_t> tiff);

// tiff:Orientation in an XMP packet; 0 when absent.
uint32_t orientation_of_xmp(std::string_view xmp);

// Values outside 2..8 return the picture unchanged.
core::Result<Picture> turn_upright(Picture picture, uint32_t orientation,
                                   const core::MemoryBudgetPtr& budget);

// Upright when the options say so; the picture tells its stored orientation either way.
core::Result<Picture> finish_orientation(Picture picture, uint32_t orientation,
                                         const DecodeOptions& options);

}  // namespace npuseg::image

// SPDX-License-Identifier: Apache-2.0
// PNG files in memory. The same pixels give the same bytes with the same zlib.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/status.h"
#include "image/picture.h"

namespace npuseg::image {

core::Result<std::vector<uint8_t>> encode_png_rgb(const RgbView& picture);
// 8-bit grey; stride in bytes.
core::Result<std::vector<uint8_t>> encode_png_grey(const uint8_t* pixels, size_t stride,
                                                   uint32_t width, uint32_t height);

}  // namespace npuseg::image

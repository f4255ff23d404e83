// SPDX-License-Identifier: Apache-2.0
// Small text for overlays: a built-in font of printable ASCII, scaled smoothly to any height.
#pragma once

#include <cstdint>
#include <string_view>

#include "image/picture.h"

namespace npuseg::image {

// Width in pixels of one line of UTF-8 text whose capital letters are 0.6*height tall.
// Characters outside printable ASCII are drawn as a hollow box.
uint32_t text_width(std::string_view text, uint32_t height);

// Draws with the upper left corner at (x, y), clipped at the picture's border.
void draw_text(Picture& picture, int64_t x, int64_t y, uint32_t height, std::string_view text,
               Rgb8 colour);

}  // namespace npuseg::image

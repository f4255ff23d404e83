// SPDX-License-Identifier: Apache-2.0
#include "image/png_pixels.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "image/picture_rules.h"

namespace npuseg::image {

bool PngFormat::valid() const {
  const bool byte_or_word = depth == 8 || depth == 16;
  switch (colour_type) {
    case 0:
      return byte_or_word || depth == 1 || depth == 2 || depth == 4;
    case 2:
    case 4:
    case 6:
      return byte_or_word;
    case 3:
      return depth == 1 || depth == 2 || depth == 4 || depth == 8;
    default:
      return false;
  }
}

uint32_t PngFormat::channels() const {
  switch (colour_type) {
    case 2:
      return 3;
    case 4:
      return 2;
    case 6:
      return 4;
    default:
      return 1;
  }
}

void PngPixels::set_palette(const uint8_t* entries, uint32_t count) {
  palette_.fill(0);
  if (count > 0) std::memcpy(palette_.data(), entries, size_t{std::min(count, 256u)} * 3);
}

void PngPixels::set_palette_alpha(const uint8_t* alpha, uint32_t count) {
  palette_alphas_ = std::min(count, 256u);
  if (count > 0) std::memcpy(palette_alpha_.data(), alpha, palette_alphas_);
}

void PngPixels::set_transparent(uint16_t r, uint16_t g, uint16_t b) {
  has_transparent_ = true;
  transparent_[0] = r;
  transparent_[1] = g;
  transparent_[2] = b;
}

void PngPixels::finish() {
  if (alpha_.mode == AlphaMode::kDrop) {
    has_transparent_ = false;
    return;
  }
  for (uint32_t i = 0; i < palette_alphas_; ++i) {
    uint8_t* entry = palette_.data() + size_t{i} * 3;
    entry[0] = over(entry[0], palette_alpha_[i], alpha_.colour.r);
    entry[1] = over(entry[1], palette_alpha_[i], alpha_.colour.g);
    entry[2] = over(entry[2], palette_alpha_[i], alpha_.colour.b);
  }
}

namespace {

// Sample x of a row of packed samples of 1, 2, 4 or 8 bits.
uint32_t packed_sample(const uint8_t* raw, uint32_t x, uint32_t depth) {
  const uint64_t bit = uint64_t{x} * depth;
  const uint32_t shift = 8 - depth - static_cast<uint32_t>(bit & 7);
  return static_cast<uint32_t>(raw[bit >> 3] >> shift) & ((1u << depth) - 1);
}

}  // namespace

void PngPixels::grey_row(const uint8_t* raw, uint32_t width, uint8_t* rgb) const {
  const uint32_t depth = format_.depth;
  if (depth == 16) {
    for (uint32_t x = 0; x < width; ++x, raw += 2, rgb += 3) {
      uint8_t value = raw[0];
      if (grey16_ == Grey16::kSaturate) value = raw[0] != 0 ? uint8_t{255} : raw[1];
      rgb[0] = rgb[1] = rgb[2] = value;
    }
    return;
  }
  const uint32_t scale = 255u / ((1u << depth) - 1);  // 255, 85, 17, 1: exact
  for (uint32_t x = 0; x < width; ++x, rgb += 3) {
    rgb[0] = rgb[1] = rgb[2] = static_cast<uint8_t>(packed_sample(raw, x, depth) * scale);
  }
}

void PngPixels::palette_row(const uint8_t* raw, uint32_t width, uint8_t* rgb) const {
  for (uint32_t x = 0; x < width; ++x, rgb += 3) {
    const uint8_t* entry = palette_.data() + size_t{packed_sample(raw, x, format_.depth)} * 3;
    rgb[0] = entry[0];
    rgb[1] = entry[1];
    rgb[2] = entry[2];
  }
}

// Pillow compares the converted 8-bit colour with the low bytes of tRNS (for 1-bit grey: any value
// but 0 means white), and so do we. With kScale, where the reference has no say, whole samples.
void PngPixels::hide_transparent(const uint8_t* raw, uint32_t width, uint8_t* rgb) const {
  uint8_t key[3];
  for (int c = 0; c < 3; ++c) key[c] = static_cast<uint8_t>(transparent_[c] & 0xFF);
  if (format_.colour_type == 0) {
    if (format_.depth == 1) key[0] = transparent_[0] != 0 ? 255 : 0;
    key[1] = key[2] = key[0];
  }
  const bool whole = format_.colour_type == 0 && format_.depth == 16 && grey16_ == Grey16::kScale;
  for (uint32_t x = 0; x < width; ++x, rgb += 3) {
    const bool same = whole ? (raw[size_t{x} * 2] << 8 | raw[size_t{x} * 2 + 1]) == transparent_[0]
                            : rgb[0] == key[0] && rgb[1] == key[1] && rgb[2] == key[2];
    if (!same) continue;
    rgb[0] = alpha_.colour.r;
    rgb[1] = alpha_.colour.g;
    rgb[2] = alpha_.colour.b;
  }
}

void PngPixels::convert(const uint8_t* raw, uint32_t width, uint8_t* rgb) const {
  const size_t sample = format_.depth == 16 ? 2 : 1;  // the high byte comes first
  const bool blend = alpha_.mode == AlphaMode::kOverColour;
  switch (format_.colour_type) {
    case 0:
      grey_row(raw, width, rgb);
      break;
    case 2:
      if (sample == 1) {
        std::memcpy(rgb, raw, size_t{width} * 3);
      } else {
        for (size_t i = 0; i < size_t{width} * 3; ++i) rgb[i] = raw[i * 2];
      }
      break;
    case 3:
      palette_row(raw, width, rgb);
      return;
    default: {
      const size_t colours = format_.colour_type == 6 ? 3 : 1;
      const size_t step = (colours + 1) * sample;
      const uint8_t background[3] = {alpha_.colour.r, alpha_.colour.g, alpha_.colour.b};
      for (uint32_t x = 0; x < width; ++x, raw += step, rgb += 3) {
        const uint8_t alpha = raw[colours * sample];
        for (size_t c = 0; c < 3; ++c) {
          const uint8_t value = raw[(colours == 3 ? c : 0) * sample];
          rgb[c] = blend ? over(value, alpha, background[c]) : value;
        }
      }
      return;
    }
  }
  if (has_transparent_) hide_transparent(raw, width, rgb);
}

}  // namespace npuseg::image

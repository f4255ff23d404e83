// SPDX-License-Identifier: Apache-2.0
// Unfiltered PNG rows to RGB8, by colour type and depth, with the alpha rule.
#pragma once

#include <array>
#include <cstdint>

#include "image/picture.h"

namespace npuseg::image {

struct PngFormat {
  uint32_t depth = 0;        // bits a sample
  uint32_t colour_type = 0;  // 0 grey, 2 RGB, 3 palette, 4 grey+alpha, 6 RGBA

  [[nodiscard]] bool valid() const;
  [[nodiscard]] uint32_t channels() const;
  [[nodiscard]] uint32_t bits_per_pixel() const { return channels() * depth; }
};

class PngPixels {
 public:
  PngPixels(PngFormat format, const AlphaRule& alpha, Grey16 grey16)
      : format_(format), alpha_(alpha), grey16_(grey16) {}

  // Entries of PLTE; the rest stay black. At most 256.
  void set_palette(const uint8_t* entries, uint32_t count);
  // Alpha of the first palette entries. At most 256.
  void set_palette_alpha(const uint8_t* alpha, uint32_t count);
  // The transparent colour of tRNS: one sample (grey) or three (RGB).
  void set_transparent(uint16_t r, uint16_t g, uint16_t b);
  // Call once after the above.
  void finish();

  // `raw` holds `width` packed pixels; rgb gets 3*width bytes.
  void convert(const uint8_t* raw, uint32_t width, uint8_t* rgb) const;

 private:
  void grey_row(const uint8_t* raw, uint32_t width, uint8_t* rgb) const;
  void palette_row(const uint8_t* raw, uint32_t width, uint8_t* rgb) const;
  void hide_transparent(const uint8_t* raw, uint32_t width, uint8_t* rgb) const;

  PngFormat format_;
  AlphaRule alpha_;
  Grey16 grey16_;
  std::array<uint8_t, 256 * 3> palette_{};
  std::array<uint8_t, 256> palette_alpha_{};
  uint32_t palette_alphas_ = 0;
  bool has_transparent_ = false;
  uint16_t transparent_[3] = {};
};

}  // namespace npuseg::image

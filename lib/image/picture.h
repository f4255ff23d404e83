// SPDX-License-Identifier: Apache-2.0
// Pictures in memory (tight RGB8) and decoding of JPEG and PNG files into them.
//
// Pixels equal what Pillow's convert("RGB") gives, byte for byte (docs/images.md lists the few
// files that are refused here and accepted there). Every limit is checked before memory is taken.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "core/buffer.h"
#include "core/status.h"

namespace npuseg::image {

// Interleaved R,G,B bytes; stride in bytes between row starts, at least 3*width.
struct RgbView {
  const uint8_t* data = nullptr;
  uint32_t width = 0;
  uint32_t height = 0;
  size_t stride = 0;

  [[nodiscard]] const uint8_t* row(size_t y) const { return data + y * stride; }
};

// Owns its pixels, rows are tight (stride 3*width).
struct Picture {
  uint32_t width = 0;
  uint32_t height = 0;
  core::Buffer rgb;
  uint32_t orientation = 1;  // of the file it was decoded from, 1 to 8 as in EXIF

  // Uninitialised pixels; both sides at least 1.
  static core::Result<Picture> make(uint32_t width, uint32_t height,
                                    const core::MemoryBudgetPtr& budget = nullptr);
  static core::Result<Picture> copy_of(const RgbView& view);

  [[nodiscard]] size_t stride() const { return size_t{3} * width; }
  [[nodiscard]] uint8_t* row(size_t y) { return rgb.data() + y * stride(); }
  [[nodiscard]] const uint8_t* row(size_t y) const { return rgb.data() + y * stride(); }
  [[nodiscard]] RgbView view() const { return {rgb.data(), width, height, stride()}; }
};

struct Rgb8 {
  uint8_t r = 255;
  uint8_t g = 255;
  uint8_t b = 255;
};

// What happens to transparency: ignored (Pillow's convert("RGB")), or composed over one colour with
// the exact rounding of Pillow's alpha_composite over an opaque background.
enum class AlphaMode : uint8_t { kDrop, kOverColour };
struct AlphaRule {
  AlphaMode mode = AlphaMode::kDrop;
  Rgb8 colour;  // white
};

// 16-bit grey PNG: Pillow saturates at 255; kScale takes the high byte as for 16-bit colour.
enum class Grey16 : uint8_t { kSaturate, kScale };

struct DecodeLimits {
  uint64_t max_pixels = 178956970;  // Pillow's decompression bomb error
  uint32_t max_side = 65535;
  uint64_t max_file_bytes = uint64_t{512} << 20;
  uint32_t max_scans = 500;  // of a progressive JPEG
};

struct DecodeOptions {
  bool apply_exif = true;  // turn the picture upright
  AlphaRule alpha;
  Grey16 grey16 = Grey16::kSaturate;
  DecodeLimits limits;
  // JPEG only: a file that ends early is completed as if it had an end marker.
  bool accept_truncated = false;
  core::MemoryBudgetPtr budget;  // may be null
};

// The format is recognised by content. `where` (a path, or "picture in memory") is for messages.
core::Result<Picture> decode(std::span<const uint8_t> bytes, const DecodeOptions& options,
                             const std::string& where);
core::Result<Picture> decode_jpeg(std::span<const uint8_t> bytes, const DecodeOptions& options,
                                  const std::string& where);
core::Result<Picture> decode_png(std::span<const uint8_t> bytes, const DecodeOptions& options,
                                 const std::string& where);

// "JPEG", "PNG", "WebP", "GIF", ... by signature; null when unknown.
const char* format_by_signature(std::span<const uint8_t> bytes);

}  // namespace npuseg::image

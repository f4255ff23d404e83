// SPDX-License-Identifier: Apache-2.0
#include "image/convert.h"

#include <cstring>

#include "image/picture_rules.h"

namespace npuseg::image {

using core::Code;
using core::format;
using core::Result;
using core::Status;

uint32_t bytes_per_pixel(PixelFormat format) {
  switch (format) {
    case PixelFormat::kRgb:
    case PixelFormat::kBgr:
      return 3;
    case PixelFormat::kRgba:
    case PixelFormat::kBgra:
      return 4;
    case PixelFormat::kGrey:
      return 1;
  }
  return 0;
}

Result<size_t> pixels_bytes(PixelFormat pixel_format, uint32_t width, uint32_t height,
                            size_t stride) {
  const uint32_t step = bytes_per_pixel(pixel_format);
  if (step == 0) {
    return Status(Code::kInvalidArgument,
                  format("pixels: format %d is unknown; use RGB, BGR, RGBA, BGRA or grey",
                         static_cast<int>(pixel_format)));
  }
  if (width == 0 || height == 0) {
    return Status(Code::kInvalidArgument,
                  format("pixels: a picture of %ux%u is empty; both sides must be at least 1",
                         width, height));
  }
  const uint64_t row = uint64_t{width} * step;
  if (stride == 0 && row <= SIZE_MAX) stride = static_cast<size_t>(row);
  if (stride < row) {
    return Status(Code::kInvalidArgument,
                  format("pixels: the stride of %zu bytes is less than a row of %u pixels of %u "
                         "bytes (%llu); give the distance of row starts in bytes, or 0 for tight "
                         "rows",
                         stride, width, step, static_cast<unsigned long long>(row)));
  }
  size_t bytes = 0;
  if (__builtin_mul_overflow(stride, size_t{height} - 1, &bytes) ||
      __builtin_add_overflow(bytes, static_cast<size_t>(row), &bytes)) {
    return Status(Code::kInvalidArgument,
                  format("pixels: %u rows of %zu bytes are more than memory can hold; check "
                         "height and stride",
                         height, stride));
  }
  return bytes;
}

namespace {

void convert_row(const uint8_t* from, PixelFormat pixel_format, uint32_t width,
                 const AlphaRule& alpha, uint8_t* to) {
  const bool swapped = pixel_format == PixelFormat::kBgr || pixel_format == PixelFormat::kBgra;
  const size_t step = bytes_per_pixel(pixel_format);
  const size_t red = swapped ? 2 : 0;
  const size_t blue = 2 - red;
  switch (pixel_format) {
    case PixelFormat::kRgb:
      std::memcpy(to, from, size_t{width} * 3);
      return;
    case PixelFormat::kGrey:
      for (uint32_t x = 0; x < width; ++x, to += 3) to[0] = to[1] = to[2] = from[x];
      return;
    case PixelFormat::kBgr:
    case PixelFormat::kRgba:
    case PixelFormat::kBgra:
      break;
  }
  if (step == 3 || alpha.mode == AlphaMode::kDrop) {
    for (uint32_t x = 0; x < width; ++x, from += step, to += 3) {
      to[0] = from[red];
      to[1] = from[1];
      to[2] = from[blue];
    }
    return;
  }
  for (uint32_t x = 0; x < width; ++x, from += step, to += 3) {
    to[0] = over(from[red], from[3], alpha.colour.r);
    to[1] = over(from[1], from[3], alpha.colour.g);
    to[2] = over(from[blue], from[3], alpha.colour.b);
  }
}

}  // namespace

Result<Picture> from_pixels(std::span<const uint8_t> pixels, PixelFormat pixel_format,
                            uint32_t width, uint32_t height, size_t stride, const AlphaRule& alpha,
                            const DecodeLimits& limits, const core::MemoryBudgetPtr& budget) {
  NPUSEG_ASSIGN_OR_RETURN(const size_t needed, pixels_bytes(pixel_format, width, height, stride));
  if (pixels.size() < needed) {
    return Status(Code::kInvalidArgument,
                  format("pixels: %ux%u with a stride of %zu need %zu bytes, there are %zu; check "
                         "width, height, stride and format",
                         width, height, stride, needed, pixels.size()));
  }
  NPUSEG_RETURN_IF_ERROR(check_picture_size(width, height, limits, "pixels"));
  NPUSEG_ASSIGN_OR_RETURN(Picture picture, Picture::make(width, height, budget));
  if (stride == 0) stride = size_t{width} * bytes_per_pixel(pixel_format);
  for (size_t y = 0; y < height; ++y) {
    convert_row(pixels.data() + y * stride, pixel_format, width, alpha, picture.row(y));
  }
  return picture;
}

}  // namespace npuseg::image

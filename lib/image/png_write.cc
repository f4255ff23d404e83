// SPDX-License-Identifier: Apache-2.0
// PNG writing by libpng. Fixed compression level and filters, no time stamp or text.
#include "image/png_write.h"

#include <csetjmp>
#include <cstring>
#include <utility>

#ifdef NPUSEG_HAVE_PNG
#include <png.h>
#endif

namespace npuseg::image {

using core::Code;
using core::format;
using core::Result;
using core::Status;

#ifdef NPUSEG_HAVE_PNG

namespace {

// Lives outside the function that sets the jump target.
struct Sink {
  std::vector<uint8_t> bytes;
  bool out_of_memory = false;
  char message[128] = {};
};

void write_bytes(png_structp png, png_bytep data, size_t size) {
  Sink& sink = *static_cast<Sink*>(png_get_io_ptr(png));
  try {
    sink.bytes.insert(sink.bytes.end(), data, data + size);
    return;
  } catch (...) {
    sink.out_of_memory = true;
  }
  png_error(png, "out of memory");
}

void flush_nothing(png_structp) {}

[[noreturn]] void on_error(png_structp png, png_const_charp message) {
  Sink& sink = *static_cast<Sink*>(png_get_error_ptr(png));
  std::strncpy(sink.message, message, sizeof sink.message - 1);
  png_longjmp(png, 1);
}

void on_warning(png_structp, png_const_charp) {}

struct Pixels {
  const uint8_t* data;
  size_t stride;
  uint32_t width;
  uint32_t height;
  int colour_type;
};

bool write_all(png_structp png, png_infop info, const Pixels& pixels, Sink& sink) {
  if (setjmp(png_jmpbuf(png)) != 0) return false;
  png_set_write_fn(png, &sink, write_bytes, flush_nothing);
  png_set_user_limits(png, PNG_UINT_31_MAX, PNG_UINT_31_MAX);
  png_set_compression_level(png, 6);
  png_set_filter(png, PNG_FILTER_TYPE_BASE,
                 pixels.colour_type == PNG_COLOR_TYPE_RGB ? PNG_ALL_FILTERS : PNG_FILTER_NONE);
  png_set_IHDR(png, info, pixels.width, pixels.height, 8, pixels.colour_type, PNG_INTERLACE_NONE,
               PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  png_write_info(png, info);
  for (size_t y = 0; y < pixels.height; ++y) {
    png_write_row(png, const_cast<png_bytep>(pixels.data + y * pixels.stride));
  }
  png_write_end(png, info);
  return true;
}

Result<std::vector<uint8_t>> encode(const Pixels& pixels) {
  if (pixels.width == 0 || pixels.height == 0 || pixels.width > PNG_UINT_31_MAX ||
      pixels.height > PNG_UINT_31_MAX) {
    return Status(Code::kInvalidArgument,
                  format("PNG of %ux%u pixels: both sides must be 1..2147483647", pixels.width,
                         pixels.height));
  }
  Sink sink;
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, &sink, on_error, on_warning);
  png_infop info = png == nullptr ? nullptr : png_create_info_struct(png);
  const bool done = info != nullptr && write_all(png, info, pixels, sink);
  png_destroy_write_struct(&png, &info);
  if (done) return std::move(sink.bytes);
  if (sink.out_of_memory || sink.message[0] == '\0') {
    return Status(Code::kOutOfMemory, "out of memory while writing a PNG");
  }
  return Status(Code::kInternal, format("PNG not written: libpng says: %s", sink.message));
}

}  // namespace

Result<std::vector<uint8_t>> encode_png_rgb(const RgbView& picture) {
  return encode({picture.data, picture.stride, picture.width, picture.height, PNG_COLOR_TYPE_RGB});
}

Result<std::vector<uint8_t>> encode_png_grey(const uint8_t* pixels, size_t stride, uint32_t width,
                                             uint32_t height) {
  return encode({pixels, stride, width, height, PNG_COLOR_TYPE_GRAY});
}

#else

namespace {
Status without_png() {
  return Status(Code::kUnsupported,
                "PNG not written: the library was built without it (NPUSEG_WITH_PNG=OFF)");
}
}  // namespace

Result<std::vector<uint8_t>> encode_png_rgb(const RgbView&) { return without_png(); }
Result<std::vector<uint8_t>> encode_png_grey(const uint8_t*, size_t, uint32_t, uint32_t) {
  return without_png();
}

#endif

}  // namespace npuseg::image

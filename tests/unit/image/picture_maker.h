// SPDX-License-Identifier: Apache-2.0
// Makes pictures and files for the tests of the image room. Brings cmocka too: include it last.
#pragma once

#include <jpeglib.h>
#include <zlib.h>

#include <cstdint>
#include <cstdlib>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "cmocka_cpp.h"
#include "image/picture.h"

namespace npuseg::test {

using Bytes = std::vector<uint8_t>;

inline Bytes bytes_of(std::string_view text) { return {text.begin(), text.end()}; }

inline Bytes joined(std::initializer_list<Bytes> parts) {
  Bytes out;
  for (const Bytes& part : parts) out.insert(out.end(), part.begin(), part.end());
  return out;
}

inline uint32_t crc(const void* data, size_t size) {
  return static_cast<uint32_t>(crc32_z(0, static_cast<const Bytef*>(data), size));
}
inline uint32_t crc(const image::Picture& picture) {
  return crc(picture.rgb.data(), picture.stride() * picture.height);
}

// Bytes of the linear congruential generator that all golden values of random pixels use.
inline Bytes lcg_bytes(size_t count, size_t skip = 0) {
  Bytes out;
  uint32_t state = 1;
  for (size_t i = 0; i < count + skip; ++i) {
    if (i >= skip) out.push_back(static_cast<uint8_t>(state >> 24));
    state = state * 1664525u + 1013904223u;
  }
  return out;
}

inline void put32(Bytes& out, size_t value) {
  for (int shift = 24; shift >= 0; shift -= 8) out.push_back(static_cast<uint8_t>(value >> shift));
}

inline Bytes png_chunk(std::string_view type, const Bytes& body) {
  Bytes out;
  put32(out, body.size());
  Bytes named = bytes_of(type);
  named.insert(named.end(), body.begin(), body.end());
  out.insert(out.end(), named.begin(), named.end());
  put32(out, crc(named.data(), named.size()));
  return out;
}

inline Bytes png_signature() { return {0x89, 'P', 'N', 'G', 13, 10, 26, 10}; }

struct Ihdr {
  uint32_t width = 1;
  uint32_t height = 1;
  uint8_t depth = 8;
  uint8_t colour = 2;
  uint8_t compression = 0;
  uint8_t filter = 0;
  uint8_t interlace = 0;

  [[nodiscard]] Bytes body() const {
    Bytes out;
    put32(out, width);
    put32(out, height);
    out.insert(out.end(), {depth, colour, compression, filter, interlace});
    return out;
  }
  [[nodiscard]] Bytes chunk() const { return png_chunk("IHDR", body()); }
};

inline Bytes deflated(const Bytes& raw) {
  uLongf size = compressBound(static_cast<uLong>(raw.size()));
  Bytes out(size);
  compress2(out.data(), &size, raw.data(), static_cast<uLong>(raw.size()), 6);
  out.resize(size);
  return out;
}

// `raw` holds the rows with their filter bytes; extra chunks stand before IDAT.
inline Bytes make_png(const Ihdr& header, const Bytes& raw, const Bytes& extra = {}) {
  return joined({png_signature(), header.chunk(), extra, png_chunk("IDAT", deflated(raw)),
                 png_chunk("IEND", {})});
}

struct JpegMaking {
  int quality = 75;
  int h = 2;  // sampling factors of the first component
  int v = 2;
  bool progressive = false;
  bool arithmetic = false;
  bool grey = false;
  bool rgb = false;
};

// The pattern of the reference tables: 37x29 with R = 5x+3y, G = x*x+7y, B = 9*(x xor y).
inline Bytes pattern_pixels(uint32_t width, uint32_t height) {
  Bytes out;
  for (uint32_t y = 0; y < height; ++y) {
    for (uint32_t x = 0; x < width; ++x) {
      out.push_back(static_cast<uint8_t>(5 * x + 3 * y));
      out.push_back(static_cast<uint8_t>(x * x + 7 * y));
      out.push_back(static_cast<uint8_t>(9 * (x ^ y)));
    }
  }
  return out;
}

inline Bytes finish_jpeg(jpeg_compress_struct& info, const Bytes& pixels, uint32_t width,
                         size_t channels, unsigned char*& memory, unsigned long& size) {
  for (size_t y = 0; info.next_scanline < info.image_height; ++y) {
    JSAMPROW row = const_cast<JSAMPROW>(pixels.data() + y * width * channels);
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  jpeg_destroy_compress(&info);
  Bytes out(memory, memory + size);
  std::free(memory);
  return out;
}

inline Bytes make_jpeg(uint32_t width, uint32_t height, const JpegMaking& how) {
  jpeg_compress_struct info{};
  jpeg_error_mgr errors{};
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* memory = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&info, &memory, &size);
  info.image_width = width;
  info.image_height = height;
  info.input_components = 3;
  info.in_color_space = JCS_RGB;
  jpeg_set_defaults(&info);
  if (how.grey) jpeg_set_colorspace(&info, JCS_GRAYSCALE);
  if (how.rgb) jpeg_set_colorspace(&info, JCS_RGB);
  jpeg_set_quality(&info, how.quality, FALSE);
  if (!how.grey && !how.rgb) {
    info.comp_info[0].h_samp_factor = how.h;
    info.comp_info[0].v_samp_factor = how.v;
  }
  info.arith_code = how.arithmetic ? TRUE : FALSE;
  if (how.progressive) jpeg_simple_progression(&info);
  jpeg_start_compress(&info, TRUE);
  return finish_jpeg(info, pattern_pixels(width, height), width, 3, memory, size);
}

// A CMYK picture of one raw colour, without or with an Adobe marker (transform 0, or 2 for YCCK).
inline Bytes make_cmyk_jpeg(const Bytes& cmyk, bool adobe, bool ycck) {
  jpeg_compress_struct info{};
  jpeg_error_mgr errors{};
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* memory = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&info, &memory, &size);
  info.image_width = info.image_height = 8;
  info.input_components = 4;
  info.in_color_space = JCS_CMYK;
  jpeg_set_defaults(&info);
  jpeg_set_colorspace(&info, ycck ? JCS_YCCK : JCS_CMYK);
  jpeg_set_quality(&info, 100, FALSE);
  info.write_Adobe_marker = adobe ? TRUE : FALSE;
  jpeg_start_compress(&info, TRUE);
  Bytes pixels;
  for (int i = 0; i < 64; ++i) pixels.insert(pixels.end(), cmyk.begin(), cmyk.end());
  return finish_jpeg(info, pixels, 8, 4, memory, size);
}

}  // namespace npuseg::test

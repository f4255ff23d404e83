// SPDX-License-Identifier: Apache-2.0
// JPEG by libjpeg's suspending interface: end of data suspends instead of inventing an end marker,
// so a file that was cut is told from a whole one. Warnings do not matter, errors jump.
//
// Everything with a destructor lives in callers of the functions that set the jump target.
#include <algorithm>
#include <climits>
#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "image/orientation.h"
#include "image/picture.h"
#include "image/picture_rules.h"

#ifdef NPUSEG_HAVE_JPEG
#include <jpeglib.h>
#endif

namespace npuseg::image {

using core::Code;
using core::format;
using core::Result;
using core::Status;

#ifdef NPUSEG_HAVE_JPEG

namespace {

constexpr uint8_t kStartOfScan = 0xDA;
constexpr uint8_t kEndOfImage = 0xD9;
constexpr uint8_t kApp1 = 0xE1;

// What the markers before the first scan say.
struct Header {
  bool has_frame = false;
  uint32_t precision = 0;
  uint32_t width = 0;
  uint32_t height = 0;
  uint32_t components = 0;
  std::vector<uint8_t> exif;  // TIFF blocks of all Exif segments, joined
  std::string xmp;
};

bool is_frame_marker(uint8_t code) {
  return code >= 0xC0 && code <= 0xCF && code != 0xC4 && code != 0xC8 && code != 0xCC;
}

void read_app1(std::span<const uint8_t> body, Header& header) {
  using namespace std::string_view_literals;
  const std::string_view text(reinterpret_cast<const char*>(body.data()), body.size());
  constexpr std::string_view kExif = "Exif\0\0"sv;
  constexpr std::string_view kXmp = "http://ns.adobe.com/xap/1.0/\0"sv;
  if (text.starts_with(kExif)) {
    header.exif.insert(header.exif.end(), body.begin() + kExif.size(), body.end());
  } else if (text.starts_with(kXmp)) {
    header.xmp = text.substr(kXmp.size());
  }
}

// Walks the segments up to the first scan. Stops quietly where the file ends or makes no sense:
// then libjpeg says what is wrong.
Header walk_segments(std::span<const uint8_t> bytes) {
  Header header;
  size_t at = 2;
  while (at + 1 < bytes.size()) {
    if (bytes[at] != 0xFF || bytes[at + 1] == 0xFF || bytes[at + 1] == 0) {
      ++at;
      continue;
    }
    const uint8_t code = bytes[at + 1];
    at += 2;
    if (code == kStartOfScan || code == kEndOfImage) break;
    if (code == 0x01 || (code >= 0xD0 && code <= 0xD8)) continue;  // no length
    if (bytes.size() - at < 2) break;
    const size_t length = static_cast<size_t>(bytes[at]) << 8 | bytes[at + 1];
    if (length < 2 || length > bytes.size() - at) break;
    const std::span<const uint8_t> body = bytes.subspan(at + 2, length - 2);
    if (is_frame_marker(code) && body.size() >= 6) {
      header.has_frame = true;
      header.precision = body[0];
      header.height = static_cast<uint32_t>(body[1]) << 8 | body[2];
      header.width = static_cast<uint32_t>(body[3]) << 8 | body[4];
      header.components = body[5];
    } else if (code == kApp1) {
      read_app1(body, header);
    }
    at += length;
  }
  return header;
}

Status corrupt(const std::string& where, const char* why) {
  return Status(
      Code::kCorruptData,
      format("damaged JPEG: %s: %s; get an undamaged copy of the picture", where.c_str(), why));
}

Status truncated(const std::string& where) {
  return Status(Code::kCorruptData,
                format("truncated JPEG: %s: the file ends before the picture does; get a complete "
                       "copy",
                       where.c_str()));
}

Status check_frame(uint32_t precision, uint32_t components, uint32_t width, uint32_t height,
                   const DecodeLimits& limits, const std::string& where) {
  if (precision != 8) {
    return Status(Code::kUnsupported,
                  format("JPEG not supported: %s: %u bits a sample, only 8 are; convert it to an "
                         "8-bit JPEG or to PNG",
                         where.c_str(), precision));
  }
  if (components != 1 && components != 3 && components != 4) {
    return Status(Code::kUnsupported,
                  format("JPEG not supported: %s: %u components, only 1, 3 and 4 are; convert it "
                         "to RGB",
                         where.c_str(), components));
  }
  if (width == 0 || height == 0) return corrupt(where, "its header says a side of 0 pixels");
  return check_picture_size(width, height, limits, where);
}

enum class Outcome : uint8_t { kOk, kTruncated, kCorrupt, kTooManyScans };

// All state of one decode. Plain data: a longjmp may leave any function that only uses this.
struct Decoder {
  jpeg_decompress_struct info{};
  jpeg_error_mgr errors{};
  jpeg_source_mgr source{};
  jpeg_progress_mgr progress{};
  std::jmp_buf jump{};
  bool created = false;
  bool finish_early = false;
  bool end_marker_given = false;
  bool too_many_scans = false;
  uint32_t max_scans = 0;
  char message[JMSG_LENGTH_MAX] = {};

  Decoder() = default;
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;
  ~Decoder() {
    if (created) jpeg_destroy_decompress(&info);
  }
};

Decoder& decoder_of(j_common_ptr info) { return *static_cast<Decoder*>(info->client_data); }

[[noreturn]] void on_error(j_common_ptr info) {
  Decoder& decoder = decoder_of(info);
  info->err->format_message(info, decoder.message);
  std::longjmp(decoder.jump, 1);
}

void on_message(j_common_ptr) {}
void on_emit(j_common_ptr, int) {}

void source_nothing(j_decompress_ptr) {}

constexpr JOCTET kEndMarker[2] = {0xFF, kEndOfImage};

boolean source_fill(j_decompress_ptr info) {
  Decoder& decoder = decoder_of(reinterpret_cast<j_common_ptr>(info));
  if (!decoder.finish_early || decoder.end_marker_given) return FALSE;
  decoder.end_marker_given = true;
  decoder.source.next_input_byte = kEndMarker;
  decoder.source.bytes_in_buffer = sizeof kEndMarker;
  return TRUE;
}

void source_skip(j_decompress_ptr info, long count) {
  if (count <= 0) return;
  jpeg_source_mgr& source = *info->src;
  const size_t step = std::min(static_cast<size_t>(count), source.bytes_in_buffer);
  source.next_input_byte += step;
  source.bytes_in_buffer -= step;
}

void on_progress(j_common_ptr info) {
  Decoder& decoder = decoder_of(info);
  const int scan = decoder.info.input_scan_number;
  if (scan > 0 && static_cast<uint32_t>(scan) > decoder.max_scans) {
    decoder.too_many_scans = true;
    std::longjmp(decoder.jump, 1);
  }
}

Outcome failed(const Decoder& decoder) {
  return decoder.too_many_scans ? Outcome::kTooManyScans : Outcome::kCorrupt;
}

Outcome read_header(Decoder& decoder, const uint8_t* bytes, size_t size) {
  if (setjmp(decoder.jump) != 0) return failed(decoder);
  jpeg_decompress_struct& info = decoder.info;
  info.err = jpeg_std_error(&decoder.errors);
  decoder.errors.error_exit = on_error;
  decoder.errors.output_message = on_message;
  decoder.errors.emit_message = on_emit;
  info.client_data = &decoder;
  jpeg_create_decompress(&info);
  decoder.created = true;
  info.client_data = &decoder;
  decoder.source.next_input_byte = bytes;
  decoder.source.bytes_in_buffer = size;
  decoder.source.init_source = source_nothing;
  decoder.source.fill_input_buffer = source_fill;
  decoder.source.skip_input_data = source_skip;
  decoder.source.resync_to_restart = jpeg_resync_to_restart;
  decoder.source.term_source = source_nothing;
  info.src = &decoder.source;
  decoder.progress.progress_monitor = on_progress;
  info.progress = &decoder.progress;
  int answer = JPEG_HEADER_TABLES_ONLY;
  while (answer == JPEG_HEADER_TABLES_ONLY) answer = jpeg_read_header(&info, FALSE);
  return answer == JPEG_HEADER_OK ? Outcome::kOk : Outcome::kTruncated;
}

Outcome start(Decoder& decoder) {
  if (setjmp(decoder.jump) != 0) return failed(decoder);
  jpeg_decompress_struct& info = decoder.info;
  switch (info.num_components) {
    case 1:
      info.out_color_space = JCS_GRAYSCALE;
      break;
    case 3:
      info.out_color_space = JCS_RGB;
      break;
    default:
      info.out_color_space = JCS_CMYK;
      break;
  }
  // A progressive file keeps all coefficients (2 bytes each) of blocks rounded up to whole MCUs.
  const unsigned long long coefficients = (info.image_width + 64ull) * (info.image_height + 64ull) *
                                          static_cast<unsigned long long>(info.num_components);
  const unsigned long long bytes = coefficients * 2 + (64ull << 20);
  constexpr unsigned long long kMost = static_cast<unsigned long long>(LONG_MAX);
  info.mem->max_memory_to_use = static_cast<long>(std::min(bytes, kMost));
  return jpeg_start_decompress(&info) ? Outcome::kOk : Outcome::kTruncated;
}

// One row of libjpeg samples (1, 3 or 4 a pixel) to `row`.
Outcome read_row(Decoder& decoder, uint8_t* row) {
  if (setjmp(decoder.jump) != 0) return failed(decoder);
  JSAMPROW rows[1] = {row};
  return jpeg_read_scanlines(&decoder.info, rows, 1) == 1 ? Outcome::kOk : Outcome::kTruncated;
}

Status status_of(Outcome outcome, const Decoder& decoder, const DecodeLimits& limits,
                 const std::string& where) {
  switch (outcome) {
    case Outcome::kOk:
      return {};
    case Outcome::kTruncated:
      return truncated(where);
    case Outcome::kTooManyScans:
      return Status(Code::kLimitExceeded,
                    format("JPEG with too many scans: %s: more than %u; write the picture anew or "
                           "raise the limit",
                           where.c_str(), limits.max_scans));
    case Outcome::kCorrupt:
      break;
  }
  return corrupt(where, decoder.message);
}

void expand_row(const uint8_t* samples, int components, uint32_t width, uint8_t* rgb) {
  if (components == 1) {
    for (uint32_t x = 0; x < width; ++x, rgb += 3) rgb[0] = rgb[1] = rgb[2] = samples[x];
    return;
  }
  // Inverted ink, whether or not an Adobe marker says so: colour times black.
  for (uint32_t x = 0; x < width; ++x, rgb += 3, samples += 4) {
    const uint32_t black = samples[3];
    rgb[0] = div255(samples[0] * black);
    rgb[1] = div255(samples[1] * black);
    rgb[2] = div255(samples[2] * black);
  }
}

}  // namespace

Result<Picture> decode_jpeg(std::span<const uint8_t> bytes, const DecodeOptions& options,
                            const std::string& where) {
  NPUSEG_RETURN_IF_ERROR(check_file_size(bytes.size(), options.limits, where));
  if (bytes.size() < 3 || bytes[0] != 0xFF || bytes[1] != 0xD8 || bytes[2] != 0xFF) {
    return Status(
        Code::kCorruptData,
        format("not a JPEG: %s: it does not begin with FF D8 FF; give a JPEG file", where.c_str()));
  }
  const Header header = walk_segments(bytes);
  if (header.has_frame) {
    NPUSEG_RETURN_IF_ERROR(check_frame(header.precision, header.components, header.width,
                                       header.height, options.limits, where));
  }
  Decoder decoder;
  decoder.finish_early = options.accept_truncated;
  decoder.max_scans = options.limits.max_scans;
  NPUSEG_RETURN_IF_ERROR(
      status_of(read_header(decoder, bytes.data(), bytes.size()), decoder, options.limits, where));
  const jpeg_decompress_struct& info = decoder.info;
  NPUSEG_RETURN_IF_ERROR(check_frame(static_cast<uint32_t>(info.data_precision),
                                     static_cast<uint32_t>(info.num_components), info.image_width,
                                     info.image_height, options.limits, where));
  NPUSEG_RETURN_IF_ERROR(status_of(start(decoder), decoder, options.limits, where));
  NPUSEG_ASSIGN_OR_RETURN(Picture picture,
                          Picture::make(info.output_width, info.output_height, options.budget));
  const int components = info.output_components;
  std::vector<uint8_t> samples;
  if (components != 3) samples.resize(size_t{picture.width} * static_cast<size_t>(components));
  for (uint32_t y = 0; y < picture.height; ++y) {
    uint8_t* row = picture.row(y);
    NPUSEG_RETURN_IF_ERROR(status_of(read_row(decoder, components == 3 ? row : samples.data()),
                                     decoder, options.limits, where));
    if (components != 3) expand_row(samples.data(), components, picture.width, row);
  }
  uint32_t orientation = orientation_of_tiff(header.exif);
  if (orientation == 0) orientation = orientation_of_xmp(header.xmp);
  return finish_orientation(std::move(picture), orientation, options);
}

#else

Result<Picture> decode_jpeg(std::span<const uint8_t>, const DecodeOptions&,
                            const std::string& where) {
  return Status(Code::kUnsupported,
                format("JPEG not supported: %s: the library was built without it "
                       "(NPUSEG_WITH_JPEG=OFF); convert the picture to PNG or hand over pixels",
                       where.c_str()));
}

#endif

}  // namespace npuseg::image

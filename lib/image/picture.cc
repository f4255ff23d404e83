// SPDX-License-Identifier: Apache-2.0
// Picture memory and the choice of decoder.
#include "image/picture.h"

#include <cstring>
#include <utility>

#include "image/picture_rules.h"

namespace npuseg::image {

using core::Code;
using core::format;
using core::Result;
using core::Status;

Result<Picture> Picture::make(uint32_t width, uint32_t height,
                              const core::MemoryBudgetPtr& budget) {
  if (width == 0 || height == 0) {
    return Status(Code::kInvalidArgument,
                  format("picture of %ux%u pixels: a side is zero; give both sides at least 1",
                         width, height));
  }
  const uint64_t pixels = uint64_t{width} * height;
  if (pixels > SIZE_MAX / 3) {
    return Status(Code::kLimitExceeded,
                  format("picture of %ux%u pixels: more bytes than addresses; use a smaller one",
                         width, height));
  }
  Picture picture;
  picture.width = width;
  picture.height = height;
  NPUSEG_ASSIGN_OR_RETURN(
      picture.rgb, core::Buffer::make(budget, static_cast<size_t>(pixels) * 3, "picture pixels"));
  return picture;
}

Result<Picture> Picture::copy_of(const RgbView& view) {
  NPUSEG_ASSIGN_OR_RETURN(Picture picture, make(view.width, view.height));
  for (size_t y = 0; y < view.height; ++y) {
    std::memcpy(picture.row(y), view.row(y), picture.stride());
  }
  return picture;
}

Status check_picture_size(uint64_t width, uint64_t height, const DecodeLimits& limits,
                          const std::string& where) {
  if (width > limits.max_side || height > limits.max_side) {
    return Status(Code::kLimitExceeded,
                  format("picture too large: %s: %llux%llu pixels, a side may have %u; make the "
                         "picture smaller or raise the limit",
                         where.c_str(), static_cast<unsigned long long>(width),
                         static_cast<unsigned long long>(height), limits.max_side));
  }
  if (width * height > limits.max_pixels) {  // both are below 2^32 here
    return Status(
        Code::kLimitExceeded,
        format("picture too large: %s: %llux%llu pixels are %llu, the limit is %llu; make "
               "the picture smaller or raise the limit",
               where.c_str(), static_cast<unsigned long long>(width),
               static_cast<unsigned long long>(height),
               static_cast<unsigned long long>(width * height),
               static_cast<unsigned long long>(limits.max_pixels)));
  }
  return {};
}

namespace {

bool starts_with(std::span<const uint8_t> bytes, std::string_view text, size_t at = 0) {
  return bytes.size() >= at + text.size() &&
         std::memcmp(bytes.data() + at, text.data(), text.size()) == 0;
}

bool is_heif_brand(std::span<const uint8_t> bytes) {
  for (const char* brand : {"heic", "heix", "hevc", "heim", "heis", "mif1", "msf1"}) {
    if (starts_with(bytes, brand, 8)) return true;
  }
  return false;
}

}  // namespace

const char* format_by_signature(std::span<const uint8_t> bytes) {
  using namespace std::string_view_literals;
  if (starts_with(bytes, "\xFF\xD8\xFF"sv)) return "JPEG";
  if (starts_with(bytes, "\x89PNG\r\n\x1A\n"sv)) return "PNG";
  if (starts_with(bytes, "RIFF"sv) && starts_with(bytes, "WEBP"sv, 8)) return "WebP";
  if (starts_with(bytes, "GIF87a"sv) || starts_with(bytes, "GIF89a"sv)) return "GIF";
  if (starts_with(bytes, "II*\0"sv) || starts_with(bytes, "MM\0*"sv) ||
      starts_with(bytes, "II+\0"sv) || starts_with(bytes, "MM\0+"sv)) {
    return "TIFF";
  }
  if (starts_with(bytes, "ftyp"sv, 4)) {
    if (starts_with(bytes, "avif"sv, 8) || starts_with(bytes, "avis"sv, 8)) return "AVIF";
    if (is_heif_brand(bytes)) return "HEIC";
  }
  if (starts_with(bytes, "\0\0\0\x0CJXL \r\n\x87\n"sv) || starts_with(bytes, "\xFF\x0A"sv)) {
    return "JPEG XL";
  }
  if (starts_with(bytes, "\0\0\0\x0CjP  \r\n\x87\n"sv) ||
      starts_with(bytes, "\xFF\x4F\xFF\x51"sv)) {
    return "JPEG 2000";
  }
  if (starts_with(bytes, "%PDF-"sv)) return "PDF";
  if (starts_with(bytes, "qoif"sv)) return "QOI";
  if (starts_with(bytes, "8BPS"sv)) return "Photoshop";
  if (starts_with(bytes, "BM"sv) && bytes.size() >= 14) return "BMP";
  if (bytes.size() >= 3 && bytes[0] == 'P' && bytes[1] >= '1' && bytes[1] <= '7' &&
      (bytes[2] == '\n' || bytes[2] == ' ' || bytes[2] == '\r' || bytes[2] == '\t')) {
    return "PNM";
  }
  return nullptr;
}

Status check_file_size(size_t bytes, const DecodeLimits& limits, const std::string& where) {
  if (bytes > limits.max_file_bytes) {
    return Status(
        Code::kLimitExceeded,
        format("picture too large: %s: the file has %zu bytes, the limit is %llu; make "
               "the picture smaller or raise the limit",
               where.c_str(), bytes, static_cast<unsigned long long>(limits.max_file_bytes)));
  }
  return {};
}

Result<Picture> decode(std::span<const uint8_t> bytes, const DecodeOptions& options,
                       const std::string& where) {
  NPUSEG_RETURN_IF_ERROR(check_file_size(bytes.size(), options.limits, where));
  if (bytes.empty()) {
    return Status(
        Code::kCorruptData,
        format("not a picture: %s: the file is empty; give a JPEG or PNG file", where.c_str()));
  }
  const char* kind = format_by_signature(bytes);
  if (kind != nullptr && std::strcmp(kind, "JPEG") == 0) return decode_jpeg(bytes, options, where);
  if (kind != nullptr && std::strcmp(kind, "PNG") == 0) return decode_png(bytes, options, where);
  if (kind != nullptr) {
    return Status(Code::kUnsupported,
                  format("picture format not supported: %s: this is a %s file; convert it to JPEG "
                         "or PNG (PNG keeps every pixel)",
                         where.c_str(), kind));
  }
  return Status(Code::kUnsupported,
                format("not a picture: %s: the file begins like neither JPEG nor PNG; give a JPEG "
                       "or PNG file",
                       where.c_str()));
}

}  // namespace npuseg::image

// SPDX-License-Identifier: Apache-2.0
#include "image/orientation.h"

#include <algorithm>
#include <utility>

namespace npuseg::image {

namespace {

class TiffReader {
 public:
  TiffReader(std::span<const uint8_t> bytes, bool big_endian)
      : bytes_(bytes), big_endian_(big_endian) {}

  [[nodiscard]] bool has(uint64_t at, uint64_t count) const {
    return at <= bytes_.size() && count <= bytes_.size() - at;
  }
  [[nodiscard]] uint32_t u16(uint64_t at) const {
    const uint32_t a = bytes_[at];
    const uint32_t b = bytes_[at + 1];
    return big_endian_ ? a << 8 | b : b << 8 | a;
  }
  [[nodiscard]] uint32_t u32(uint64_t at) const {
    const uint32_t a = u16(at);
    const uint32_t b = u16(at + 2);
    return big_endian_ ? a << 16 | b : b << 16 | a;
  }

 private:
  std::span<const uint8_t> bytes_;
  bool big_endian_;
};

constexpr uint32_t kOrientationTag = 0x0112;
constexpr uint32_t kTypeShort = 3;
constexpr uint32_t kTypeLong = 4;
// Turned pictures are written in square tiles, so that both sides stay in the cache.
constexpr uint32_t kTile = 32;

}  // namespace

uint32_t orientation_of_tiff(std::span<const uint8_t> tiff) {
  // Some writers put the JPEG prefix in front of the block, even in PNG and even twice.
  constexpr uint8_t kPrefix[6] = {'E', 'x', 'i', 'f', 0, 0};
  for (int i = 0; i < 2 && tiff.size() >= 6 && std::equal(kPrefix, kPrefix + 6, tiff.data()); ++i) {
    tiff = tiff.subspan(6);
  }
  if (tiff.size() < 8) return 0;
  const bool big_endian = tiff[0] == 'M' && tiff[1] == 'M';
  if (!big_endian && !(tiff[0] == 'I' && tiff[1] == 'I')) return 0;
  const TiffReader reader(tiff, big_endian);
  if (reader.u16(2) != 42) return 0;
  const uint64_t directory = reader.u32(4);
  if (!reader.has(directory, 2)) return 0;
  const uint32_t entries = reader.u16(directory);
  uint32_t found = 0;
  for (uint32_t i = 0; i < entries; ++i) {
    const uint64_t entry = directory + 2 + uint64_t{i} * 12;
    if (!reader.has(entry, 12)) break;
    if (reader.u16(entry) != kOrientationTag || reader.u32(entry + 4) != 1) continue;
    const uint32_t type = reader.u16(entry + 2);
    if (type == kTypeShort) found = std::max(reader.u16(entry + 8), 1u);
    if (type == kTypeLong) found = std::max(reader.u32(entry + 8), 1u);
  }
  return found;
}

uint32_t orientation_of_xmp(std::string_view xmp) {
  constexpr std::string_view kName = "tiff:Orientation";
  for (size_t at = xmp.find(kName); at != std::string_view::npos; at = xmp.find(kName, at + 1)) {
    std::string_view rest = xmp.substr(at + kName.size());
    if (rest.starts_with("=\"")) {
      rest.remove_prefix(2);
    } else if (rest.starts_with(">")) {
      rest.remove_prefix(1);
    } else {
      continue;
    }
    if (!rest.empty() && rest[0] >= '0' && rest[0] <= '9') {
      return static_cast<uint32_t>(rest[0] - '0');
    }
  }
  return 0;
}

core::Result<Picture> turn_upright(Picture picture, uint32_t orientation,
                                   const core::MemoryBudgetPtr& budget) {
  if (orientation < 2 || orientation > 8) return picture;
  const uint32_t w = picture.width;
  const uint32_t h = picture.height;
  const bool swaps = orientation >= 5;
  NPUSEG_ASSIGN_OR_RETURN(Picture out, Picture::make(swaps ? h : w, swaps ? w : h, budget));
  // Source pixel of output (x, y): (x, y) or (y, x), then mirrored per axis.
  const bool mirror_x =
      orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
  const bool mirror_y =
      orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
  for (uint32_t y0 = 0; y0 < out.height; y0 += kTile) {
    for (uint32_t x0 = 0; x0 < out.width; x0 += kTile) {
      const uint32_t y1 = std::min(out.height - y0, kTile) + y0;
      const uint32_t x1 = std::min(out.width - x0, kTile) + x0;
      for (uint32_t y = y0; y < y1; ++y) {
        uint8_t* to = out.row(y) + size_t{x0} * 3;
        for (uint32_t x = x0; x < x1; ++x, to += 3) {
          const uint32_t along = swaps ? y : x;
          const uint32_t down = swaps ? x : y;
          const uint8_t* from = picture.row(mirror_y ? h - 1 - down : down) +
                                size_t{mirror_x ? w - 1 - along : along} * 3;
          to[0] = from[0];
          to[1] = from[1];
          to[2] = from[2];
        }
      }
    }
  }
  return out;
}

core::Result<Picture> finish_orientation(Picture picture, uint32_t orientation,
                                         const DecodeOptions& options) {
  if (options.apply_exif) {
    NPUSEG_ASSIGN_OR_RETURN(picture, turn_upright(std::move(picture), orientation, options.budget));
  }
  picture.orientation = orientation >= 2 && orientation <= 8 ? orientation : 1;
  return picture;
}

}  // namespace npuseg::image

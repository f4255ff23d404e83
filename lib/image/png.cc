// SPDX-License-Identifier: Apache-2.0
// PNG by a chunk reader of our own on zlib: libpng is strict where the reference is lenient and the
// other way round (checksums, order, transparency), so its pixels could not be had for every file.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "image/orientation.h"
#include "image/picture.h"
#include "image/picture_rules.h"
#include "image/png_pixels.h"

#ifdef NPUSEG_HAVE_PNG
#include <zlib.h>
#endif

namespace npuseg::image {

using core::Code;
using core::format;
using core::Result;
using core::Status;

#ifdef NPUSEG_HAVE_PNG

namespace {

using namespace std::string_view_literals;

// Metadata is inflated only for the orientation, and no further than this.
constexpr size_t kMaxText = size_t{1} << 20;
// Blocks of the compressed data that the reference hands to zlib at once; it decides whether a
// wrong checksum right after the last row is still seen.
constexpr size_t kFeed = 65536;
// zlib counts bytes in 32 bits, a pixel has up to 8.
constexpr uint32_t kMaxWidth = uint32_t{1} << 28;

uint32_t be32(const uint8_t* p) {
  return uint32_t{p[0]} << 24 | uint32_t{p[1]} << 16 | uint32_t{p[2]} << 8 | p[3];
}
uint16_t be16(const uint8_t* p) { return static_cast<uint16_t>(p[0] << 8 | p[1]); }

struct Chunk {
  std::string_view type;
  std::span<const uint8_t> body;
  bool whole = false;  // body and checksum are inside the file
  bool checksum_ok = false;
};

bool is_type_character(uint8_t c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

// Walks chunks. A body that passes the end of the file is cut there.
class ChunkReader {
 public:
  explicit ChunkReader(std::span<const uint8_t> bytes) : bytes_(bytes) {}

  enum class Next : uint8_t { kChunk, kEnd, kBroken };
  Next next(Chunk& chunk, bool check) {
    if (bytes_.size() - at_ < 8) return Next::kEnd;
    const uint8_t* head = bytes_.data() + at_;
    const uint32_t length = be32(head);
    for (int i = 4; i < 8; ++i) {
      if (!is_type_character(head[i])) return Next::kBroken;
    }
    chunk.type = {reinterpret_cast<const char*>(head + 4), 4};
    at_ += 8;
    const size_t left = bytes_.size() - at_;
    chunk.whole = left >= 4 && length <= left - 4;
    chunk.body = bytes_.subspan(at_, std::min<size_t>(length, left));
    chunk.checksum_ok = false;
    if (chunk.whole && check) {
      const uLong sum = crc32_z(crc32_z(0, nullptr, 0), head + 4, size_t{4} + length);
      chunk.checksum_ok = sum == be32(bytes_.data() + at_ + length);
    }
    at_ += chunk.whole ? size_t{length} + 4 : left;
    return Next::kChunk;
  }

 private:
  std::span<const uint8_t> bytes_;
  size_t at_ = 8;
};

// Inflates at most kMaxText bytes of metadata; empty when damaged or longer.
std::string inflate_text(std::span<const uint8_t> bytes) {
  if (bytes.empty()) return {};
  z_stream stream{};
  if (inflateInit(&stream) != Z_OK) return {};
  std::string text(kMaxText, '\0');
  stream.next_in = const_cast<Bytef*>(bytes.data());
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(text.data());
  stream.avail_out = static_cast<uInt>(text.size());
  const int answer = inflate(&stream, Z_FINISH);
  text.resize(text.size() - stream.avail_out);
  inflateEnd(&stream);
  if (answer != Z_STREAM_END) text.clear();
  return text;
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// "\nexif\n   1234\n4578..." : three line ends, then hexadecimal digits.
std::vector<uint8_t> raw_profile(std::string_view text) {
  for (int line = 0; line < 3; ++line) {
    const size_t end = text.find('\n');
    if (end == std::string_view::npos) return {};
    text.remove_prefix(end + 1);
  }
  std::vector<uint8_t> bytes;
  int high = -1;
  for (const char c : text) {
    if (c == '\n' || c == ' ' || c == '\r') continue;
    const int digit = hex_digit(c);
    if (digit < 0) return {};
    if (high < 0) {
      high = digit;
    } else {
      bytes.push_back(static_cast<uint8_t>(high << 4 | digit));
      high = -1;
    }
  }
  return bytes;
}

// A text chunk's value as it stands in the file; inflated only when it is looked at.
struct Text {
  std::span<const uint8_t> bytes;
  bool compressed = false;

  [[nodiscard]] std::string read() const {
    if (compressed) return inflate_text(bytes);
    return {reinterpret_cast<const char*>(bytes.data()), std::min(bytes.size(), kMaxText)};
  }
};

// Where the orientation may stand; the last chunk of a kind counts.
struct Metadata {
  std::span<const uint8_t> exif;
  Text raw_exif;
  Text xmp;

  void take(const Chunk& chunk);
  [[nodiscard]] uint32_t orientation() const {
    const uint32_t value = exif.empty() ? orientation_of_tiff(raw_profile(raw_exif.read()))
                                        : orientation_of_tiff(exif);
    return value != 0 ? value : orientation_of_xmp(xmp.read());
  }
};

void Metadata::take(const Chunk& chunk) {
  constexpr std::string_view kRaw = "Raw profile type exif\0"sv;
  constexpr std::string_view kXmp = "XML:com.adobe.xmp\0"sv;
  const std::string_view text(reinterpret_cast<const char*>(chunk.body.data()), chunk.body.size());
  if (chunk.type == "eXIf") exif = chunk.body;
  if (chunk.type != "tEXt" && chunk.type != "zTXt" && chunk.type != "iTXt") return;
  const bool is_xmp = text.starts_with(kXmp);
  if (!is_xmp && !text.starts_with(kRaw)) return;
  size_t at = is_xmp ? kXmp.size() : kRaw.size();
  bool compressed = false;
  if (chunk.type == "zTXt") {
    if (at >= text.size() || text[at] != 0) return;  // compression method
    compressed = true;
    ++at;
  } else if (chunk.type == "iTXt") {
    if (text.size() - at < 2) return;
    compressed = text[at] != 0;
    at += 2;
    for (int field = 0; field < 2; ++field) {  // language, translated keyword
      const size_t end = text.find('\0', at);
      if (end == std::string_view::npos) return;
      at = end + 1;
    }
  }
  (is_xmp ? xmp : raw_exif) = Text{chunk.body.subspan(at), compressed};
}

// Everything before the pixels.
struct Header {
  uint32_t width = 0;
  uint32_t height = 0;
  PngFormat pixels;
  bool interlaced = false;
  std::span<const uint8_t> palette;
  std::span<const uint8_t> transparency;
  bool has_transparency = false;
  bool has_image = false;
  Metadata metadata;
};

Status damaged(const std::string& where, const std::string& why) {
  return Status(Code::kCorruptData,
                format("damaged PNG: %s: %s; get an undamaged copy of the picture", where.c_str(),
                       why.c_str()));
}

Status truncated(const std::string& where) {
  return Status(Code::kCorruptData,
                format("truncated PNG: %s: the file ends before the picture does; get a complete "
                       "copy",
                       where.c_str()));
}

Status take_ihdr(std::span<const uint8_t> body, Header& header, const std::string& where) {
  if (body.size() < 13) return damaged(where, "its IHDR chunk is shorter than 13 bytes");
  header.width = be32(body.data());
  header.height = be32(body.data() + 4);
  header.pixels = {body[8], body[9]};
  header.interlaced = body[12] != 0;
  if (header.width == 0 || header.height == 0) {
    return damaged(where, "its header says a side of 0 pixels");
  }
  if (!header.pixels.valid()) {
    return damaged(where, format("colour type %u with %u bits a sample does not exist",
                                 header.pixels.colour_type, header.pixels.depth));
  }
  if (body[11] != 0) return damaged(where, format("filter method %u does not exist", body[11]));
  return {};
}

// Reads up to the first IDAT, which is left in `chunk`.
Status read_header(ChunkReader& reader, Chunk& chunk, Header& header, const DecodeLimits& limits,
                   const std::string& where) {
  for (;;) {
    switch (reader.next(chunk, true)) {
      case ChunkReader::Next::kEnd:
        return truncated(where);
      case ChunkReader::Next::kBroken:
        return damaged(where, "a chunk has an impossible name");
      case ChunkReader::Next::kChunk:
        break;
    }
    if (chunk.type == "IDAT") break;
    if (!chunk.whole) return truncated(where);
    if (!chunk.checksum_ok && chunk.type != "IEND") {
      return damaged(where, format("the checksum of chunk %.4s is wrong", chunk.type.data()));
    }
    if (chunk.type == "IHDR") {
      NPUSEG_RETURN_IF_ERROR(take_ihdr(chunk.body, header, where));
    } else if (chunk.type == "PLTE") {
      header.palette = chunk.body;
    } else if (chunk.type == "tRNS") {
      header.transparency = chunk.body;
      header.has_transparency = true;
    } else if (chunk.type == "IEND") {
      return damaged(where, "it holds no pixels (no IDAT chunk)");
    } else {
      header.metadata.take(chunk);
    }
  }
  if (header.width == 0) return damaged(where, "pixels come before the header (IHDR)");
  NPUSEG_RETURN_IF_ERROR(check_picture_size(header.width, header.height, limits, where));
  if (header.width > kMaxWidth) {
    return Status(Code::kLimitExceeded,
                  format("picture too large: %s: %u pixels wide, PNG rows may have %u; make the "
                         "picture smaller",
                         where.c_str(), header.width, kMaxWidth));
  }
  return {};
}

Result<PngPixels> make_pixels(const Header& header, const DecodeOptions& options,
                              const std::string& where) {
  PngPixels pixels(header.pixels, options.alpha, options.grey16);
  const uint32_t type = header.pixels.colour_type;
  if (type == 3) {
    const size_t entries = header.palette.size() / 3;
    if (entries > 256) {
      return damaged(where, format("its palette has %zu entries, more than 256", entries));
    }
    pixels.set_palette(header.palette.data(), static_cast<uint32_t>(entries));
    if (header.has_transparency) {
      pixels.set_palette_alpha(header.transparency.data(), static_cast<uint32_t>(std::min<size_t>(
                                                               header.transparency.size(), 256)));
    }
  } else if (header.has_transparency && (type == 0 || type == 2)) {
    const std::span<const uint8_t> t = header.transparency;
    if (t.size() < (type == 2 ? 6u : 2u)) return damaged(where, "its tRNS chunk is too short");
    const uint16_t first = be16(t.data());
    if (type == 0) pixels.set_transparent(first, first, first);
    if (type == 2) pixels.set_transparent(first, be16(t.data() + 2), be16(t.data() + 4));
  }
  pixels.finish();
  return pixels;
}

// The compressed stream over all IDAT chunks, row by row.
class RowSource {
 public:
  RowSource(ChunkReader& reader, const Chunk& first) : reader_(reader), left_(first.body) {}
  RowSource(const RowSource&) = delete;
  RowSource& operator=(const RowSource&) = delete;
  ~RowSource() {
    if (started_) inflateEnd(&stream_);
  }

  bool start() {
    started_ = inflateInit(&stream_) == Z_OK;
    return started_;
  }

  // kStreamEnd: the stream ended on a row boundary, before this row.
  enum class Row : uint8_t { kOk, kStreamEnd, kTruncated, kDamaged };
  // bytes: below 2^32 by kMaxWidth.
  Row read(uint8_t* row, size_t bytes) {
    if (ended_) return Row::kStreamEnd;
    stream_.next_out = row;
    stream_.avail_out = static_cast<uInt>(bytes);
    while (stream_.avail_out > 0) {
      if (stream_.avail_in == 0 && !refill()) return Row::kTruncated;
      const int answer = inflate(&stream_, Z_NO_FLUSH);
      if (answer == Z_STREAM_END) {
        ended_ = true;
        if (stream_.avail_out == bytes) return Row::kStreamEnd;
        if (stream_.avail_out > 0) return Row::kTruncated;
      } else if (answer != Z_OK && answer != Z_BUF_ERROR) {
        return Row::kDamaged;
      }
    }
    return Row::kOk;
  }

  // The first chunk after the pixels that refill() met, if any.
  [[nodiscard]] bool has_following() const { return has_following_; }
  [[nodiscard]] const Chunk& following() const { return following_; }
  // Consumes what is left of the IDAT chunks.
  void skip_rest() {
    left_ = {};
    while (!has_following_ && !at_end_) {
      next_chunk();
      left_ = {};
    }
  }

 private:
  bool next_chunk() {
    Chunk chunk;
    if (has_following_ || at_end_) return false;
    if (reader_.next(chunk, false) != ChunkReader::Next::kChunk) {
      at_end_ = true;
      return false;
    }
    if (chunk.type != "IDAT") {
      following_ = chunk;
      has_following_ = true;
      return false;
    }
    left_ = chunk.body;
    return true;
  }

  bool refill() {
    while (left_.empty()) {
      if (!next_chunk()) return false;
    }
    const size_t step = std::min(left_.size(), kFeed);
    stream_.next_in = const_cast<Bytef*>(left_.data());
    stream_.avail_in = static_cast<uInt>(step);
    left_ = left_.subspan(step);
    return true;
  }

  ChunkReader& reader_;
  std::span<const uint8_t> left_;
  Chunk following_;
  bool has_following_ = false;
  bool at_end_ = false;
  bool started_ = false;
  bool ended_ = false;
  z_stream stream_{};
};

// Undoes the filter of one row in place; `step` bytes a pixel (at least 1), `above` is the row
// before. False for a filter that does not exist.
bool unfilter(uint32_t filter, uint8_t* row, const uint8_t* above, size_t bytes, size_t step) {
  const auto add = [](uint8_t a, uint32_t b) { return static_cast<uint8_t>(a + b); };
  switch (filter) {
    case 0:
      return true;
    case 1:
      for (size_t i = step; i < bytes; ++i) row[i] = add(row[i], row[i - step]);
      return true;
    case 2:
      for (size_t i = 0; i < bytes; ++i) row[i] = add(row[i], above[i]);
      return true;
    case 3:
      for (size_t i = 0; i < bytes; ++i) {
        const uint32_t left = i >= step ? row[i - step] : 0;
        row[i] = add(row[i], (left + above[i]) >> 1);
      }
      return true;
    case 4:
      for (size_t i = 0; i < std::min(step, bytes); ++i) row[i] = add(row[i], above[i]);
      for (size_t i = step; i < bytes; ++i) {
        const int a = row[i - step];
        const int b = above[i];
        const int c = above[i - step];
        const int pa = std::abs(b - c);
        const int pb = std::abs(a - c);
        const int pc = std::abs(a + b - 2 * c);
        const int best = pa <= pb && pa <= pc ? a : (pb <= pc ? b : c);
        row[i] = add(row[i], static_cast<uint32_t>(best));
      }
      return true;
    default:
      return false;
  }
}

struct Pass {
  uint32_t x0, y0, dx, dy;
};
constexpr std::array<Pass, 7> kAdam7{{{0, 0, 8, 8},
                                      {4, 0, 8, 8},
                                      {0, 4, 4, 8},
                                      {2, 0, 4, 4},
                                      {0, 2, 2, 4},
                                      {1, 0, 2, 2},
                                      {0, 1, 1, 2}}};

class ImageReader {
 public:
  ImageReader(const Header& header, const PngPixels& pixels, RowSource& source, Picture& picture)
      : header_(header), pixels_(pixels), source_(source), picture_(picture) {}

  Status read(const std::string& where) {
    const uint64_t longest = row_bytes(header_.width);
    row_.resize(longest + 1);
    above_.resize(longest + 1);
    if (header_.interlaced) {
      fill_from(0);
      scratch_.resize(size_t{header_.width} * 3);
      for (const Pass& pass : kAdam7) NPUSEG_RETURN_IF_ERROR(read_pass(pass, where));
      return {};
    }
    return read_pass({0, 0, 1, 1}, where);
  }

 private:
  [[nodiscard]] size_t row_bytes(uint32_t pixels) const {
    return static_cast<size_t>((uint64_t{pixels} * header_.pixels.bits_per_pixel() + 7) / 8);
  }

  // Rows that the file does not hold have zero samples.
  void fill_from(uint32_t first) {
    const std::vector<uint8_t> zero(row_bytes(header_.width));
    for (uint32_t y = first; y < picture_.height; ++y) {
      pixels_.convert(zero.data(), picture_.width, picture_.row(y));
    }
  }

  Status read_pass(const Pass& pass, const std::string& where) {
    if (pass.x0 >= header_.width || pass.y0 >= header_.height) return {};
    const uint32_t columns = (header_.width - pass.x0 + pass.dx - 1) / pass.dx;
    const size_t bytes = row_bytes(columns);
    const size_t step = std::max<size_t>(1, header_.pixels.bits_per_pixel() / 8);
    std::fill(above_.begin(), above_.end(), uint8_t{0});
    for (uint32_t y = pass.y0; y < header_.height; y += pass.dy) {
      switch (source_.read(row_.data(), bytes + 1)) {
        case RowSource::Row::kOk:
          break;
        case RowSource::Row::kStreamEnd:
          if (!header_.interlaced) fill_from(y);
          return {};
        case RowSource::Row::kTruncated:
          return truncated(where);
        case RowSource::Row::kDamaged:
          return damaged(where, "its compressed data is broken");
      }
      if (!unfilter(row_[0], row_.data() + 1, above_.data() + 1, bytes, step)) {
        return damaged(where, format("row filter %u does not exist", row_[0]));
      }
      if (header_.interlaced) {
        pixels_.convert(row_.data() + 1, columns, scratch_.data());
        uint8_t* to = picture_.row(y) + size_t{pass.x0} * 3;
        for (uint32_t x = 0; x < columns; ++x, to += size_t{pass.dx} * 3) {
          std::memcpy(to, scratch_.data() + size_t{x} * 3, 3);
        }
      } else {
        pixels_.convert(row_.data() + 1, columns, picture_.row(y));
      }
      std::swap(row_, above_);
    }
    return {};
  }

  const Header& header_;
  const PngPixels& pixels_;
  RowSource& source_;
  Picture& picture_;
  std::vector<uint8_t> row_;
  std::vector<uint8_t> above_;
  std::vector<uint8_t> scratch_;
};

// eXIf and text may also stand behind the pixels.
void read_trailing(ChunkReader& reader, RowSource& source, Metadata& metadata) {
  source.skip_rest();
  if (!source.has_following()) return;
  Chunk chunk = source.following();
  while (chunk.whole && chunk.type != "IEND") {
    metadata.take(chunk);
    if (reader.next(chunk, false) != ChunkReader::Next::kChunk) return;
  }
}

}  // namespace

Result<Picture> decode_png(std::span<const uint8_t> bytes, const DecodeOptions& options,
                           const std::string& where) {
  NPUSEG_RETURN_IF_ERROR(check_file_size(bytes.size(), options.limits, where));
  constexpr std::string_view kSignature = "\x89PNG\r\n\x1A\n"sv;
  if (bytes.size() < kSignature.size() ||
      std::memcmp(bytes.data(), kSignature.data(), kSignature.size()) != 0) {
    return Status(Code::kCorruptData,
                  format("not a PNG: %s: it does not begin with a PNG signature; give a PNG file",
                         where.c_str()));
  }
  ChunkReader reader(bytes);
  Chunk chunk;
  Header header;
  NPUSEG_RETURN_IF_ERROR(read_header(reader, chunk, header, options.limits, where));
  NPUSEG_ASSIGN_OR_RETURN(PngPixels pixels, make_pixels(header, options, where));
  RowSource source(reader, chunk);
  if (!source.start()) return Status(Code::kOutOfMemory, "out of memory for zlib");
  NPUSEG_ASSIGN_OR_RETURN(Picture picture,
                          Picture::make(header.width, header.height, options.budget));
  ImageReader image(header, pixels, source, picture);
  NPUSEG_RETURN_IF_ERROR(image.read(where));
  read_trailing(reader, source, header.metadata);
  return finish_orientation(std::move(picture), header.metadata.orientation(), options);
}

#else

Result<Picture> decode_png(std::span<const uint8_t>, const DecodeOptions&,
                           const std::string& where) {
  return Status(Code::kUnsupported,
                format("PNG not supported: %s: the library was built without it "
                       "(NPUSEG_WITH_PNG=OFF); convert the picture to JPEG or hand over pixels",
                       where.c_str()));
}

#endif

}  // namespace npuseg::image

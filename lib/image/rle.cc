// SPDX-License-Identifier: Apache-2.0
#include "image/rle.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "image/rle_builder.h"

namespace npuseg::image {

using core::Code;
using core::format;
using core::Result;
using core::Status;

Status check_rle_size(uint32_t height, uint32_t width) {
  if (height == 0 || width == 0) {
    return Status(Code::kInvalidArgument,
                  format("mask of %ux%u (height x width): a side is zero; both must be at least 1",
                         height, width));
  }
  if (uint64_t{height} * width > UINT32_MAX) {
    return Status(Code::kLimitExceeded,
                  format("mask of %ux%u (height x width): run lengths count at most %u pixels; use "
                         "a smaller mask",
                         height, width, UINT32_MAX));
  }
  return {};
}

Result<Rle> rle_from_mask(const uint8_t* mask, size_t stride, uint32_t height, uint32_t width) {
  NPUSEG_RETURN_IF_ERROR(check_rle_size(height, width));
  // Columns are walked in groups, so that a cache line of every row is used while it is there.
  constexpr uint32_t kGroup = 32;
  RleBuilder all;
  std::vector<RleBuilder> columns(kGroup);
  for (uint32_t x0 = 0; x0 < width; x0 += kGroup) {
    const uint32_t group = std::min(kGroup, width - x0);
    for (uint32_t i = 0; i < group; ++i) columns[i].clear();
    for (uint32_t y = 0; y < height; ++y) {
      const uint8_t* row = mask + y * stride + x0;
      for (uint32_t i = 0; i < group; ++i) columns[i].add(row[i] != 0, 1);
    }
    for (uint32_t i = 0; i < group; ++i) all.append(columns[i]);
  }
  return Rle{height, width, std::move(all).take()};
}

Status rle_to_mask(const Rle& rle, uint8_t* mask, size_t stride) {
  NPUSEG_RETURN_IF_ERROR(check_rle_size(rle.height, rle.width));
  for (uint32_t y = 0; y < rle.height; ++y) std::memset(mask + y * stride, 0, rle.width);
  const uint64_t pixels = uint64_t{rle.height} * rle.width;
  uint64_t at = 0;
  for (size_t i = 0; i < rle.counts.size(); ++i) {
    const uint64_t end = at + rle.counts[i];
    if (end > pixels) break;
    if (i % 2 == 1) {
      for (uint64_t t = at; t < end;) {
        const uint64_t x = t / rle.height;
        const uint64_t column_end = std::min(end, (x + 1) * rle.height);
        for (uint64_t y = t - x * rle.height; t < column_end; ++t, ++y) mask[y * stride + x] = 255;
      }
    }
    at = end;
  }
  return {};
}

std::string rle_to_string(const Rle& rle) {
  std::string text;
  text.reserve(rle.counts.size() * 2);
  for (size_t i = 0; i < rle.counts.size(); ++i) {
    int64_t value = rle.counts[i];
    if (i > 2) value -= rle.counts[i - 2];
    for (bool more = true; more;) {
      int64_t group = value & 31;
      value >>= 5;
      more = (group & 16) != 0 ? value != -1 : value != 0;
      if (more) group |= 32;
      text.push_back(static_cast<char>(group + 48));
    }
  }
  return text;
}

Result<Rle> rle_from_string(std::string_view text, uint32_t height, uint32_t width) {
  NPUSEG_RETURN_IF_ERROR(check_rle_size(height, width));
  constexpr int kMaxGroups = 7;  // 35 bits hold any difference of two 32-bit counts
  std::vector<uint32_t> counts;
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    int64_t value = 0;
    bool more = true;
    for (int k = 0; more; ++k) {
      if (at == text.size()) {
        return Status(Code::kCorruptData,
                      format("compressed mask: the number at character %zu is not finished; the "
                             "string was cut",
                             begin));
      }
      const int group = static_cast<unsigned char>(text[at]) - 48;
      if (group < 0 || group > 63) {
        return Status(Code::kCorruptData,
                      format("compressed mask: character %zu (code %d) is not one of '0'..'o'; "
                             "unescape the string if it comes from JSON",
                             at, group + 48));
      }
      if (k == kMaxGroups) {
        return Status(Code::kCorruptData,
                      format("compressed mask: the number at character %zu has more than %d "
                             "groups; the string is damaged",
                             begin, kMaxGroups));
      }
      ++at;
      value |= int64_t{group & 31} << (5 * k);
      more = (group & 32) != 0;
      if (!more && (group & 16) != 0) value -= int64_t{1} << (5 * (k + 1));
    }
    if (counts.size() > 2) value += counts[counts.size() - 2];
    if (value < 0 || value > int64_t{UINT32_MAX}) {
      return Status(Code::kCorruptData,
                    format("compressed mask: run %zu has the impossible length %lld; the string is "
                           "damaged",
                           counts.size(), static_cast<long long>(value)));
    }
    counts.push_back(static_cast<uint32_t>(value));
  }
  return rle_from_counts(std::move(counts), height, width);
}

Result<Rle> rle_from_counts(std::vector<uint32_t> counts, uint32_t height, uint32_t width) {
  NPUSEG_RETURN_IF_ERROR(check_rle_size(height, width));
  uint64_t sum = 0;
  for (const uint32_t count : counts) sum += count;
  const uint64_t pixels = uint64_t{height} * width;
  if (sum != pixels) {
    return Status(Code::kCorruptData,
                  format("mask runs: they add up to %llu pixels, a mask of %ux%u (height x width) "
                         "has %llu; check the size",
                         static_cast<unsigned long long>(sum), height, width,
                         static_cast<unsigned long long>(pixels)));
  }
  return Rle{height, width, std::move(counts)};
}

uint64_t rle_area(const Rle& rle) {
  uint64_t area = 0;
  for (size_t i = 1; i < rle.counts.size(); i += 2) area += rle.counts[i];
  return area;
}

namespace {

// Calls run(first pixel, last pixel) for every run of ones that is not empty.
template <class Run>
void for_each_run(const Rle& rle, Run&& run) {
  uint64_t at = 0;
  for (size_t i = 0; i < rle.counts.size(); ++i) {
    const uint64_t count = rle.counts[i];
    if (i % 2 == 1 && count > 0) run(at, at + count - 1);
    at += count;
  }
}

}  // namespace

std::array<uint32_t, 4> rle_bbox(const Rle& rle) {
  if (rle.height == 0) return {};
  const uint64_t h = rle.height;
  uint64_t x0 = rle.width;
  uint64_t x1 = 0;
  uint64_t y0 = h;
  uint64_t y1 = 0;
  bool any = false;
  for_each_run(rle, [&](uint64_t first, uint64_t last) {
    any = true;
    const uint64_t column = last / h;
    x0 = std::min(x0, first / h);
    x1 = std::max(x1, column);
    if (first / h == column) {
      y0 = std::min(y0, first - column * h);
      y1 = std::max(y1, last - column * h);
    } else {  // a run over a column border holds a bottom and a top pixel
      y0 = 0;
      y1 = h - 1;
    }
  });
  if (!any) return {};
  return {static_cast<uint32_t>(x0), static_cast<uint32_t>(y0), static_cast<uint32_t>(x1 - x0 + 1),
          static_cast<uint32_t>(y1 - y0 + 1)};
}

Result<Rle> rle_crop(const Rle& rle, uint32_t x, uint32_t y, uint32_t width, uint32_t height) {
  NPUSEG_RETURN_IF_ERROR(check_rle_size(height, width));
  if (x > rle.width || width > rle.width - x || y > rle.height || height > rle.height - y) {
    return Status(Code::kInvalidArgument,
                  format("mask crop: %ux%u at (%u, %u) leaves the mask of %ux%u; use a box inside",
                         width, height, x, y, rle.width, rle.height));
  }
  RleBuilder out;
  uint64_t done = 0;  // pixels of the crop written, column-major
  for_each_run(rle, [&](uint64_t first, uint64_t last) {
    const uint64_t h = rle.height;
    const uint64_t column_first = std::max<uint64_t>(first / h, x);
    const uint64_t column_last = std::min<uint64_t>(last / h, uint64_t{x} + width - 1);
    for (uint64_t column = column_first; column <= column_last; ++column) {
      const uint64_t top = std::max(first, column * h + y);
      const uint64_t end = std::min(last + 1, column * h + y + height);
      if (top >= end) continue;
      const uint64_t at = (column - x) * height + (top - column * h - y);
      out.add(false, at - done);
      out.add(true, end - top);
      done = at + (end - top);
    }
  });
  out.add(false, uint64_t{width} * height - done);
  return Rle{height, width, std::move(out).take()};
}

}  // namespace npuseg::image

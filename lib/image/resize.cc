// SPDX-License-Identifier: Apache-2.0
// Taps are computed in double and quantised with one precision per axis, chosen by the largest
// weight; quantised taps are not renormalised. Compiled without contraction: an fma would move
// taps.
#include "image/resize.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "image/resize_kernels.h"

namespace npuseg::image {

using core::Call;
using core::Code;
using core::format;
using core::Result;
using core::Status;

namespace {

double filter_value(Filter filter, double x) {
  x = std::abs(x);
  if (filter == Filter::kBilinear) return x < 1.0 ? 1.0 - x : 0.0;
  constexpr double a = -0.5;
  if (x < 1.0) return ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0;
  if (x < 2.0) return ((a * x - 5.0 * a) * x + 8.0 * a) * x - 4.0 * a;
  return 0.0;
}

// The number of fraction bits with which the largest weight still fits into 16 bits.
uint32_t precision_for(double largest) {
  uint32_t precision = 0;
  for (; precision < 22; ++precision) {
    const auto next = static_cast<int>(0.5 + largest * (1 << (precision + 1)));
    if (next >= 1 << 15) break;
  }
  return precision;
}

}  // namespace

AxisTaps make_axis_taps(uint32_t in, uint32_t out, Filter filter) {
  const double size = filter == Filter::kBilinear ? 2.0 : 4.0;
  const double scale = static_cast<double>(in) / out;
  const double support = scale >= 1.0 ? size * 0.5 * scale : size * 0.5;
  const double inverse = scale >= 1.0 ? 1.0 / scale : 1.0;
  AxisTaps taps;
  const auto most = static_cast<size_t>(std::ceil(support)) * 2 + 1;
  std::vector<double> weights(size_t{out} * most);
  taps.first.resize(out);
  taps.count.resize(out);
  double largest = 0.0;
  for (size_t i = 0; i < out; ++i) {
    const double center = scale * (static_cast<double>(i) + 0.5);
    const auto first = std::max(static_cast<int64_t>(center - support + 0.5), int64_t{0});
    const auto end = std::min(static_cast<int64_t>(center + support + 0.5), int64_t{in});
    const auto count =
        static_cast<size_t>(std::clamp<int64_t>(end - first, 0, static_cast<int64_t>(most)));
    double* row = weights.data() + i * most;
    double total = 0.0;
    for (size_t j = 0; j < count; ++j) {
      const double at = static_cast<double>(static_cast<int64_t>(j) + first);
      row[j] = filter_value(filter, (at - center + 0.5) * inverse);
      total += row[j];
    }
    for (size_t j = 0; j < count; ++j) {
      if (total != 0.0) row[j] /= total;
      largest = std::max(largest, row[j]);
    }
    taps.first[i] = static_cast<uint32_t>(first);
    taps.count[i] = static_cast<uint32_t>(count);
    taps.max_taps = std::max(taps.max_taps, taps.count[i]);
  }
  taps.precision = precision_for(largest);
  taps.weights.resize(size_t{out} * taps.max_taps);
  const double unit = static_cast<double>(1 << taps.precision);
  for (size_t i = 0; i < out; ++i) {
    for (size_t j = 0; j < taps.count[i]; ++j) {
      const double w = weights[i * most + j];
      taps.weights[i * taps.max_taps + j] =
          static_cast<int16_t>(static_cast<int>(w * unit + (w < 0.0 ? -0.5 : 0.5)));
    }
  }
  return taps;
}

namespace {

constexpr size_t kRowsPerBlock = 16;

// Horizontal taps in the kernel's layout.
struct HorizontalTaps {
  explicit HorizontalTaps(const AxisTaps& taps) : first(taps.first) {
    const size_t out = taps.first.size();
    groups = (size_t{taps.max_taps} + 3) / 4;
    pairs.resize(out * groups * 2);
    group_count.resize(out);
    for (size_t i = 0; i < out; ++i) {
      group_count[i] = (taps.count[i] + 3) / 4;
      const int16_t* w = taps.weights.data() + i * taps.max_taps;
      for (size_t j = 0; j < taps.count[i]; ++j) {
        const uint32_t bits = static_cast<uint16_t>(w[j]);
        int32_t& pair = pairs[i * groups * 2 + j / 2];
        pair |= static_cast<int32_t>(j % 2 == 0 ? bits : bits << 16);
      }
    }
    packed = {first.data(), group_count.data(), pairs.data(), groups, taps.precision};
  }

  size_t groups = 0;
  std::vector<uint32_t> first;
  std::vector<uint32_t> group_count;
  std::vector<int32_t> pairs;
  PackedTaps packed;
};

struct Span {
  size_t begin = 0;
  size_t end = 0;
};

// Rows [rows.begin, rows.end) of `in` to rows of `out` (out_stride includes kResizePadding).
Status horizontal_pass(Call& call, const RgbView& in, const AxisTaps& taps, Span rows, uint8_t* out,
                       size_t out_stride) {
  const HorizontalTaps packed(taps);
  const size_t in_bytes = size_t{in.width} * 3;
  const auto width = static_cast<uint32_t>(taps.first.size());
  const size_t blocks = (rows.end - rows.begin + kRowsPerBlock - 1) / kRowsPerBlock;
  return core::parallel_for(call, blocks, [&](size_t block, int) {
    std::vector<uint8_t> padded(in_bytes + kResizePadding);
    const size_t begin = rows.begin + block * kRowsPerBlock;
    const size_t end = std::min(rows.end, begin + kRowsPerBlock);
    for (size_t y = begin; y < end; ++y) {
      std::memcpy(padded.data(), in.row(y), in_bytes);
      resize_row_rgb(padded.data(), packed.packed, width, out + (y - rows.begin) * out_stride);
    }
  });
}

Status vertical_pass(Call& call, const uint8_t* in, size_t in_stride, size_t first_row,
                     const AxisTaps& taps, Picture& out) {
  const size_t blocks = (out.height + kRowsPerBlock - 1) / kRowsPerBlock;
  return core::parallel_for(call, blocks, [&](size_t block, int) {
    const size_t end = std::min<size_t>(out.height, (block + 1) * kRowsPerBlock);
    for (size_t y = block * kRowsPerBlock; y < end; ++y) {
      resize_column_bytes(in + (taps.first[y] - first_row) * in_stride, in_stride,
                          taps.weights.data() + y * taps.max_taps, taps.count[y], taps.precision,
                          out.stride(), out.row(y));
    }
  });
}

}  // namespace

Result<Picture> resize_rgb(Call& call, const RgbView& in, uint32_t out_width, uint32_t out_height,
                           Filter filter, const core::MemoryBudgetPtr& budget) {
  if (in.width == 0 || in.height == 0 || in.data == nullptr) {
    return Status(Code::kInvalidArgument, "resize: the picture is empty; give at least one pixel");
  }
  NPUSEG_ASSIGN_OR_RETURN(Picture out, Picture::make(out_width, out_height, budget));
  const bool wide = in.width != out_width;
  const bool high = in.height != out_height;
  if (!wide && !high) {
    for (size_t y = 0; y < in.height; ++y) std::memcpy(out.row(y), in.row(y), out.stride());
    return out;
  }
  AxisTaps rows;
  Span used{0, in.height};
  if (high) {
    rows = make_axis_taps(in.height, out_height, filter);
    used = {rows.first.front(), size_t{rows.first.back()} + rows.count.back()};
  }
  if (!wide) {
    NPUSEG_RETURN_IF_ERROR(vertical_pass(call, in.data, in.stride, 0, rows, out));
    return out;
  }
  const size_t stride = size_t{out_width} * 3 + kResizePadding;
  const size_t used_rows = used.end - used.begin;
  if (used_rows > SIZE_MAX / stride) {
    return Status(Code::kLimitExceeded, "resize: the picture between the passes is too large");
  }
  NPUSEG_ASSIGN_OR_RETURN(core::Buffer middle,
                          core::Buffer::make(budget, used_rows * stride, "resize rows"));
  NPUSEG_RETURN_IF_ERROR(horizontal_pass(call, in, make_axis_taps(in.width, out_width, filter),
                                         used, middle.data(), stride));
  if (high) {
    NPUSEG_RETURN_IF_ERROR(vertical_pass(call, middle.data(), stride, used.begin, rows, out));
  } else {
    for (size_t y = 0; y < out_height; ++y) {
      std::memcpy(out.row(y), middle.data() + y * stride, out.stride());
    }
  }
  return out;
}

}  // namespace npuseg::image

// SPDX-License-Identifier: Apache-2.0
// The generic bilinear kernel of the reference: rows are blended first, then columns, each by one
// rounded product and one fused multiply-add. Positions are computed in float32 with two roundings.
#include "image/mask.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <utility>

#include "image/mask_kernels.h"
#include "image/rle_builder.h"

namespace npuseg::image {

using core::Code;
using core::format;
using core::Result;
using core::Status;

float sigmoid(float x) { return 1.0f / (1.0f + std::exp(-x)); }

void sigmoid(const float* in, float* out, size_t count) {
  for (size_t i = 0; i < count; ++i) out[i] = sigmoid(in[i]);
}

LinearAxis make_linear_axis(uint32_t in, uint32_t out) {
  LinearAxis axis;
  axis.low.resize(out);
  axis.high.resize(out);
  axis.w_low.resize(out);
  axis.w_high.resize(out);
  const float scale = static_cast<float>(in) / static_cast<float>(out);
  for (uint32_t i = 0; i < out; ++i) {
    uint32_t low = i;
    float fraction = 0.0f;
    if (in != out) {
      const float product = scale * (static_cast<float>(i) + 0.5f);
      const float position = std::max(product - 0.5f, 0.0f);
      low = static_cast<uint32_t>(std::min(static_cast<double>(std::floor(position)), in - 1.0));
      fraction = std::clamp(position - static_cast<float>(low), 0.0f, 1.0f);
    }
    axis.low[i] = low;
    axis.high[i] = in == out || low + 1 >= in ? low : low + 1;
    axis.w_high[i] = fraction;
    axis.w_low[i] = 1.0f - fraction;
  }
  return axis;
}

Result<MaskResizer> MaskResizer::make(core::ConstMatrixView map, uint32_t width, uint32_t height,
                                      Values values) {
  constexpr size_t kMostSide = size_t{1} << 24;  // positions are exact float32
  if (map.rows == 0 || map.cols == 0 || map.rows > kMostSide || map.cols > kMostSide ||
      width == 0 || height == 0) {
    return Status(Code::kInvalidArgument,
                  format("mask resize: from %zux%zu to %ux%u (height x width): every side must be "
                         "at least 1",
                         map.rows, map.cols, height, width));
  }
  MaskResizer resizer;
  resizer.width_ = width;
  resizer.height_ = height;
  resizer.map_height_ = map.rows;
  resizer.map_width_ = map.cols;
  resizer.map_.resize(map.rows * map.cols);
  for (size_t y = 0; y < map.rows; ++y) {
    float* to = resizer.map_.data() + y * map.cols;
    if (values == Values::kLogits) {
      sigmoid(map.row(y), to, map.cols);
    } else {
      std::memcpy(to, map.row(y), map.cols * sizeof(float));
    }
  }
  resizer.x_ = make_linear_axis(static_cast<uint32_t>(map.cols), width);
  resizer.y_ = make_linear_axis(static_cast<uint32_t>(map.rows), height);
  return resizer;
}

namespace {

constexpr size_t kRowsPerBlock = 32;
constexpr size_t kColumnsPerBlock = 32;
constexpr size_t kNoRow = ~size_t{0};

// Two source rows stretched to the output's width, kept while the output walks down.
class StretchedRows {
 public:
  explicit StretchedRows(size_t width) : first_(width), second_(width) {}

  // After this, top() and bottom() are the stretched rows low and high.
  template <class Stretch>
  void move_to(size_t low, size_t high, Stretch&& stretch) {
    if (low == second_row_) {
      std::swap(first_, second_);
      std::swap(first_row_, second_row_);
    }
    if (low != first_row_) stretch(low, first_.data());
    first_row_ = low;
    if (high != low && high != second_row_) {
      stretch(high, second_.data());
      second_row_ = high;
    }
    bottom_ = high == low ? first_.data() : second_.data();
  }
  [[nodiscard]] const float* top() const { return first_.data(); }
  [[nodiscard]] const float* bottom() const { return bottom_; }

 private:
  std::vector<float> first_;
  std::vector<float> second_;
  size_t first_row_ = kNoRow;
  size_t second_row_ = kNoRow;
  const float* bottom_ = nullptr;
};

}  // namespace

void MaskResizer::horizontal(size_t source_row, float* out) const {
  const float* row = map_.data() + source_row * map_width_;
  if (map_width_ == width_) {
    std::memcpy(out, row, size_t{width_} * sizeof(float));
    return;
  }
  stretch_row(row, x_.low.data(), x_.high.data(), x_.w_low.data(), x_.w_high.data(), out, width_);
}

Status MaskResizer::floats(core::Call& call, float* out, size_t stride) const {
  const size_t blocks = (height_ + kRowsPerBlock - 1) / kRowsPerBlock;
  return core::parallel_for(call, blocks, [&](size_t block, int) {
    StretchedRows rows(width_);
    const size_t end = std::min<size_t>(height_, (block + 1) * kRowsPerBlock);
    for (size_t y = block * kRowsPerBlock; y < end; ++y) {
      rows.move_to(y_.low[y], y_.high[y], [this](size_t row, float* to) { horizontal(row, to); });
      blend(rows.top(), rows.bottom(), y_.w_low[y], y_.w_high[y], out + y * stride, width_);
    }
  });
}

Status MaskResizer::bytes(core::Call& call, float threshold, uint8_t* out, size_t stride,
                          uint64_t* area, uint8_t set) const {
  const size_t blocks = (height_ + kRowsPerBlock - 1) / kRowsPerBlock;
  std::atomic<uint64_t> total{0};
  const Status status = core::parallel_for(call, blocks, [&](size_t block, int) {
    StretchedRows rows(width_);
    uint64_t count = 0;
    const size_t end = std::min<size_t>(height_, (block + 1) * kRowsPerBlock);
    for (size_t y = block * kRowsPerBlock; y < end; ++y) {
      rows.move_to(y_.low[y], y_.high[y], [this](size_t row, float* to) { horizontal(row, to); });
      count += blend_above(rows.top(), rows.bottom(), y_.w_low[y], y_.w_high[y], threshold, set,
                           out + y * stride, width_);
    }
    total.fetch_add(count, std::memory_order_relaxed);
  });
  if (area != nullptr) *area = total.load(std::memory_order_relaxed);
  return status;
}

// Column by column. Between two source rows the value runs from one stretched value to the other;
// where both are clearly on one side of the threshold, so is everything between.
Result<Rle> MaskResizer::runs(core::Call& call, float threshold) const {
  NPUSEG_RETURN_IF_ERROR(check_rle_size(height_, width_));
  struct Segment {
    uint32_t first, end, low, high;
  };
  std::vector<Segment> segments;
  for (uint32_t y = 0; y < height_; ++y) {
    if (segments.empty() || segments.back().low != y_.low[y] ||
        segments.back().high != y_.high[y]) {
      segments.push_back({y, y, y_.low[y], y_.high[y]});
    }
    segments.back().end = y + 1;
  }
  // The blend of two values leaves their range by a few roundings (2^-23 of the larger) at most.
  const float margin = 1e-5f;
  const size_t blocks = (width_ + kColumnsPerBlock - 1) / kColumnsPerBlock;
  std::vector<RleBuilder> parts(blocks);
  const Status status = core::parallel_for(call, blocks, [&](size_t block, int) {
    RleBuilder& part = parts[block];
    std::vector<float> column(map_height_);
    const size_t end = std::min<size_t>(width_, (block + 1) * kColumnsPerBlock);
    for (size_t x = block * kColumnsPerBlock; x < end; ++x) {
      const float* left = map_.data() + x_.low[x];
      const float* right = map_.data() + x_.high[x];
      const float w_low = x_.w_low[x];
      const float w_high = x_.w_high[x];
      blend_strided(left, right, map_width_, w_low, w_high, map_width_ == width_, column.data(),
                    map_height_);
      for (const Segment& segment : segments) {
        const float a = column[segment.low];
        const float b = column[segment.high];
        const float slack = margin * std::max(std::abs(a), std::abs(b));
        if (a - slack > threshold && b - slack > threshold) {
          part.add(true, segment.end - segment.first);
        } else if (a + slack < threshold && b + slack < threshold) {
          part.add(false, segment.end - segment.first);
        } else {
          for (uint32_t y = segment.first; y < segment.end; ++y) {
            part.add(blend_one(a, b, y_.w_low[y], y_.w_high[y]) > threshold, 1);
          }
        }
      }
    }
  });
  NPUSEG_RETURN_IF_ERROR(status);
  RleBuilder all;
  for (const RleBuilder& part : parts) all.append(part);
  return Rle{height_, width_, std::move(all).take()};
}

}  // namespace npuseg::image

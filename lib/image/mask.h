// SPDX-License-Identifier: Apache-2.0
// Mask logits of the model to masks of picture size: sigmoid, bilinear resize (torch, no
// antialias, align_corners=False), strict threshold. Nothing of picture size is held as float.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/status.h"
#include "core/tensor_view.h"
#include "core/threads.h"
#include "image/rle.h"

namespace npuseg::image {

// 1/(1+exp(-x)) in float32.
float sigmoid(float x);
void sigmoid(const float* in, float* out, size_t count);

// Where output i of one axis samples: p[low]*w_low + p[high]*w_high.
struct LinearAxis {
  std::vector<uint32_t> low;
  std::vector<uint32_t> high;
  std::vector<float> w_low;
  std::vector<float> w_high;
};
LinearAxis make_linear_axis(uint32_t in, uint32_t out);

// One map resized to width x height on demand; holds the map's values (dense) and the two axes.
class MaskResizer {
 public:
  // What the stored values are: logits get the sigmoid first (the order of the reference's instance
  // post-processing); plain values are resized as they are.
  enum class Values : uint8_t { kLogits, kPlain };

  static core::Result<MaskResizer> make(core::ConstMatrixView map, uint32_t width, uint32_t height,
                                        Values values = Values::kLogits);

  [[nodiscard]] uint32_t width() const { return width_; }
  [[nodiscard]] uint32_t height() const { return height_; }

  // Floats (probabilities for kLogits) row by row; stride in floats, at least width.
  core::Status floats(core::Call& call, float* out, size_t stride) const;
  // Bytes `set` where value > threshold, else 0; stride in bytes, at least width. area may be null.
  core::Status bytes(core::Call& call, float threshold, uint8_t* out, size_t stride,
                     uint64_t* area = nullptr, uint8_t set = 255) const;
  // The runs of value > threshold, without a byte per pixel.
  core::Result<Rle> runs(core::Call& call, float threshold) const;

 private:
  void horizontal(size_t source_row, float* out) const;

  uint32_t width_ = 0;
  uint32_t height_ = 0;
  size_t map_height_ = 0;
  size_t map_width_ = 0;
  std::vector<float> map_;
  LinearAxis x_;
  LinearAxis y_;
};

}  // namespace npuseg::image

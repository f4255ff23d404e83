// SPDX-License-Identifier: Apache-2.0
#include "model/sam3/roi_align.h"

#include <algorithm>
#include <cmath>

namespace npuseg::sam3 {

namespace {

// One sampling position along an axis: two cells and their weights; false outside of the map.
struct Tap {
  size_t low = 0;
  size_t high = 0;
  float weight_low = 0;
  float weight_high = 0;
};

bool make_tap(float at, size_t size, Tap* tap) {
  const float limit = static_cast<float>(size);
  if (!(at >= -1.0f && at <= limit)) return false;
  at = std::max(at, 0.0f);
  tap->low = static_cast<size_t>(at);
  if (tap->low + 1 >= size) {
    tap->low = tap->high = size - 1;
    at = static_cast<float>(tap->low);
  } else {
    tap->high = tap->low + 1;
  }
  tap->weight_high = at - static_cast<float>(tap->low);
  tap->weight_low = 1.0f - tap->weight_high;
  return true;
}

}  // namespace

void roi_align(core::ConstMatrixView map, size_t height, size_t width, const float box[4],
               size_t bins, float* out) {
  const float roi_width = std::max(box[2] - box[0], 1.0f);
  const float roi_height = std::max(box[3] - box[1], 1.0f);
  const float bin_width = roi_width / static_cast<float>(bins);
  const float bin_height = roi_height / static_cast<float>(bins);
  const float samples_x = std::ceil(roi_width / static_cast<float>(bins));
  const float samples_y = std::ceil(roi_height / static_cast<float>(bins));
  const float count = std::max(samples_x * samples_y, 1.0f);
  const size_t area = bins * bins;
  std::fill_n(out, map.cols * area, 0.0f);
  for (size_t i = 0; i < bins; ++i) {
    for (size_t j = 0; j < bins; ++j) {
      float* bin = out + i * bins + j;
      for (float sy = 0.0f; sy < samples_y; sy += 1.0f) {
        Tap y;
        if (!make_tap(
                box[1] + static_cast<float>(i) * bin_height + (sy + 0.5f) * bin_height / samples_y,
                height, &y)) {
          continue;
        }
        for (float sx = 0.0f; sx < samples_x; sx += 1.0f) {
          Tap x;
          if (!make_tap(
                  box[0] + static_cast<float>(j) * bin_width + (sx + 0.5f) * bin_width / samples_x,
                  width, &x)) {
            continue;
          }
          const float* v00 = map.row(y.low * width + x.low);
          const float* v01 = map.row(y.low * width + x.high);
          const float* v10 = map.row(y.high * width + x.low);
          const float* v11 = map.row(y.high * width + x.high);
          const float w00 = y.weight_low * x.weight_low;
          const float w01 = y.weight_low * x.weight_high;
          const float w10 = y.weight_high * x.weight_low;
          const float w11 = y.weight_high * x.weight_high;
          for (size_t c = 0; c < map.cols; ++c) {
            bin[c * area] += w00 * v00[c] + w01 * v01[c] + w10 * v10[c] + w11 * v11[c];
          }
        }
      }
      for (size_t c = 0; c < map.cols; ++c) bin[c * area] /= count;
    }
  }
}

}  // namespace npuseg::sam3

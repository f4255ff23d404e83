// SPDX-License-Identifier: Apache-2.0
// What depends on the config alone and is computed once a model.
#pragma once

#include <cstdint>
#include <vector>

#include "core/tensor_view.h"
#include "model/sam3/positions.h"

namespace npuseg::sam3 {

struct Constants {
  RopeTable window_rope;
  RopeTable global_rope;
  std::vector<float> positions;  // [map_side^2, D]
  // Window order of the ViT's tokens (spec 5.5): row of the padded, window-major layout of each
  // raster token, and back (-1: padding).
  std::vector<int32_t> to_window;
  std::vector<int32_t> from_window;
  size_t windows = 0;

  explicit Constants(const checkpoint::Sam3Config& config);
  [[nodiscard]] core::ConstMatrixView position_view(size_t channels) const {
    return {positions.data(), positions.size() / channels, channels, channels};
  }
};

}  // namespace npuseg::sam3

// SPDX-License-Identifier: Apache-2.0
#include "model/sam3/constants.h"

namespace npuseg::sam3 {

Constants::Constants(const checkpoint::Sam3Config& config) {
  const auto& vit = config.vit;
  const size_t grid = vit.grid();
  const size_t window = vit.window_size;
  window_rope = make_rope_table(window, 1.0, vit.head_dim(), vit.rope_theta);
  // Global layers squeeze the grid into the range of one window.
  global_rope = make_rope_table(grid, static_cast<double>(window) / static_cast<double>(grid),
                                vit.head_dim(), vit.rope_theta);
  positions = make_sine_positions(config.map_side(), config.hidden_size);

  const size_t across = (grid + window - 1) / window;
  windows = across * across;
  to_window.resize(grid * grid);
  from_window.assign(windows * window * window, -1);
  for (size_t y = 0; y < grid; ++y) {
    for (size_t x = 0; x < grid; ++x) {
      const size_t row = ((y / window) * across + x / window) * window * window +
                         (y % window) * window + x % window;
      to_window[y * grid + x] = static_cast<int32_t>(row);
      from_window[row] = static_cast<int32_t>(y * grid + x);
    }
  }
}

}  // namespace npuseg::sam3

// SPDX-License-Identifier: Apache-2.0
#include "model/sam3/positions.h"

#include <cmath>
#include <numbers>

namespace npuseg::sam3 {

RopeTable make_rope_table(size_t side, double step, size_t head_dim, double theta) {
  RopeTable table;
  const size_t quarter = head_dim / 4;
  table.rows = side * side;
  table.cosine.resize(table.rows * 2 * quarter);
  table.sine.resize(table.cosine.size());
  for (size_t j = 0; j < quarter; ++j) {
    const double frequency =
        std::pow(theta, -4.0 * static_cast<double>(j) / static_cast<double>(head_dim));
    for (size_t p = 0; p < side; ++p) {
      const double angle = static_cast<double>(p) * step * frequency;
      const float cosine = static_cast<float>(std::cos(angle));
      const float sine = static_cast<float>(std::sin(angle));
      for (size_t other = 0; other < side; ++other) {
        const size_t as_x = (other * side + p) * 2 * quarter + j;
        const size_t as_y = (p * side + other) * 2 * quarter + quarter + j;
        table.cosine[as_x] = cosine;
        table.cosine[as_y] = cosine;
        table.sine[as_x] = sine;
        table.sine[as_y] = sine;
      }
    }
  }
  return table;
}

void sine_encode(double value, size_t count, float* out) {
  for (size_t i = 0; i + 1 < count; i += 2) {
    const double t = std::pow(10000.0, static_cast<double>(i) / static_cast<double>(count));
    out[i] = static_cast<float>(std::sin(value / t));
    out[i + 1] = static_cast<float>(std::cos(value / t));
  }
}

std::vector<float> make_sine_positions(size_t side, size_t channels) {
  const size_t half = channels / 2;
  std::vector<float> axis(side * half);
  for (size_t p = 0; p < side; ++p) {
    const double scaled =
        static_cast<double>(p + 1) / (static_cast<double>(side) + 1e-6) * 2.0 * std::numbers::pi;
    sine_encode(scaled, half, axis.data() + p * half);
  }
  std::vector<float> positions(side * side * channels);
  for (size_t y = 0; y < side; ++y) {
    for (size_t x = 0; x < side; ++x) {
      float* cell = positions.data() + (y * side + x) * channels;
      for (size_t i = 0; i < half; ++i) {
        cell[i] = axis[y * half + i];
        cell[half + i] = axis[x * half + i];
      }
    }
  }
  return positions;
}

}  // namespace npuseg::sam3

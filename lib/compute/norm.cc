// SPDX-License-Identifier: Apache-2.0
#include "compute/norm.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "compute/elementwise.h"
#include "compute/row_bands.h"
#include "compute/simd_kernels.h"

namespace npuseg::compute {

using core::ConstMatrixView;
using core::MatrixView;
using core::Status;
using core::TensorView;

namespace {
std::vector<float> to_floats(const TensorView& tensor, size_t count) {
  std::vector<float> values(count);
  widen(tensor, 0, count, values.data());
  return values;
}
}  // namespace

Status layer_norm(const Exec& exec, ConstMatrixView x, const LayerNorm& norm, MatrixView out,
                  const int32_t* out_rows, ConstMatrixView add, MatrixView out_plus_add) {
  const std::vector<float> gamma = to_floats(norm.gamma, x.cols);
  const std::vector<float> beta = to_floats(norm.beta, x.cols);
  return over_rows(exec, x.rows, x.cols, [&](size_t r) {
    const size_t to = out_rows == nullptr ? r : static_cast<size_t>(out_rows[r]);
    const bool both = out_plus_add.data != nullptr;
    layer_norm_row(x.row(r), gamma.data(), beta.data(), norm.eps, out.row(to),
                   both ? add.row(r) : nullptr, both ? out_plus_add.row(to) : nullptr, x.cols);
  });
}

Status group_norm(const Exec& exec, ConstMatrixView x, size_t groups, const TensorView& gamma,
                  const TensorView& beta, float eps, bool relu, MatrixView out) {
  const size_t channels = x.cols;
  const size_t per_group = channels / groups;
  const size_t band = std::max<size_t>(1, kBandValues / std::max<size_t>(channels, 1));
  const size_t bands = (x.rows + band - 1) / band;
  // Sums and sums of squares of every channel, per band, combined in band order.
  std::vector<double> partial(bands * 2 * channels, 0.0);
  NPUSEG_RETURN_IF_ERROR(core::parallel_for(*exec.call, bands, [&](size_t index, int) {
    double* sum = partial.data() + index * 2 * channels;
    double* square = sum + channels;
    for (size_t r = index * band; r < std::min(x.rows, (index + 1) * band); ++r) {
      const float* row = x.row(r);
      for (size_t c = 0; c < channels; ++c) {
        const double v = static_cast<double>(row[c]);
        sum[c] += v;
        square[c] += v * v;
      }
    }
  }));
  const std::vector<float> weight = to_floats(gamma, channels);
  const std::vector<float> bias = to_floats(beta, channels);
  std::vector<float> scale(channels);
  std::vector<float> shift(channels);
  const double count = static_cast<double>(x.rows) * static_cast<double>(per_group);
  for (size_t g = 0; g < groups; ++g) {
    double sum = 0.0;
    double square = 0.0;
    for (size_t b = 0; b < bands; ++b) {
      for (size_t c = g * per_group; c < (g + 1) * per_group; ++c) {
        sum += partial[b * 2 * channels + c];
        square += partial[b * 2 * channels + channels + c];
      }
    }
    const double mean = sum / count;
    const double variance = std::max(square / count - mean * mean, 0.0);
    const double factor = 1.0 / std::sqrt(variance + static_cast<double>(eps));
    for (size_t c = g * per_group; c < (g + 1) * per_group; ++c) {
      const double w = static_cast<double>(weight[c]) * factor;
      scale[c] = static_cast<float>(w);
      shift[c] = static_cast<float>(static_cast<double>(bias[c]) - mean * w);
    }
  }
  return core::parallel_for(*exec.call, bands, [&](size_t index, int) {
    for (size_t r = index * band; r < std::min(x.rows, (index + 1) * band); ++r) {
      affine_row(x.row(r), scale.data(), shift.data(), relu, out.row(r), channels);
    }
  });
}

}  // namespace npuseg::compute

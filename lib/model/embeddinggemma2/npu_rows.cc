// SPDX-License-Identifier: Apache-2.0
#include "model/embeddinggemma2/npu_rows.h"

#include <cmath>
#include <vector>

#include "compute/elementwise.h"
#include "compute/row_bands.h"

namespace npuseg::embeddinggemma2 {

using compute::Exec;
using core::ConstMatrixView;
using core::MatrixView;
using core::Status;

namespace {
constexpr size_t kValues = size_t{1} << 14;  // of a band
}  // namespace

Status rms_rows(const Exec& exec, ConstMatrixView x, const compute::RmsNorm& norm, MatrixView out,
                const compute::RmsNormOptions& options) {
  const size_t count = x.cols / options.runs;
  std::vector<float> gamma;
  if (!norm.gamma.empty()) {
    gamma.resize(count);
    compute::widen(norm.gamma, 0, count, gamma.data());
  }
  return compute::over_rows(
      exec, x.rows, x.cols,
      [&](size_t r) {
        for (size_t run = 0; run < options.runs; ++run) {
          const float* in = x.row(r) + run * count;
          float* to = out.row(r) + run * count;
          const float* residual =
              options.residual.data == nullptr ? nullptr : options.residual.row(r) + run * count;
          float squares = 0.0f;
          for (size_t i = 0; i < count; ++i) {
            const float v = in[i] * options.input_scale;
            squares += v * v;
          }
          const float mean = squares / static_cast<float>(count);
          const float factor = std::pow(mean + norm.eps, -0.5f);
          for (size_t i = 0; i < count; ++i) {
            float v = in[i] * options.input_scale;
            v *= gamma.empty() ? factor : factor * gamma[i];
            if (residual != nullptr) v = residual[i] + v;
            to[i] = v * options.output_scale;
          }
        }
      },
      kValues, 2.0);
}

Status rotate_rows(const Exec& exec, MatrixView x, size_t heads, size_t axes,
                   const compute::RopeTable& table, const int32_t* positions) {
  const size_t half = table.half;
  return compute::over_rows(
      exec, x.rows, x.cols,
      [&](size_t r) {
        for (size_t part = 0; part < heads * axes; ++part) {
          const auto position = static_cast<size_t>(positions[r * axes + part % axes]);
          const float* cosine = table.cosine.data() + position * half;
          const float* sine = table.sine.data() + position * half;
          float* low = x.row(r) + part * 2 * half;
          float* high = low + half;
          for (size_t j = 0; j < half; ++j) {
            const float a = low[j];
            const float b = high[j];
            low[j] = a * cosine[j] - b * sine[j];
            high[j] = b * cosine[j] + a * sine[j];
          }
        }
      },
      kValues, 2.0);
}

}  // namespace npuseg::embeddinggemma2

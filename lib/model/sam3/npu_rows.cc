// SPDX-License-Identifier: Apache-2.0
#include "model/sam3/npu_rows.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "compute/elementwise.h"
#include "compute/row_bands.h"
#include "core/bf16.h"

namespace npuseg::sam3 {

using compute::Exec;
using core::MatrixView;
using core::Status;

namespace {

constexpr size_t kLanes = 8;

std::vector<float> values_of(const core::TensorView& view, size_t count, float otherwise) {
  std::vector<float> values(count, otherwise);
  if (!view.empty()) compute::widen(view, 0, count, values.data());
  return values;
}

}  // namespace

RowNorm::RowNorm(const compute::LayerNorm& norm, size_t columns)
    : gamma_(values_of(norm.gamma, columns, 1.0f)),
      beta_(values_of(norm.beta, columns, 0.0f)),
      eps_(norm.eps) {}

void RowNorm::apply(const float* x, float* out) const {
  const size_t count = gamma_.size();
  const auto size = static_cast<float>(count);
  float sum = 0.0f;
  for (size_t i = 0; i < count; ++i) sum += x[i];
  const float mean = sum / size;
  float squares = 0.0f;
  for (size_t i = 0; i < count; ++i) {
    const float off = x[i] - mean;
    squares += off * off;
  }
  const float factor = 1.0f / std::sqrt(squares / size + eps_);
  for (size_t i = 0; i < count; ++i) out[i] = (x[i] - mean) * factor * gamma_[i] + beta_[i];
}

float fast_exp(float x) {
  constexpr float kLog2E = 1.44269504f;
  // So that NaN is taken for the lowest.
  const float t = (x > -87.0f ? std::min(x, 87.0f) : -87.0f) * kLog2E;
  auto whole = static_cast<int32_t>(t);
  if (static_cast<float>(whole) > t) --whole;
  const float f = t - static_cast<float>(whole);
  float p = 0.00015353362f;
  for (const float c : {0.0013398874f, 0.009618438f, 0.055503325f, 0.24022648f, 0.6931472f, 1.0f}) {
    p = p * f + c;
  }
  return std::bit_cast<float>(std::bit_cast<uint32_t>(p) + (static_cast<uint32_t>(whole) << 23));
}

float fast_erf(float x) {
  const float z = std::fabs(x);
  const float t = 1.0f / (1.0f + 0.5f * z);
  float p = 0.17087277f;
  for (const float c : {-0.82215223f, 1.4885159f, -1.135204f, 0.27886807f, -0.18628806f,
                        0.09678418f, 0.37409196f, 1.0000237f}) {
    p = p * t + c;
  }
  const float r = t * fast_exp(-z * z - 1.2655122f + t * p);
  return x >= 0.0f ? 1.0f - r : r - 1.0f;
}

void softmax_row(float* row, size_t valid, size_t count) {
  std::fill(row + valid, row + count, 0.0f);
  const float largest = *std::max_element(row, row + valid);
  if (largest == -HUGE_VALF) {
    std::fill(row, row + valid, 0.0f);
    return;
  }
  float sums[kLanes] = {};
  for (size_t i = 0; i < valid; ++i) {
    row[i] = fast_exp(row[i] - largest);
    sums[i % kLanes] += row[i];
  }
  float total = 0.0f;
  for (const float sum : sums) total += sum;
  const float factor = 1.0f / total;
  for (size_t i = 0; i < valid; ++i) row[i] *= factor;
}

std::vector<uint16_t> make_gelu_table() {
  constexpr float kRootOfHalf = 0.70710678f;
  std::vector<uint16_t> table(size_t{1} << 16);
  for (size_t i = 0; i < table.size(); ++i) {
    const float x = core::from_bf16(static_cast<uint16_t>(i));
    table[i] = core::to_bf16(0.5f * x * (1.0f + fast_erf(x * kRootOfHalf)));
  }
  return table;
}

Status group_norm_relu(const Exec& exec, size_t groups, const float* gamma, const float* beta,
                       float eps, MatrixView map) {
  const size_t per_group = map.cols / groups;
  const size_t band = std::max<size_t>(1, compute::kBandValues / map.cols);
  const size_t bands = (map.rows + band - 1) / band;
  // Sums and sums of squares, a pixel in float32, pixels in double; bands are added in their order.
  std::vector<double> partial(bands * 2 * groups, 0.0);
  NPUSEG_RETURN_IF_ERROR(core::parallel_for(*exec.call, bands, [&](size_t index, int) {
    double* sums = partial.data() + index * 2 * groups;
    for (size_t r = index * band; r < std::min(map.rows, (index + 1) * band); ++r) {
      for (size_t g = 0; g < groups; ++g) {
        const float* x = map.row(r) + g * per_group;
        float sum = 0.0f;
        float squares = 0.0f;
        for (size_t i = 0; i < per_group; ++i) {
          sum += x[i];
          squares += x[i] * x[i];
        }
        sums[2 * g] += static_cast<double>(sum);
        sums[2 * g + 1] += static_cast<double>(squares);
      }
    }
  }));
  std::vector<float> mean(groups);
  std::vector<float> factor(groups);
  const double count = static_cast<double>(map.rows) * static_cast<double>(per_group);
  for (size_t g = 0; g < groups; ++g) {
    double sum = 0.0;
    double squares = 0.0;
    for (size_t b = 0; b < bands; ++b) {
      sum += partial[(b * groups + g) * 2];
      squares += partial[(b * groups + g) * 2 + 1];
    }
    const double centre = sum / count;
    const double variance = std::max(squares / count - centre * centre, 0.0);
    mean[g] = static_cast<float>(centre);
    factor[g] = static_cast<float>(1.0 / std::sqrt(variance + static_cast<double>(eps)));
  }
  return compute::over_rows(exec, map.rows, map.cols, [&](size_t r) {
    for (size_t g = 0; g < groups; ++g) {
      for (size_t c = g * per_group; c < (g + 1) * per_group; ++c) {
        float* value = map.row(r) + c;
        *value = std::max((*value - mean[g]) * factor[g] * gamma[c] + beta[c], 0.0f);
      }
    }
  });
}

}  // namespace npuseg::sam3

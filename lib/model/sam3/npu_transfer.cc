// SPDX-License-Identifier: Apache-2.0
#include "model/sam3/npu_transfer.h"

#include <optional>
#include <vector>

#include "compute/elementwise.h"
#include "compute/row_bands.h"
#include "compute/simd_kernels.h"
#include "compute/weight_forms.h"
#include "model/sam3/npu_rows.h"

namespace npuseg::sam3 {

using compute::Exec;
using compute::over_bands;
using core::ConstMatrixView;
using core::MatrixView;
using core::Status;
using core::TensorView;

Status put_rows(const Exec& exec, ConstMatrixView x, const DeviceRows& to) {
  NPUSEG_RETURN_IF_ERROR(compute::over_rows(
      exec, x.rows, x.cols, [&](size_t r) { compute::narrow_bf16(x.row(r), to.row(r), x.cols); }));
  return to.upload(x.rows);
}

Status put_norm(const Exec& exec, const compute::LayerNorm& norm, ConstMatrixView x,
                const DeviceRows& to) {
  const RowNorm normalise(norm, x.cols);
  NPUSEG_RETURN_IF_ERROR(over_bands(exec, x.rows, x.cols, [&](size_t first, size_t end) {
    std::vector<float> row(x.cols);
    for (size_t r = first; r < end; ++r) {
      normalise.apply(x.row(r), row.data());
      compute::narrow_bf16(row.data(), to.row(r), x.cols);
    }
  }));
  return to.upload(x.rows);
}

Status put_placed(const Exec& exec, const compute::LayerNorm* norm, const TensorView& positions,
                  ConstMatrixView x, const DeviceRows& to) {
  std::optional<RowNorm> normalise;
  if (norm != nullptr) normalise.emplace(*norm, x.cols);
  const auto* places = static_cast<const float*>(positions.data);
  NPUSEG_RETURN_IF_ERROR(over_bands(exec, x.rows, 2 * x.cols, [&](size_t first, size_t end) {
    std::vector<float> normed(x.cols);
    std::vector<float> placed(x.cols);
    for (size_t r = first; r < end; ++r) {
      const float* row = x.row(r);
      if (normalise) {
        normalise->apply(row, normed.data());
        row = normed.data();
      }
      compute::add_rows(row, places + r * x.cols, placed.data(), x.cols);
      compute::narrow_bf16(placed.data(), to.row(r), x.cols);
      compute::narrow_bf16(row, to.row(r) + x.cols, x.cols);
    }
  }));
  return to.upload(x.rows);
}

Status add_output(const Exec& exec, const DeviceRows& rows, const TensorView& shift,
                  ConstMatrixView x, MatrixView out) {
  NPUSEG_RETURN_IF_ERROR(rows.download(x.rows));
  std::vector<float> constant;
  if (!shift.empty()) {
    constant.resize(x.cols);
    compute::widen(shift, 0, x.cols, constant.data());
  }
  return over_bands(exec, x.rows, x.cols, [&](size_t first, size_t end) {
    std::vector<float> row(x.cols);
    for (size_t r = first; r < end; ++r) {
      compute::widen_bf16(rows.row(r), row.data(), x.cols);
      if (!constant.empty()) compute::add_rows(row.data(), constant.data(), row.data(), x.cols);
      compute::add_rows(x.row(r), row.data(), out.row(r), x.cols);
    }
  });
}

}  // namespace npuseg::sam3

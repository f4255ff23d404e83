// SPDX-License-Identifier: Apache-2.0
// The feature pyramid on an NPU, and the 3x3 convolution that it shares with the mask decoder (spec
// iron-bundle-sam3.md, 4.4 and 7.7).
#include <cstring>

#include "compute/elementwise.h"
#include "compute/row_bands.h"
#include "compute/simd_kernels.h"
#include "model/sam3/layers.h"
#include "model/sam3/npu_stages.h"
#include "model/sam3/npu_transfer.h"

namespace npuseg::sam3 {

using compute::Exec;
using core::ConstMatrixView;
using core::Matrix;
using core::MatrixView;
using core::Result;
using core::Status;
using core::TensorView;

// Row p of A holds the pixels p, p + pitch and p + 2 * pitch of the bordered map, so a pixel stands
// in three rows. The border is zero since the buffer was made.
void put_pixel(const NpuKernels::Convolution& rows, size_t side, size_t y, size_t x,
               const uint16_t* values, size_t channels) {
  const size_t pitch = side + 2;
  for (size_t dy = 0; dy < 3; ++dy) {
    if (y + 1 < dy || y + 1 - dy >= side) continue;
    std::memcpy(rows.a.row((y + 1 - dy) * pitch + x + 1) + dy * channels, values,
                channels * sizeof(uint16_t));
  }
}

Status finish_convolution(const NpuParts& npu, const Exec& exec, size_t side,
                          const std::string& weight, const TensorView& bias, MatrixView out) {
  NPUSEG_ASSIGN_OR_RETURN(const NpuKernels::Convolution rows, npu.kernels->convolution(side));
  const size_t pitch = side + 2;
  NPUSEG_RETURN_IF_ERROR(rows.a.upload(side * pitch));
  NPUSEG_RETURN_IF_ERROR(npu.kernels->convolve(*exec.call, side, weight));
  NPUSEG_RETURN_IF_ERROR(rows.c.download(rows.c.rows));
  std::vector<float> shift(out.cols);
  compute::widen(bias, 0, out.cols, shift.data());
  // Rows of C are runs of pixels; the last two of every row of the map are junk.
  return compute::over_rows(exec, out.rows, out.cols, [&](size_t r) {
    const size_t pixel = r / side * pitch + r % side;
    compute::widen_bf16(rows.c.row(0) + pixel * out.cols, out.row(r), out.cols);
    compute::add_rows(out.row(r), shift.data(), out.row(r), out.cols);
  });
}

Result<std::vector<Matrix>> run_npu_neck(const NpuParts& npu, const Exec& exec,
                                         ConstMatrixView vit) {
  const bundle::Sam3Params& p = npu.params();
  const size_t grid = p.grid;
  const size_t d = p.d_model;
  const size_t wide = p.neck_splits[0] / 4;
  exec.call->begin_stage(static_cast<uint32_t>(Stage::kNeck), 3);
  NpuKernels& kernels = *npu.kernels;
  NPUSEG_ASSIGN_OR_RETURN(const DeviceRows in, kernels.input("n_in"));
  NPUSEG_ASSIGN_OR_RETURN(const DeviceRows split, kernels.output("n_in"));
  NPUSEG_RETURN_IF_ERROR(put_rows(exec, vit, in));
  NPUSEG_RETURN_IF_ERROR(kernels.gemm(*exec.call, "n_in", "n.in"));
  NPUSEG_RETURN_IF_ERROR(split.download(vit.rows));

  // A transposed convolution has its four taps side by side, `width` values each.
  const auto tap = [](const DeviceRows& rows, size_t first, size_t width, size_t side, size_t y,
                      size_t x) {
    return rows.row(y / 2 * side + x / 2) + first + (y % 2 * 2 + x % 2) * width;
  };
  NPUSEG_ASSIGN_OR_RETURN(const DeviceRows doubled, kernels.input("n_up"));
  NPUSEG_ASSIGN_OR_RETURN(const DeviceRows up, kernels.output("n_up"));
  const size_t side = 2 * grid;
  NPUSEG_RETURN_IF_ERROR(compute::over_rows(exec, side * side, wide, [&](size_t r) {
    const uint16_t* from = tap(split, 0, wide, grid, r / side, r % side);
    uint16_t* to = doubled.row(r);
    for (size_t c = 0; c < wide; ++c) to[c] = npu.gelu[from[c]];
  }));
  NPUSEG_RETURN_IF_ERROR(doubled.upload(side * side));
  NPUSEG_RETURN_IF_ERROR(kernels.gemm(*exec.call, "n_up", "n.up"));
  NPUSEG_RETURN_IF_ERROR(up.download(side * side));

  std::vector<Matrix> levels(3);
  for (size_t i = 0; i < 3; ++i) {
    const size_t larger = grid * (size_t{4} >> i);
    NPUSEG_ASSIGN_OR_RETURN(levels[i], Matrix::make(exec.budget, larger * larger, d, "FPN level"));
    const auto pixel = [&](size_t y, size_t x, uint16_t*) -> const uint16_t* {
      if (i == 0) return tap(up, 0, d, side, y, x);
      if (i == 1) return tap(split, p.neck_splits[0], d, grid, y, x);
      return split.row(y * grid + x) + p.neck_splits[0] + p.neck_splits[1];
    };
    NPUSEG_RETURN_IF_ERROR(convolve_map(npu, exec, larger, "n.conv" + std::to_string(i),
                                        npu.weights->fpn[i].proj2.bias, levels[i].view(), pixel));
    NPUSEG_RETURN_IF_ERROR(check_finite(levels[i].view(), "neck"));
    exec.call->advance();
  }
  return levels;
}

}  // namespace npuseg::sam3

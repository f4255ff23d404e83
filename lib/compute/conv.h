// SPDX-License-Identifier: Apache-2.0
// Convolutions over channels-last maps [height*width, channels], as products.
#pragma once

#include "compute/gemm.h"

namespace npuseg::compute {

// 3x3 kernel, stride 1, zero padding 1. weight [out, in, 3, 3] as stored in a checkpoint.
// input [height*width, in], output [height*width, out]; must not alias. Epilogue: bias, activation,
// residual (out_rows is not allowed).
core::Status conv3x3(const Exec& exec, core::ConstMatrixView input, size_t height, size_t width,
                     const core::TensorView& weight, core::MatrixView output,
                     const Epilogue& epilogue = {});

// Transposed convolution, kernel 2, stride 2, no padding: weight [in, out, 2, 2].
// input [height*width, in] -> output [2*height * 2*width, out].
core::Status conv_transpose2x2(const Exec& exec, core::ConstMatrixView input, size_t height,
                               size_t width, const core::TensorView& weight,
                               core::MatrixView output, const Epilogue& epilogue = {});

// out[y, x, :] = upsampled low[y * low_h / high_h, x * low_w / high_w, :] + high[y, x, :]
// (nearest).
core::Status upsample_add(const Exec& exec, core::ConstMatrixView low, size_t low_height,
                          size_t low_width, core::ConstMatrixView high, size_t height, size_t width,
                          core::MatrixView out);

// 2x2 maximum, stride 2 (odd last row and column dropped).
core::Status max_pool2x2(const Exec& exec, core::ConstMatrixView input, size_t height, size_t width,
                         core::MatrixView output);

}  // namespace npuseg::compute

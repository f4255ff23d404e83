// SPDX-License-Identifier: Apache-2.0
// Rows of float32 values to the device and back.
#pragma once

#include "compute/gemm.h"
#include "compute/norm.h"
#include "model/sam3/npu_kernels.h"

namespace npuseg::sam3 {

// The first rows and columns of `to` = x, rounded.
core::Status put_rows(const compute::Exec& exec, core::ConstMatrixView x, const DeviceRows& to);
// The same of x normalised; a norm without weights has ones and zeros.
core::Status put_norm(const compute::Exec& exec, const compute::LayerNorm& norm,
                      core::ConstMatrixView x, const DeviceRows& to);
// The same of x normalised and placed: [norm(x) + positions | norm(x)]. norm null: of x itself.
core::Status put_placed(const compute::Exec& exec, const compute::LayerNorm* norm,
                        const core::TensorView& positions, core::ConstMatrixView x,
                        const DeviceRows& to);
// out = x + (rows + shift), after the kernel that wrote the rows; shift may be empty, out be x.
core::Status add_output(const compute::Exec& exec, const DeviceRows& rows,
                        const core::TensorView& shift, core::ConstMatrixView x,
                        core::MatrixView out);

}  // namespace npuseg::sam3

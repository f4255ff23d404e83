// SPDX-License-Identifier: Apache-2.0
// Linear layers whose output rows do not know of each other: a row has the same bits whatever other
// rows there are, how many, and where among them it stands. So tokens of several inputs can run as
// one product and every input gets the answer it gets alone.
//
// Numeric contract: float32; weights of F16/BF16 are widened exactly first. Every output value is
// one chain of multiply-adds over the inputs in order (fused where the instruction set is),
// whatever the cut of the work, which may follow the thread count.
#pragma once

#include "compute/gemm.h"

namespace npuseg::compute {

// What linear() of gemm.h does.
core::Status linear_rows(const Exec& exec, core::ConstMatrixView x, const core::TensorView& weight,
                         core::MatrixView out, const Epilogue& epilogue = {});
core::Status linear_rows(const Exec& exec, core::ConstMatrixView x, core::ConstMatrixView weight,
                         core::MatrixView out, const Epilogue& epilogue = {});

}  // namespace npuseg::compute

// SPDX-License-Identifier: Apache-2.0
// The product of an activated gate and a second branch.
#pragma once

#include "compute/gemm.h"

namespace npuseg::compute {

// gate = activation(gate) * other, in place.
core::Status multiply_gated(const Exec& exec, Activation activation, core::MatrixView gate,
                            core::ConstMatrixView other);

}  // namespace npuseg::compute

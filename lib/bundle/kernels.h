// SPDX-License-Identifier: Apache-2.0
// Which files make a kernel, and where they are named.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "bundle/bfp16.h"
#include "bundle/manifest.h"
#include "core/dtype.h"
#include "core/tensor_view.h"

namespace npuseg::bundle {

// Paths are below the bundle's folder. Kernels with the same xclbin and kernel name share a
// hardware context.
struct KernelFiles {
  std::string key;
  std::string xclbin;
  std::string kernel_name;
  std::string insts;
  size_t line = 0;  // of the manifest
};

// What a kernel's record says: its key, "insts=", and where it runs: by_context "ctx=", the name of
// an xclbin record, else "xclbin=" and "name=" (MLIR_AIE when absent).
core::Result<KernelFiles> read_kernel_files(const Record& record, bool by_context,
                                            const Manifest& manifest);

// A tensor that a model must have: of this dtype and count of elements, or packed (packed_bytes
// not 0), for which the bytes alone count.
struct NeededTensor {
  std::string name;
  core::DType dtype = core::DType::kF32;
  core::Shape shape;
  size_t packed_bytes = 0;
  bool optional = false;  // may be absent: a linear layer's bias
};

}  // namespace npuseg::bundle

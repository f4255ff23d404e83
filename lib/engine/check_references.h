// SPDX-License-Identifier: Apache-2.0
// What checks of bundles share: the stored references by name, and which failures end a check.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "bundle/bundle.h"
#include "core/status.h"
#include "core/tensor_view.h"

namespace npuseg::engine {

// Failures that are not the bundle's end the check.
inline bool ends_check(const core::Status& status) {
  switch (status.code()) {
    case core::Code::kCancelled:
    case core::Code::kTimeout:
    case core::Code::kOutOfMemory:
    case core::Code::kDeviceUnavailable:
    case core::Code::kDeviceBusy:
    case core::Code::kDeviceLost:
    case core::Code::kInternal:
      return true;
    default:
      return false;
  }
}

// The stored references by name.
class References {
 public:
  explicit References(const bundle::Bundle& bundle) : bundle_(bundle) {}

  [[nodiscard]] bool has(const std::string& name) const {
    return bundle_.tensors().find(name) != nullptr;
  }
  template <class T>
  core::Result<std::span<const T>> values(const std::string& name, core::DType dtype,
                                          const core::Shape& shape) const {
    NPUSEG_ASSIGN_OR_RETURN(const core::TensorView view, bundle_.tensors().get(name, dtype, shape));
    return std::span<const T>(static_cast<const T*>(view.data), shape.elements());
  }
  core::Result<std::span<const float>> floats(const std::string& name,
                                              const core::Shape& shape) const {
    return values<float>(name, core::DType::kF32, shape);
  }
  core::Result<std::span<const int32_t>> integers(const std::string& name, size_t count) const {
    return values<int32_t>(name, core::DType::kI32, {count});
  }
  // Its first rows.
  core::Result<core::ConstMatrixView> matrix(const std::string& name, size_t rows, size_t columns,
                                             size_t stored_rows) const {
    NPUSEG_ASSIGN_OR_RETURN(const auto all, floats(name, {stored_rows, columns}));
    return core::ConstMatrixView{all.data(), rows, columns, columns};
  }

 private:
  const bundle::Bundle& bundle_;
};

}  // namespace npuseg::engine

// SPDX-License-Identifier: Apache-2.0
// Views of tensors in memory that somebody else owns.
//
// TensorView: a stored tensor (weights), dense row-major, any dtype, up to 6 dimensions.
// MatrixView: float32 activations [rows, cols], row-major with a row stride in elements. A feature
// map is a matrix of [height*width, channels] (channels last) everywhere in npuseg.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>

#include "core/dtype.h"

namespace npuseg::core {

struct Shape {
  static constexpr size_t kMaxRank = 6;
  std::array<size_t, kMaxRank> dims{};
  size_t rank = 0;

  Shape() = default;
  Shape(std::initializer_list<size_t> list) {
    for (size_t d : list) {
      if (rank < kMaxRank) dims[rank++] = d;
    }
  }
  size_t operator[](size_t i) const { return dims[i]; }
  [[nodiscard]] size_t elements() const {
    size_t n = 1;
    for (size_t i = 0; i < rank; ++i) n *= dims[i];
    return n;
  }
  bool operator==(const Shape& other) const {
    if (rank != other.rank) return false;
    for (size_t i = 0; i < rank; ++i) {
      if (dims[i] != other.dims[i]) return false;
    }
    return true;
  }
};

// Inputs of a row that share a scale in weights held as DType::kI8.
constexpr size_t kScaleGroup = 64;

struct TensorView {
  const void* data = nullptr;
  DType dtype = DType::kF32;
  Shape shape;
  // Of kI8 alone: [dims[0], scales_of_row()], value = integer * scale. Rows begin new groups.
  const float* scales = nullptr;

  [[nodiscard]] bool empty() const { return data == nullptr; }
  [[nodiscard]] size_t bytes() const {
    const size_t values = shape.elements() * dtype_bytes(dtype);
    return scales == nullptr ? values : values + shape[0] * scales_of_row() * sizeof(float);
  }
  // All dimensions behind the first are one row.
  [[nodiscard]] size_t row_elements() const {
    return shape[0] == 0 ? 0 : shape.elements() / shape[0];
  }
  [[nodiscard]] size_t scales_of_row() const {
    return (row_elements() + kScaleGroup - 1) / kScaleGroup;
  }
  // Part of the first dimension.
  [[nodiscard]] TensorView rows(size_t first, size_t count) const {
    TensorView view = *this;
    view.data =
        static_cast<const unsigned char*>(data) + first * row_elements() * dtype_bytes(dtype);
    if (scales != nullptr) view.scales = scales + first * scales_of_row();
    view.shape.dims[0] = count;
    return view;
  }
};

struct ConstMatrixView {
  const float* data = nullptr;
  size_t rows = 0;
  size_t cols = 0;
  size_t stride = 0;  // elements between row starts

  [[nodiscard]] const float* row(size_t r) const { return data + r * stride; }
};

struct MatrixView {
  float* data = nullptr;
  size_t rows = 0;
  size_t cols = 0;
  size_t stride = 0;

  [[nodiscard]] float* row(size_t r) const { return data + r * stride; }
  operator ConstMatrixView() const {  // NOLINT(google-explicit-constructor)
    return {data, rows, cols, stride};
  }
  [[nodiscard]] MatrixView columns(size_t first, size_t count) const {
    return {data + first, rows, count, stride};
  }
  [[nodiscard]] MatrixView row_range(size_t first, size_t count) const {
    return {data + first * stride, count, cols, stride};
  }
};

}  // namespace npuseg::core

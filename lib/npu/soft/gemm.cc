// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "compute/elementwise.h"
#include "compute/weight_forms.h"
#include "core/bf16.h"
#include "npu/soft/kernels.h"

namespace npuseg::npu::soft {

using compute::Exec;
using core::MatrixView;
using core::Status;
using core::TensorView;

namespace {

// Columns that faithful mode sums at a time: their sums fill registers.
constexpr size_t kTile = 16;
// Rows of a parallel step.
constexpr size_t kBand = 64;
// From here on a linear layer reads its weight more than once, so it is unpacked once instead. At
// that its work arrays are larger than the weight.
constexpr size_t kManyRows = 769;
// Columns of B that are unpacked at a time.
constexpr size_t kColumns = 64;

compute::Activation activation_of(const Gemm& gemm) {
  switch (gemm.activation) {
    case GemmActivation::kRelu:
      return compute::Activation::kRelu;
    case GemmActivation::kGeluTanh:
      return compute::Activation::kGeluTanh;
    case GemmActivation::kNone:
      break;
  }
  return compute::Activation::kNone;
}

// B as the rows that a linear layer reads. What was packed in two planes is summed without loss:
// seven bits and the seven below them.
class PackedWeight final : public compute::WeightReader {
 public:
  PackedWeight(const Gemm& gemm, const GemmOperands& operands)
      : layout_(packed_layout(gemm)), operands_(operands), banded_(gemm.lda < gemm.k) {}

  bool read(size_t first_row, size_t rows, size_t first, size_t depth, float* out,
            size_t stride) const override {
    bundle::unpack_columns(layout_, plane(0), first_row, rows, first, depth, out, stride);
    for (size_t p = 1; p < operands_.planes; ++p) {
      add_plane(plane(p), first_row, rows, first, depth, out, stride);
    }
    // A convolution's B is a band: a quarter of it is zeros.
    return !banded_ || !all_zero(rows, depth, out, stride);
  }

  [[nodiscard]] bool banded() const { return banded_; }

 private:
  static constexpr size_t kPiece = 128;

  [[nodiscard]] std::span<const unsigned char> plane(size_t index) const {
    return operands_.b.subspan(index * layout_.bytes(), layout_.bytes());
  }
  void add_plane(std::span<const unsigned char> packed, size_t first_row, size_t rows, size_t first,
                 size_t depth, float* out, size_t stride) const {
    float low[kPiece];
    for (size_t r = 0; r < rows; ++r) {
      for (size_t i = 0; i < depth; i += kPiece) {
        const size_t count = std::min(kPiece, depth - i);
        bundle::unpack_columns(layout_, packed, first_row + r, 1, first + i, count, low, kPiece);
        float* to = out + r * stride + i;
        for (size_t c = 0; c < count; ++c) to[c] += low[c];
      }
    }
  }
  static bool all_zero(size_t rows, size_t depth, const float* values, size_t stride) {
    for (size_t r = 0; r < rows; ++r) {
      for (size_t i = 0; i < depth; ++i) {
        if (values[r * stride + i] != 0.0f) return false;
      }
    }
    return true;
  }

  bundle::PackedLayout layout_;
  GemmOperands operands_;
  bool banded_;
};

double gelu_tanh(double x) {
  constexpr double kRootOfTwoOverPi = 0.7978845608028654;
  return 0.5 * x * (1.0 + std::tanh(kRootOfTwoOverPi * (x + 0.044715 * x * x * x)));
}

double activate(GemmActivation activation, double x) {
  switch (activation) {
    case GemmActivation::kRelu:
      return std::max(x, 0.0);
    case GemmActivation::kGeluTanh:
      return gelu_tanh(x);
    case GemmActivation::kNone:
      break;
  }
  return x;
}

// Gates and their partners of a row, tile by tile, to products [n / 2].
void multiply_pairs(const Gemm& gemm, float* row, float* out) {
  const size_t half = gemm.tile_n / 2;
  for (size_t tile = 0; tile < gemm.n; tile += gemm.tile_n) {
    float* gates = row + tile;
    compute::apply_activation(compute::Activation::kGeluTanh, gates, half);
    for (size_t i = 0; i < half; ++i) out[tile / 2 + i] = gates[i] * gates[half + i];
  }
}

Status store_pairs(const Exec& exec, const Gemm& gemm, float* sums, uint16_t* c) {
  std::vector<std::vector<float>> rows(static_cast<size_t>(exec.call->threads()));
  return core::parallel_for(
      *exec.call, (gemm.rows + kBand - 1) / kBand,
      [&](size_t index, int slot) {
        std::vector<float>& products = rows[static_cast<size_t>(slot)];
        products.resize(gemm.n / 2);
        for (size_t r = index * kBand; r < std::min(gemm.rows, (index + 1) * kBand); ++r) {
          multiply_pairs(gemm, sums + r * gemm.n, products.data());
          compute::narrow_bf16(products.data(), c + r * gemm.c_stride, gemm.n / 2);
        }
      },
      static_cast<double>(gemm.rows * gemm.n) * 2.0);
}

Status multiply(const Exec& exec, const Gemm& gemm, const PackedWeight& weight,
                core::ConstMatrixView x, MatrixView sums, const compute::Epilogue& epilogue,
                Scratch* scratch) {
  if (weight.banded() || gemm.rows < kManyRows) {
    return compute::linear(exec, x, weight, gemm.n, sums, epilogue);
  }
  NPUSEG_ASSIGN_OR_RETURN(float* rows, scratch->get(exec.budget, 2, gemm.n * gemm.k));
  NPUSEG_RETURN_IF_ERROR(core::parallel_for(
      *exec.call, (gemm.n + kColumns - 1) / kColumns,
      [&](size_t index, int) {
        const size_t first = index * kColumns;
        weight.read(first, std::min(kColumns, gemm.n - first), 0, gemm.k, rows + first * gemm.k,
                    gemm.k);
      },
      static_cast<double>(gemm.n * gemm.k)));
  return compute::linear(exec, x, core::ConstMatrixView{rows, gemm.n, gemm.k, gemm.k}, sums,
                         epilogue);
}

Status run_fast(const Exec& exec, const Gemm& gemm, const GemmOperands& operands,
                Scratch* scratch) {
  // Overlapping rows are widened once, as one long row.
  const bool overlapping = gemm.lda < gemm.k;
  const size_t count = overlapping ? gemm.a_elements() : gemm.rows * gemm.k;
  NPUSEG_ASSIGN_OR_RETURN(float* a, scratch->get(exec.budget, 0, count));
  NPUSEG_ASSIGN_OR_RETURN(float* sums, scratch->get(exec.budget, 1, gemm.rows * gemm.n));
  if (overlapping) {
    NPUSEG_RETURN_IF_ERROR(widen_rows(exec, operands.a, gemm.lda, gemm.rows - 1, gemm.lda, a));
    const size_t last = (gemm.rows - 1) * gemm.lda;
    NPUSEG_RETURN_IF_ERROR(widen_rows(exec, operands.a + last, gemm.k, 1, gemm.k, a + last));
  } else {
    NPUSEG_RETURN_IF_ERROR(widen_rows(exec, operands.a, gemm.lda, gemm.rows, gemm.k, a));
  }
  std::vector<float> bias;
  compute::Epilogue epilogue;
  if (gemm.bias) {
    bias.resize(gemm.n);
    bundle::unpack_bias(packed_layout(gemm), operands.b, 0, gemm.n, bias.data());
    epilogue.bias = TensorView{bias.data(), core::DType::kF32, {gemm.n}, nullptr};
  }
  epilogue.activation = activation_of(gemm);
  const core::ConstMatrixView x{a, gemm.rows, gemm.k, overlapping ? gemm.lda : gemm.k};
  NPUSEG_RETURN_IF_ERROR(multiply(exec, gemm, PackedWeight(gemm, operands), x,
                                  MatrixView{sums, gemm.rows, gemm.n, gemm.n}, epilogue, scratch));
  if (gemm.pair) return store_pairs(exec, gemm, sums, operands.c);
  return narrow_rows(exec, sums, gemm.rows, gemm.n, operands.c, gemm.c_stride);
}

// Columns first .. first + columns of all rows, [rows, kTile] sums. A product of a bfloat16 value
// and a weight is exact in double.
void sum_tile(const Gemm& gemm, const GemmOperands& operands, size_t first, size_t columns,
              double* sums) {
  std::vector<float> rows(columns * gemm.k);
  PackedWeight(gemm, operands).read(first, columns, 0, gemm.k, rows.data(), gemm.k);
  std::vector<double> b(gemm.k * kTile, 0.0);
  for (size_t j = 0; j < columns; ++j) {
    for (size_t i = 0; i < gemm.k; ++i)
      b[i * kTile + j] = static_cast<double>(rows[j * gemm.k + i]);
  }
  std::vector<float> bias(columns, 0.0f);
  bundle::unpack_bias(packed_layout(gemm), operands.b, first, columns, bias.data());
  for (size_t r = 0; r < gemm.rows; ++r) {
    const uint16_t* a = operands.a + r * gemm.lda;
    double row[kTile] = {};
    for (size_t i = 0; i < gemm.k; ++i) {
      const auto value = static_cast<double>(core::from_bf16(a[i]));
      for (size_t j = 0; j < kTile; ++j) row[j] += value * b[i * kTile + j];
    }
    for (size_t j = 0; j < columns; ++j) {
      sums[r * kTile + j] = row[j] + static_cast<double>(bias[j]);
    }
  }
}

uint16_t stored(double value) { return core::to_bf16(static_cast<float>(value)); }

Status run_faithful(const Exec& exec, const Gemm& gemm, const GemmOperands& operands) {
  const size_t half = gemm.tile_n / 2;
  // Columns of C in tiles; of pairs the partner of a column is half a tile of B behind it.
  const size_t out = gemm.out_columns();
  const size_t wide = gemm.pair ? std::min(kTile, half) : kTile;
  const size_t per_tile = gemm.pair ? (half + wide - 1) / wide : 1;
  const size_t tiles = gemm.pair ? gemm.n / gemm.tile_n * per_tile : (out + wide - 1) / wide;
  return core::parallel_for(*exec.call, tiles, [&](size_t index, int) {
    exec.call->poll();
    if (exec.call->stopped()) return;
    std::vector<double> sums(gemm.rows * kTile);
    std::vector<double> partners;
    size_t first = index * wide;  // in C
    size_t columns = std::min(wide, out - std::min(out, first));
    size_t source = first;  // in B
    if (gemm.pair) {
      const size_t inside = index % per_tile * wide;
      first = index / per_tile * half + inside;
      source = index / per_tile * gemm.tile_n + inside;
      columns = std::min(wide, half - inside);
      partners.resize(gemm.rows * kTile);
      sum_tile(gemm, operands, source + half, columns, partners.data());
    }
    sum_tile(gemm, operands, source, columns, sums.data());
    for (size_t r = 0; r < gemm.rows; ++r) {
      uint16_t* c = operands.c + r * gemm.c_stride + first;
      for (size_t j = 0; j < columns; ++j) {
        const double sum = sums[r * kTile + j];
        c[j] = gemm.pair ? stored(gelu_tanh(sum) * partners[r * kTile + j])
                         : stored(activate(gemm.activation, sum));
      }
    }
  });
}

}  // namespace

bundle::PackedLayout packed_layout(const Gemm& gemm) {
  return {gemm.k, gemm.n, gemm.tile_k, gemm.tile_n, gemm.ct_k, gemm.bias};
}

Status run_gemm(const Exec& exec, Mode mode, const Gemm& gemm, const GemmOperands& operands,
                Scratch* scratch) {
  return mode == Mode::kFast ? run_fast(exec, gemm, operands, scratch)
                             : run_faithful(exec, gemm, operands);
}

}  // namespace npuseg::npu::soft

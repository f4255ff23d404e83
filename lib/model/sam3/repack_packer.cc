// SPDX-License-Identifier: Apache-2.0
#include "model/sam3/repack_packer.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "compute/elementwise.h"
#include "core/bf16.h"

namespace npuseg::sam3 {

using core::Code;
using core::DType;
using core::Shape;
using core::Status;
using core::TensorView;

namespace {

std::span<const unsigned char> bytes_of(const void* data, size_t bytes) {
  return {static_cast<const unsigned char*>(data), bytes};
}

}  // namespace

Floats floats_of(const TensorView& tensor) {
  if (tensor.empty()) return {};
  Floats values(tensor.shape.elements());
  compute::widen(tensor, 0, values.size(), values.data());
  return values;
}

Dense::Dense(const LinearWeights& linear)
    : n(linear.weight.shape[0]),
      k(linear.weight.row_elements()),
      w(floats_of(linear.weight)),
      b(floats_of(linear.bias)) {
  b.resize(n);
}

void Dense::fold(const compute::LayerNorm& norm) {
  const Floats gamma = floats_of(norm.gamma);
  const Floats beta = floats_of(norm.beta);
  for (size_t i = 0; i < n; ++i) {
    float* weights = row(i);
    double sum = b[i];
    for (size_t j = 0; j < k; ++j) {
      sum += static_cast<double>(weights[j]) * static_cast<double>(beta[j]);
      weights[j] *= gamma[j];
    }
    b[i] = static_cast<float>(sum);
  }
}

void Dense::take(const Dense& other, size_t from, size_t count, size_t to, size_t first_in) {
  for (size_t i = 0; i < count; ++i) {
    std::copy_n(other.w.data() + (from + i) * other.k, other.k, row(to + i) + first_in);
    b[to + i] = other.b[from + i];
  }
}

Status Packer::floats(const std::string& name, const Shape& shape, const Floats& values) {
  return out_->add_tensor(name, DType::kF32, shape,
                          bytes_of(values.data(), values.size() * sizeof(float)));
}

Status Packer::floats(const std::string& name, const TensorView& tensor) {
  return floats(name, tensor.shape, floats_of(tensor));
}

Status Packer::halves(const std::string& name, const Shape& shape, const Floats& values) {
  std::vector<uint16_t> halves(values.size());
  std::transform(values.begin(), values.end(), halves.begin(), core::to_bf16);
  return out_->add_tensor(name, DType::kBF16, shape,
                          bytes_of(halves.data(), halves.size() * sizeof(uint16_t)));
}

Status Packer::halves(const std::string& name, const TensorView& tensor) {
  return halves(name, tensor.shape, floats_of(tensor));
}

Status Packer::integers(const std::string& name, const std::vector<int32_t>& values) {
  return out_->add_tensor(name, DType::kI32, {values.size()},
                          bytes_of(values.data(), values.size() * sizeof(int32_t)));
}

Status Packer::norm(const std::string& name, const compute::LayerNorm& norm) {
  NPUSEG_RETURN_IF_ERROR(floats(name + ".w", norm.gamma));
  return floats(name + ".b", norm.beta);
}

Status Packer::linear(const std::string& name, const LinearWeights& linear) {
  const size_t outs = linear.weight.shape[0];
  NPUSEG_RETURN_IF_ERROR(
      floats(name + ".w", {outs, linear.weight.row_elements()}, floats_of(linear.weight)));
  if (linear.bias.empty()) return {};
  return floats(name + ".b", linear.bias);
}

Status Packer::attention(const std::string& name, const AttentionWeights& attention) {
  NPUSEG_RETURN_IF_ERROR(linear(name + ".q", attention.q_proj));
  NPUSEG_RETURN_IF_ERROR(linear(name + ".k", attention.k_proj));
  NPUSEG_RETURN_IF_ERROR(linear(name + ".v", attention.v_proj));
  return linear(name + ".o", attention.o_proj);
}

Status Packer::packed(const std::string& name, std::string_view key, const Dense& dense) {
  NPUSEG_RETURN_IF_ERROR(call_.check());
  const bundle::PackedLayout& layout = gemm(key).b;
  if (dense.n > layout.n || dense.k > layout.k) {
    return Status(
        Code::kUnsupported,
        core::format("cannot repack: %s: the model's weight is %zu x %zu, kernel %s takes "
                     "at most %zu x %zu; use a bundle exported for this kind of model",
                     name.c_str(), dense.n, dense.k, std::string(key).c_str(), layout.n, layout.k));
  }
  const bool biased = std::any_of(dense.b.begin(), dense.b.end(), [](float b) { return b != 0; });
  if (biased && !layout.bias) {
    return Status(Code::kUnsupported,
                  core::format("cannot repack: %s: the model has a bias here and kernel %s adds "
                               "none; use a bundle whose kernel does",
                               name.c_str(), std::string(key).c_str()));
  }
  Floats rows(layout.n * layout.k);
  for (size_t i = 0; i < dense.n; ++i) {
    std::copy_n(dense.w.data() + i * dense.k, dense.k, rows.data() + i * layout.k);
  }
  Floats bias = dense.b;
  bias.resize(layout.n);
  std::vector<unsigned char> bytes(layout.bytes());
  NPUSEG_RETURN_IF_ERROR(bundle::pack_matrix(layout, rows.data(), 1, layout.k, bias.data(), bytes));
  call_.advance();
  return out_->add_tensor(name, DType::kU8, {bytes.size()}, bytes);
}

Status Packer::convolution(const std::string& name, const LinearWeights& conv) {
  const bundle::Sam3Gemm& kernel = gemm("conv");
  const size_t column = (kernel.b.k - kernel.lda) / 2;  // inputs of a column of three pixels
  const size_t pixels = kernel.lda / column;            // of a row of the product
  const size_t outs = conv.weight.shape[0];
  const size_t ins = conv.weight.shape[1];
  const Floats weight = floats_of(conv.weight);
  Dense banded(pixels * outs, (pixels + 2) * column);
  for (size_t j = 0; j < pixels; ++j) {
    for (size_t o = 0; o < outs; ++o) {
      float* row = banded.row(j * outs + o);
      for (size_t c = 0; c < ins; ++c) {
        const float* taps = weight.data() + (o * ins + c) * 9;
        for (size_t dy = 0; dy < 3; ++dy) {
          for (size_t dx = 0; dx < 3; ++dx) {
            row[(j + dx) * column + dy * ins + c] = taps[dy * 3 + dx];
          }
        }
      }
    }
  }
  NPUSEG_RETURN_IF_ERROR(packed(name, "conv", banded));
  Floats bias = floats_of(conv.bias);
  bias.resize(outs);
  return floats(name + ".b", {outs}, bias);
}

}  // namespace npuseg::sam3

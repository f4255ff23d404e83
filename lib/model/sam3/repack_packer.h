// SPDX-License-Identifier: Apache-2.0
// What the parts of repack share: weights as plain float32, folded, padded, packed and written.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "bundle/bundle.h"
#include "bundle/writer.h"
#include "model/sam3/constants.h"
#include "model/sam3/sam3.h"
#include "model/sam3/weights.h"

namespace npuseg::sam3 {

using Floats = std::vector<float>;

// All values of a stored tensor; none of an absent one.
Floats floats_of(const core::TensorView& tensor);

// y = W x + b, as a torch Linear lies: [n, k] and [n].
struct Dense {
  Dense(size_t outs, size_t ins) : n(outs), k(ins), w(outs * ins), b(outs) {}
  explicit Dense(const LinearWeights& linear);

  float* row(size_t out) { return w.data() + out * k; }

  // W diag(gamma), b + W beta: takes the layer norm's affine part in.
  void fold(const compute::LayerNorm& norm);
  // Rows `from` of `other`, their inputs at column first_in, become rows `to` ..; their biases too.
  void take(const Dense& other, size_t from, size_t count, size_t to, size_t first_in = 0);

  size_t n;
  size_t k;
  Floats w;
  Floats b;
};

class Packer {
 public:
  Packer(core::Call& call, const Model& model, const bundle::Bundle& kernels, bundle::Writer* out)
      : call_(call), model_(model), kernels_(kernels), out_(out) {}

  [[nodiscard]] const Sam3Config& config() const { return model_.config(); }
  [[nodiscard]] const Weights& weights() const { return model_.weights(); }
  [[nodiscard]] const Constants& constants() const { return model_.constants(); }
  [[nodiscard]] const bundle::Sam3Params& params() const { return kernels_.sam3().params; }
  // Of a key that every bundle has.
  [[nodiscard]] const bundle::Sam3Gemm& gemm(std::string_view key) const {
    return kernels_.sam3().gemms.find(key)->second;
  }
  [[nodiscard]] const bundle::Sam3Mha& mha(std::string_view key) const {
    return kernels_.sam3().mhas.find(key)->second;
  }

  core::Status floats(const std::string& name, const core::Shape& shape, const Floats& values);
  core::Status floats(const std::string& name, const core::TensorView& tensor);
  core::Status halves(const std::string& name, const core::Shape& shape, const Floats& values);
  core::Status halves(const std::string& name, const core::TensorView& tensor);
  core::Status integers(const std::string& name, const std::vector<int32_t>& values);
  core::Status norm(const std::string& name, const compute::LayerNorm& norm);
  core::Status linear(const std::string& name, const LinearWeights& linear);
  // q, k, v and o below `name`.
  core::Status attention(const std::string& name, const AttentionWeights& attention);

  // B = the transposed weight, zeros where the kernel is larger. UNSUPPORTED when the weight is
  // larger than the kernel, or has a bias that the kernel does not add.
  core::Status packed(const std::string& name, std::string_view key, const Dense& dense);
  // A 3 x 3 convolution [out, in, 3, 3] as the banded matrix of the "conv" kernel, and its bias.
  core::Status convolution(const std::string& name, const LinearWeights& conv);

 private:
  core::Call& call_;
  const Model& model_;
  const bundle::Bundle& kernels_;
  bundle::Writer* out_;
};

// The parts, each a room of the model.
core::Status repack_vit(Packer& packer);
core::Status repack_neck(Packer& packer);
core::Status repack_text(Packer& packer);
core::Status repack_encoder(Packer& packer);
core::Status repack_decoder(Packer& packer);
core::Status repack_masks(Packer& packer);

}  // namespace npuseg::sam3

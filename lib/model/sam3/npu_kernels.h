// SPDX-License-Identifier: Apache-2.0
// The kernels of a SAM 3 bundle on a device, with the buffers that they pass rows through (spec
// iron-bundle-sam3.md, sections 4 and 8).
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bundle/bundle.h"
#include "compute/gemm.h"
#include "npu/device.h"

namespace npuseg::sam3 {

// Rows of values on the device: bfloat16, or float32 in a residual stream.
struct DeviceRows {
  std::shared_ptr<npu::Buffer> buffer;
  size_t rows = 0;
  size_t stride = 0;  // values
  size_t value = sizeof(uint16_t);

  [[nodiscard]] uint16_t* row(size_t r) const {
    return reinterpret_cast<uint16_t*>(buffer->map().data()) + r * stride;
  }
  [[nodiscard]] float* float_row(size_t r) const {
    return reinterpret_cast<float*>(buffer->map().data()) + r * stride;
  }
  // What the host wrote into the first rows, for the kernels; what kernels wrote, for the host.
  [[nodiscard]] core::Status upload(size_t count) const {
    return buffer->to_device(0, count * stride * value);
  }
  [[nodiscard]] core::Status download(size_t count) const {
    return buffer->from_device(0, count * stride * value);
  }
};

// Buffers are made when they are first used and stay. Not thread-safe: one call at a time.
class NpuKernels {
 public:
  static core::Result<std::unique_ptr<NpuKernels>> make(
      std::shared_ptr<const bundle::Bundle> bundle, std::shared_ptr<npu::Device> device);
  // Bytes of all rows there can be.
  static size_t row_bytes(const bundle::Sam3Manifest& manifest);
  // Rows of a GEMM's stage, or of the convolution of a map, that are read of those that whole runs
  // compute.
  static size_t used_rows(const bundle::Sam3Manifest& manifest, std::string_view key);
  static size_t used_convolution_rows(const bundle::Sam3Manifest& manifest, size_t side);

  // A and C of a GEMM's stage, as many rows as whole runs of it take. fc2's A is fc1's C.
  core::Result<DeviceRows> input(std::string_view key);
  core::Result<DeviceRows> output(std::string_view key);
  // output(key) = input(key) * weight, all rows that are used. `weight`: a tensor of the bundle or
  // a slot.
  core::Status gemm(core::Call& call, const std::string& key, const std::string& weight);
  // Packed weights that are made at run time, in a buffer of that name.
  core::Status fill_slot(const std::string& name, std::span<const unsigned char> packed);

  // The 3x3 convolution of a square map whose side is 1, 2 or 4 grids: rows of three bordered
  // pixels one below the other (spec 4.4), and the outputs, N values for a row of A.
  struct Convolution {
    DeviceRows a;
    DeviceRows c;
  };
  core::Result<Convolution> convolution(size_t side);
  core::Status convolve(core::Call& call, size_t side, const std::string& weight);

  // One of q, k, v, o (0 to 3) of an attention kernel that has buffers of its own; o of mha_d is
  // input("d_o").
  core::Result<DeviceRows> attention_rows(std::string_view key, size_t index);
  core::Status attend(core::Call& call, const std::string& key);

  // Of a ViT wholly on the device: its two residual streams, and its kernels in their order.
  core::Result<DeviceRows> residual(size_t index);
  core::Status rotate(core::Call& call, bool global);
  // The attention of a layer, from v_qkv's output and the rotated rows into v_o's input.
  core::Status attend_in_place(core::Call& call, bool global);
  // residual(1 - from) = residual(from) + output(delta); input(normed) = its norm.
  core::Status add_norm(core::Call& call, size_t from, const std::string& delta,
                        const std::string& normed);

  [[nodiscard]] const npu::Device& device() const { return *device_; }

 private:
  NpuKernels(std::shared_ptr<const bundle::Bundle> bundle, std::shared_ptr<npu::Device> device)
      : bundle_(std::move(bundle)), device_(std::move(device)) {}
  core::Status load_kernels();
  core::Status load_kernel(const std::string& key, const npu::Operation& operation);
  [[nodiscard]] const bundle::Sam3Gemm& record(std::string_view key) const;
  struct Shape {
    size_t rows = 0;
    size_t stride = 0;
    size_t value = sizeof(uint16_t);
  };
  static Shape input_shape(const bundle::Sam3Manifest& manifest, std::string_view key);
  static Shape output_shape(const bundle::Sam3Manifest& manifest, std::string_view key);
  static Shape attention_shape(const bundle::Sam3Manifest& manifest, std::string_view key);
  // Of A and of C.
  static std::pair<Shape, Shape> convolution_shapes(const bundle::Sam3Manifest& manifest,
                                                    size_t side);
  static Shape residual_shape(const bundle::Sam3Manifest& manifest);
  static Shape rotated_shape(const bundle::Sam3Manifest& manifest);
  core::Result<DeviceRows> named_rows(const std::string& name, const Shape& shape);
  core::Result<std::shared_ptr<npu::Buffer>> weight_buffer(const std::string& name);
  core::Status run_chunks(core::Call& call, const std::string& key, const std::string& weight,
                          const DeviceRows& a, const DeviceRows& c, size_t used);
  core::Status run(core::Call& call, const std::string& key, size_t variant,
                   std::span<const npu::BufferRange> arguments);

  std::shared_ptr<const bundle::Bundle> bundle_;
  std::shared_ptr<npu::Device> device_;
  std::map<std::string, std::shared_ptr<npu::Kernel>> kernels_;
  std::map<std::string, DeviceRows> rows_;
  std::map<std::string, std::shared_ptr<npu::Buffer>> weights_;
  // By weight or kernel, and which of its runs.
  std::map<std::pair<std::string, size_t>, std::unique_ptr<npu::Run>> runs_;
};

}  // namespace npuseg::sam3

// SPDX-License-Identifier: Apache-2.0
// The kernels of an EmbeddingGemma 2 bundle on a device, with the buffers that they pass rows
// through (spec iron-bundle-embeddinggemma2.md, sections 6 and 8).
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bundle/bundle.h"
#include "compute/gemm.h"
#include "npu/device.h"

namespace npuseg::embeddinggemma2 {

// Rows of bfloat16 values on the device.
struct DeviceRows {
  std::shared_ptr<npu::Buffer> buffer;
  size_t rows = 0;
  size_t stride = 0;  // values
};

// Not thread-safe: one set of buffers is one call at a time.
class NpuKernels {
 public:
  static core::Result<std::unique_ptr<NpuKernels>> make(
      std::shared_ptr<const bundle::Bundle> bundle, std::shared_ptr<npu::Device> device);

  // What the buffers of rows take.
  static size_t row_bytes(const bundle::Gemma2Manifest& manifest);

  struct Tower {
    DeviceRows a;    // inputs of GEMMs; of the vision tower also outputs of attention
    DeviceRows c;    // outputs
    DeviceRows gu;   // gated MLP, and a spare row that views of column slices reach into
    DeviceRows att;  // vision: q, k, v for attention; text: its result, and a spare row
    std::vector<DeviceRows> parts;  // sums over slices of the inputs, to be added
  };
  Tower vision;
  DeviceRows vision_qkv;
  DeviceRows soft_tokens;
  Tower text;
  std::map<size_t, DeviceRows> text_qkv;  // by width
  DeviceRows per_layer;

  // c = gemm(columns `column` .. of a, weight), over the first `rows` rows; what lies behind them
  // is computed too and means nothing. LIMIT_EXCEEDED when the bundle has no stream for so many.
  core::Status gemm(core::Call& call, std::string_view key, const std::string& weight,
                    const DeviceRows& a, size_t column, const DeviceRows& c, size_t rows);
  // gemm() of all columns of a, and `out` read from c.
  core::Status linear(const compute::Exec& exec, std::string_view key, const std::string& weight,
                      const DeviceRows& a, const DeviceRows& c, core::MatrixView out);
  // vision.a = attention of vision.att among the first `rows` rows.
  core::Status attend(core::Call& call, size_t rows);

  // values, rounded, to columns 0 .. of the first rows.
  core::Status put(const compute::Exec& exec, core::ConstMatrixView values, const DeviceRows& to);
  // Columns first .. of the first rows, after get_ready() for what a kernel has written.
  core::Status get_ready(const DeviceRows& from, size_t rows);
  core::Status get(const compute::Exec& exec, const DeviceRows& from, size_t first,
                   core::MatrixView out);
  // The sum of the first `count` parts, in their order.
  core::Status get_sum(const compute::Exec& exec, const Tower& tower, size_t count,
                       core::MatrixView out);

  [[nodiscard]] const npu::Device& device() const { return *device_; }

 private:
  NpuKernels(std::shared_ptr<const bundle::Bundle> bundle, std::shared_ptr<npu::Device> device)
      : bundle_(std::move(bundle)), device_(std::move(device)) {}
  core::Status make_buffers();
  core::Result<DeviceRows> rows_of(size_t rows, size_t stride, size_t spare, const char* what);
  core::Result<std::shared_ptr<npu::Kernel>> kernel(const std::string& key,
                                                    const npu::Operation& operation);
  core::Result<std::shared_ptr<npu::Buffer>> weight_buffer(const std::string& name);

  std::shared_ptr<const bundle::Bundle> bundle_;
  std::shared_ptr<npu::Device> device_;
  std::map<std::string, std::shared_ptr<npu::Kernel>> kernels_;
  std::map<std::string, std::shared_ptr<npu::Buffer>> weights_;
  // By weight and count of chunks; of attention by its rows.
  std::map<std::pair<std::string, size_t>, std::unique_ptr<npu::Run>> runs_;
};

}  // namespace npuseg::embeddinggemma2

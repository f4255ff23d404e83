// SPDX-License-Identifier: Apache-2.0
// SAM 3 replayed from an IRON bundle, kernel by kernel: the same steps as the float graph (sam3.h),
// its large products and attentions on a device, the rest on the host (spec iron-bundle-sam3.md,
// section 7).
#pragma once

#include <memory>
#include <mutex>

#include "bundle/bundle.h"
#include "model/sam3/sam3.h"
#include "npu/device.h"

namespace npuseg::sam3 {

struct NpuParts;

// Any number of threads may use one model; their work on the device is done one after the other.
class NpuModel final : public Graph {
 public:
  struct Options {
    bool check_weights = true;  // scan what the host computes with for NaN/Inf and name the tensor
    core::MemoryBudgetPtr budget;
    core::Logger log;
  };
  // What a bundle holds, by its manifest and the shapes of its tensors. config is what a
  // checkpoint's would be.
  struct Facts {
    Sam3Config config;
    size_t parameters = 0;    // used ones, without the padding of packed matrices
    size_t weight_bytes = 0;  // as stored, used ones
    size_t device_bytes = 0;  // of rows that pass through the device
  };
  // UNSUPPORTED for bundles that are not SAM 3's.
  static core::Result<Facts> read_facts(const bundle::Bundle& bundle);

  static core::Result<std::shared_ptr<const NpuModel>> load(
      std::shared_ptr<const bundle::Bundle> bundle, std::shared_ptr<npu::Device> device,
      const Options& options);
  ~NpuModel() override;

  [[nodiscard]] npu::DeviceCounters counters() const;
  [[nodiscard]] core::Status check_files() const override;
  // What the stages (npu_stages.h) work on, for who runs them alone, while it holds the model.
  [[nodiscard]] const NpuParts& parts() const { return *parts_; }
  [[nodiscard]] std::unique_lock<std::mutex> hold() const { return std::unique_lock(mutex_); }

  core::Result<std::shared_ptr<const ImageFeatures>> encode_image(core::Call& call,
                                                                  const float* pixels,
                                                                  StageTimes* times) const override;
  core::Result<std::shared_ptr<const TextFeatures>> encode_text(core::Call& call,
                                                                std::span<const int64_t> ids,
                                                                StageTimes* times) const override;
  // Bundles have no encoder for boxes.
  core::Result<Detection> detect(core::Call& call, const ImageFeatures& image,
                                 const TextFeatures& text, std::span<const ExemplarBox> boxes,
                                 const DetectOptions& options, StageTimes* times) const override;

 private:
  NpuModel();
  mutable std::mutex mutex_;
  std::unique_ptr<NpuParts> parts_;  // its kernels are used under mutex_
};

}  // namespace npuseg::sam3

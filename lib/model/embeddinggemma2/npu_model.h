// SPDX-License-Identifier: Apache-2.0
// EmbeddingGemma 2 replayed from an IRON bundle, kernel by kernel: the same steps as the float
// graph (embeddinggemma2.h), its linear layers and the pictures' attention on a device, the rest on
// the host (spec iron-bundle-embeddinggemma2.md, sections 11 to 13).
#pragma once

#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "bundle/bundle.h"
#include "compute/rope.h"
#include "model/embeddinggemma2/embeddinggemma2.h"
#include "npu/device.h"

namespace npuseg::embeddinggemma2 {

class NpuKernels;
struct NpuWeights;
struct PackedTokens;

// The work of several threads on the device is done one after the other.
class NpuModel final : public Graph {
 public:
  struct Options {
    core::MemoryBudgetPtr budget;
    core::Logger log;
  };
  // Around a picture the vectors of these four ids are the bundle's own; a bundle without texts
  // knows no others.
  struct SpecialIds {
    int64_t start = 2;
    int64_t begin_image = 255999;
    int64_t end_image = 258882;
    int64_t end = 1;

    // In the order of the bundle's vectors.
    [[nodiscard]] std::vector<int64_t> all() const { return {start, begin_image, end_image, end}; }
  };
  // What a bundle holds, by its manifest and the shapes of its tensors. config is what a
  // checkpoint's would be; its ids are those of SpecialIds.
  struct Facts {
    EmbeddingGemma2Config config;
    SpecialIds special;
    size_t parameters = 0;
    size_t weight_bytes = 0;
    size_t device_bytes = 0;  // of rows that pass through the device
  };
  // UNSUPPORTED for bundles that are not EmbeddingGemma 2's or that this graph cannot run.
  static core::Result<Facts> read_facts(const bundle::Bundle& bundle);

  static core::Result<std::shared_ptr<NpuModel>> load(std::shared_ptr<const bundle::Bundle> bundle,
                                                      std::shared_ptr<npu::Device> device,
                                                      const Options& options);
  ~NpuModel() override;

  [[nodiscard]] const SpecialIds& special_ids() const { return special_; }
  [[nodiscard]] npu::DeviceCounters counters() const;
  [[nodiscard]] core::Status check_files() const override;

  core::Result<core::Matrix> encode_picture(core::Call& call, const Patches& patches,
                                            StageTimes* times) const override;
  core::Result<core::Matrix> embed(core::Call& call, std::span<const Sequence> sequences,
                                   StageTimes* times) const override;

 private:
  NpuModel();
  core::Status check_input(const Sequence& sequence) const;
  core::Status encode_rows(const compute::Exec& exec, const Patches& patches,
                           core::MatrixView x) const;
  core::Status vision_layer(const compute::Exec& exec, size_t layer, const compute::RopeTable& rope,
                            const int32_t* positions, core::MatrixView x, core::MatrixView branch,
                            core::MatrixView qkv) const;
  core::Status text_layer(const compute::Exec& exec, size_t layer, const PackedTokens& packed,
                          core::MatrixView x, core::MatrixView branch, core::MatrixView gate,
                          core::MatrixView qkv) const;
  core::Status text_attention(const compute::Exec& exec, size_t layer, const PackedTokens& packed,
                              core::MatrixView qkv) const;
  core::Status embed_pack(const compute::Exec& exec, std::span<const Sequence> sequences,
                          core::MatrixView out) const;
  void embed_id(int64_t id, bool beside_picture, float* out) const;

  std::shared_ptr<const bundle::Bundle> bundle_;
  SpecialIds special_;
  std::unique_ptr<NpuWeights> weights_;
  std::unique_ptr<Ropes> ropes_;
  mutable std::mutex mutex_;
  std::unique_ptr<NpuKernels> kernels_;  // used under mutex_
};

}  // namespace npuseg::embeddinggemma2

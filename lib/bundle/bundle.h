// SPDX-License-Identifier: Apache-2.0
// An IRON bundle: what a folder with manifest.txt, tensors.txt, tensors.bin and kernels/ holds, all
// of it checked at open. Weights are mapped and not read.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bundle/embeddinggemma2_manifest.h"
#include "bundle/kernels.h"
#include "bundle/manifest.h"
#include "bundle/sam3_manifest.h"
#include "bundle/tensors.h"
#include "core/file.h"
#include "core/status.h"

namespace npuseg::bundle {

enum class BundleKind : uint8_t { kSam3, kEmbeddingGemma2 };

class Bundle {
 public:
  // Whether the folder holds a manifest.txt. Says nothing of what is in it.
  static bool is_bundle(const std::string& directory);
  // The model that a manifest is of, by its params. UNSUPPORTED for bundles of other models.
  static core::Result<BundleKind> probe(const std::string& directory);

  // Refuses everything that the manifests' readers refuse, tensors that are missing or have another
  // size than the manifest gives them, kernels whose files are missing, damaged or of another NPU.
  static core::Result<Bundle> open(const std::string& directory);

  [[nodiscard]] BundleKind kind() const {
    return sam3_ ? BundleKind::kSam3 : BundleKind::kEmbeddingGemma2;
  }
  [[nodiscard]] const std::string& directory() const { return directory_; }
  [[nodiscard]] const Manifest& manifest() const { return manifest_; }
  [[nodiscard]] const Tensors& tensors() const { return tensors_; }
  // Of the kind that the bundle is.
  [[nodiscard]] const Sam3Manifest& sam3() const { return *sam3_; }
  [[nodiscard]] const Gemma2Manifest& gemma2() const { return *gemma2_; }

  [[nodiscard]] const std::vector<KernelFiles>& kernels() const { return kernels_; }
  [[nodiscard]] const KernelFiles* find_kernel(std::string_view key) const;
  // Content of a kernel's instruction file; empty for a key that is none.
  [[nodiscard]] std::span<const unsigned char> instructions(std::string_view key) const;
  // A path of the manifest joined to the folder.
  [[nodiscard]] std::string path(const std::string& relative) const;
  // Hardware contexts that all kernels together take.
  [[nodiscard]] size_t contexts() const;

 private:
  core::Status check_tensors() const;
  core::Status open_kernels();

  std::string directory_;
  Manifest manifest_;
  Tensors tensors_;
  std::optional<Sam3Manifest> sam3_;
  std::optional<Gemma2Manifest> gemma2_;
  std::vector<KernelFiles> kernels_;                      // sorted by key
  std::map<std::string, core::MappedFile> instructions_;  // by path in the manifest
};

}  // namespace npuseg::bundle

// SPDX-License-Identifier: Apache-2.0
// Any bytes as a bundle's manifest, read as that of both models; every kernel's layout of an
// accepted one is walked.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "bundle/embeddinggemma2_manifest.h"
#include "bundle/manifest.h"
#include "bundle/sam3_manifest.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace npuseg::bundle;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto manifest = Manifest::parse(text, "fuzz");
  if (!manifest.ok()) return 0;
  volatile size_t sum = 0;
  if (const auto sam3 = Sam3Manifest::read(manifest.value()); sam3.ok()) {
    for (const auto& [key, gemm] : sam3.value().gemms) {
      const PackedLayout& b = gemm.b;
      if (b.block_offset(b.k / 8 - 1, b.n - 1) + kBlockBytes != b.bytes()) __builtin_trap();
    }
    sum = sum + sam3.value().tensors().size() + sam3.value().kernels().size();
  }
  if (const auto gemma = Gemma2Manifest::read(manifest.value()); gemma.ok()) {
    sum = sum + gemma.value().packed_weights().size() + gemma.value().tensors().size() +
          gemma.value().kernels().size();
  }
  return 0;
}

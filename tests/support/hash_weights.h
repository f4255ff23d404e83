// SPDX-License-Identifier: Apache-2.0
// SAM 3 checkpoint directories whose weights follow a hash of tensor name and element number, so
// that any language writes the same model without a file passing between them (spec sam3-model.md,
// section 23.1).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/sam3_config.h"
#include "core/dtype.h"

namespace npuseg::test {

struct HashTensor {
  std::string name;  // without prefix
  std::vector<size_t> shape;
  [[nodiscard]] size_t elements() const;
};

// All tensors of a checkpoint, names sorted bytewise: the used ones and those that the reference
// stores but never reads. projection: rows of the unused text_encoder.text_projection.
std::vector<HashTensor> hash_tensors(const checkpoint::Sam3Config& config, size_t projection);

std::vector<float> hash_values(const HashTensor& tensor);

struct HashCheckpoint {
  core::DType dtype = core::DType::kF32;  // or kBF16, rounded to nearest even
  bool prefix = false;                    // detector_model. and dummy tracker tensors
  bool form_a = false;                    // config below detector_config
  size_t shards = 1;                      // above 1: with an index file
  size_t projection = 20;
};

// Writes config.json (detector: text of the detector object), processor_config.json and tensors
// into an existing directory. False when a file cannot be written or the config is refused.
bool write_hash_checkpoint(const std::string& directory, std::string_view detector,
                           const HashCheckpoint& how);

// Detector config of the golden tiny model.
std::string golden_config();

}  // namespace npuseg::test

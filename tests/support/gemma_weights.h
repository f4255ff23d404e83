// SPDX-License-Identifier: Apache-2.0
// EmbeddingGemma 2 checkpoint directories whose weights follow a rule, so that any language writes
// the same model without a file passing between them (spec embeddinggemma2-model.md, section 18).
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/embeddinggemma2_config.h"
#include "core/dtype.h"

namespace npuseg::test {

struct GemmaTensor {
  std::string name;
  std::vector<size_t> shape;
  [[nodiscard]] size_t elements() const;
};

// All tensors of a text and vision checkpoint, in the order of the model's parts.
std::vector<GemmaTensor> gemma_tensors(const checkpoint::EmbeddingGemma2Config& config);

using GemmaRule = std::function<std::vector<float>(const GemmaTensor&)>;
// Section 18.2: the same values in every tensor.
std::vector<float> golden_a_values(const GemmaTensor& tensor);
// Section 18.3: values from the name, norm weights around 1.
std::vector<float> golden_b_values(const GemmaTensor& tensor);
// The rule of tests/oracle/embeddinggemma2_stages.py.
std::vector<float> stage_values(const GemmaTensor& tensor);

// Writes model.safetensors into a directory, float32 or (rounded to nearest even) bfloat16.
bool write_gemma_tensors(const std::string& directory, const std::vector<GemmaTensor>& tensors,
                         core::DType dtype, const GemmaRule& rule);
// Writes config.json and the tensors that it asks for. False when the config is refused or a file
// cannot be written.
bool write_gemma_checkpoint(const std::string& directory, std::string_view config,
                            core::DType dtype, const GemmaRule& rule);

}  // namespace npuseg::test

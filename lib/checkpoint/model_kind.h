// SPDX-License-Identifier: Apache-2.0
// Which model a directory holds.
#pragma once

#include <cstdint>
#include <string>

#include "core/json.h"
#include "core/status.h"

namespace npuseg::checkpoint {

constexpr size_t kMaxConfigBytes = size_t{4} << 20;

enum class ModelKind : uint8_t { kSam3, kEmbeddingGemma2 };

// From config.json alone. A directory of another model is UNSUPPORTED with a message that says what
// it is, as far as that can be told, and what to use.
core::Result<ModelKind> probe_model_kind(const std::string& directory);

// directory/config.json, parsed. Messages tell a missing folder, a file in place of a folder and a
// folder without config.json apart.
core::Result<core::JsonDocument> load_model_config(const std::string& directory);

// "an EmbeddingGemma 2 model", "EmbeddingGemma 1 (model_type gemma3_text)", ...: for messages.
std::string describe_model(const core::JsonValue& root);

}  // namespace npuseg::checkpoint

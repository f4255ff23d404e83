// SPDX-License-Identifier: Apache-2.0
// What a model's directory holds.
#pragma once

#include <cstdint>
#include <string>

#include "checkpoint/model_kind.h"
#include "core/status.h"

namespace npuseg::engine {

enum class ModelSource : uint8_t {
  kCheckpoint,  // config.json, *.safetensors, a tokenizer: computed in float on the CPU
  kBundle,      // manifest.txt, tensors.txt, tensors.bin, kernels/: replayed on an NPU
};

struct ModelDirectory {
  ModelSource source = ModelSource::kCheckpoint;
  checkpoint::ModelKind kind = checkpoint::ModelKind::kSam3;
};

// By config.json or manifest.txt alone; UNSUPPORTED, with what it is, for other models.
core::Result<ModelDirectory> probe_directory(const std::string& directory);

// The source; UNSUPPORTED, with what the directory holds and which function opens it, when the kind
// is not the one wanted.
core::Result<ModelSource> check_kind(const std::string& directory, checkpoint::ModelKind wanted);

}  // namespace npuseg::engine

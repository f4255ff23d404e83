// SPDX-License-Identifier: Apache-2.0
// How a model is opened, whichever it is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "core/log.h"
#include "core/status.h"
#include "core/threads.h"
#include "engine/device.h"
#include "engine/model_source.h"

namespace npuseg::engine {

struct ModelOptions {
  std::string device;
  Precision precision = Precision::kAuto;
  int threads = 0;
  uint64_t memory_limit = 0;
  uint64_t image_cache_bytes = 0;
  uint64_t prompt_cache_bytes = 0;
  size_t prompt_cache_entries = 0;
  bool check_weights = true;
  core::Logger log;
  core::Call::Options call;
};

constexpr uint64_t kDefaultImageCacheBytes = uint64_t{1} << 30;

// 0: the default.
inline size_t limit_or(uint64_t wanted, uint64_t otherwise) {
  return static_cast<size_t>(wanted == 0 ? otherwise : wanted);
}

}  // namespace npuseg::engine

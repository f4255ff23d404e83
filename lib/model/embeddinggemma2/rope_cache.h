// SPDX-License-Identifier: Apache-2.0
// Rotary tables of a model, made when first needed and made anew for longer inputs.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>

#include "checkpoint/embeddinggemma2_config.h"
#include "compute/rope.h"
#include "core/status.h"
#include "core/threads.h"

namespace npuseg::embeddinggemma2 {

// Thread-safe. A table that was given out stays valid when a longer one replaces it; positions have
// the same values in both.
class RopeCache {
 public:
  RopeCache(size_t channels, double theta) : channels_(channels), theta_(theta) {}

  // A table of at least `positions` rows.
  core::Result<std::shared_ptr<const compute::RopeTable>> get(core::Call& call,
                                                              size_t positions) const;

 private:
  const size_t channels_;
  const double theta_;
  mutable std::mutex mutex_;
  mutable std::shared_ptr<const compute::RopeTable> table_;  // guarded by mutex_
};

struct Ropes {
  RopeCache sliding;
  RopeCache full;
  RopeCache vision;  // one axis: half of a head

  explicit Ropes(const checkpoint::EmbeddingGemma2Config& config);
};

}  // namespace npuseg::embeddinggemma2

// SPDX-License-Identifier: Apache-2.0
#include "model/embeddinggemma2/rope_cache.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace npuseg::embeddinggemma2 {

using core::Result;
using TablePtr = std::shared_ptr<const compute::RopeTable>;

Result<TablePtr> RopeCache::get(core::Call& call, size_t positions) const {
  constexpr size_t kFewest = 64;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (table_ != nullptr && table_->positions >= positions) return table_;
  }
  // Made outside of the lock: two threads may both make one, and either is right.
  const size_t rounded = std::bit_ceil(std::max(positions, kFewest));
  NPUSEG_ASSIGN_OR_RETURN(compute::RopeTable made,
                          compute::make_rope_table(call, rounded, channels_, theta_));
  TablePtr table = std::make_shared<const compute::RopeTable>(std::move(made));
  const std::lock_guard<std::mutex> lock(mutex_);
  if (table_ == nullptr || table_->positions < rounded) table_ = table;
  return table;
}

Ropes::Ropes(const checkpoint::EmbeddingGemma2Config& config)
    : sliding(config.text.sliding.head_dim, config.text.sliding.rope_theta),
      full(config.text.full.head_dim, config.text.full.rope_theta),
      vision(config.vision.has_value() ? config.vision->head_dim / 2 : 0,
             config.vision.has_value() ? config.vision->rope_theta : 1.0) {}

}  // namespace npuseg::embeddinggemma2

// SPDX-License-Identifier: Apache-2.0
// Facts of models as the public structs.
#pragma once

#include "core/status.h"
#include "engine/embeddinggemma2_engine.h"
#include "engine/sam3_engine.h"
#include "npuseg.h"

namespace npuseg::api {

// As npuseg_model_info has them.
const char* kind_name(checkpoint::ModelKind kind);
const char* source_name(engine::ModelSource source);

npuseg_model_info describe(const engine::Sam3Facts& facts);
npuseg_model_info describe(const engine::EmbeddingGemma2Facts& facts);

// What both kinds of model count. Times: StageTimes of a model room.
template <class Engine>
npuseg_counters count(const Engine& engine) {
  npuseg_counters counters{};
  const auto times = engine.times();
  std::copy(std::begin(times.runs), std::end(times.runs), counters.runs);
  std::copy(std::begin(times.nanoseconds), std::end(times.nanoseconds), counters.nanoseconds);
  counters.image_cache_bytes = engine.image_cache_bytes();
  counters.memory_used = engine.budget()->used();
  counters.memory_peak = engine.budget()->peak();
  return counters;
}

core::Status check_directory(const char* directory);

}  // namespace npuseg::api

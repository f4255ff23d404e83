// SPDX-License-Identifier: Apache-2.0
// What can be told of a model's weights without reading them.
#pragma once

#include <cstdint>
#include <string>

#include "core/dtype.h"

namespace npuseg::engine {

struct WeightFacts {
  uint64_t parameters = 0;    // used ones
  uint64_t weight_bytes = 0;  // as stored, used ones
  std::string dtype;          // "F32", "BF16", "F16" or "mixed"
};

// Weights: a model's bound weights with a list `used` of names and views.
template <class Weights>
void count_used(const Weights& weights, WeightFacts* facts) {
  for (const auto& [name, view] : weights.used) {
    facts->parameters += view.shape.elements();
    facts->weight_bytes += view.bytes();
    const char* dtype = core::dtype_name(view.dtype);
    if (facts->dtype.empty()) facts->dtype = dtype;
    if (facts->dtype != dtype) facts->dtype = "mixed";
  }
}

}  // namespace npuseg::engine

// SPDX-License-Identifier: Apache-2.0
// Scratch memory of a worker that begins at a cache line: a vector that crosses one is two loads.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

namespace npuseg::compute {

class LineFloats {
 public:
  // Room for `count` floats; what was there before is lost.
  float* get(size_t count) {
    constexpr size_t kLine = 64;
    if (floats_.size() < count + kLine / sizeof(float)) {
      floats_.resize(count + kLine / sizeof(float));
    }
    void* at = floats_.data();
    size_t space = floats_.size() * sizeof(float);
    return static_cast<float*>(std::align(kLine, count * sizeof(float), at, space));
  }

 private:
  std::vector<float> floats_;
};

}  // namespace npuseg::compute

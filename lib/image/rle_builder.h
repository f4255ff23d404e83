// SPDX-License-Identifier: Apache-2.0
// Collects runs of zeros and ones in order and joins equal neighbours.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace npuseg::image {

class RleBuilder {
 public:
  void clear() {
    counts_.clear();
    last_ = false;
  }

  void add(bool value, uint64_t count) {
    if (count == 0) return;
    if (counts_.empty()) {
      if (value) counts_.push_back(0);
      counts_.push_back(0);
      last_ = value;
    } else if (value != last_) {
      counts_.push_back(0);
      last_ = value;
    }
    counts_.back() += static_cast<uint32_t>(count);
  }

  void append(const RleBuilder& next) {
    for (size_t i = 0; i < next.counts_.size(); ++i) add(i % 2 == 1, next.counts_[i]);
  }

  [[nodiscard]] std::vector<uint32_t> take() && { return std::move(counts_); }

 private:
  std::vector<uint32_t> counts_;
  bool last_ = false;
};

}  // namespace npuseg::image

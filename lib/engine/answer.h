// SPDX-License-Identifier: Apache-2.0
// The answer to one prompt on one picture: computed once, read many times.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/status.h"
#include "core/threads.h"
#include "engine/outline.h"
#include "image/mask.h"
#include "image/overlay.h"
#include "image/rle.h"
#include "model/sam3/sam3.h"

namespace npuseg::engine {

struct FoundInstance {
  uint32_t query = 0;
  float score = 0;
  std::array<float, 4> box{};  // pixels
  uint64_t area = 0;
  image::Rle mask;
  size_t row = 0;  // of detection.masks
};

// The semantic map above a threshold.
struct SemanticMask {
  float threshold = 0;
  image::Rle runs;
  Outlines outlines;  // null until asked for
};

struct Answer {
  uint32_t width = 0;
  uint32_t height = 0;
  float presence = 0;
  size_t tokens = 0;
  size_t tokens_dropped = 0;
  std::vector<int64_t> padded_ids;
  sam3::Detection detection;
  std::vector<FoundInstance> instances;
  sam3::StageTimes times;

  // The map of an instance, or the semantic one, ready to be resized to the picture.
  [[nodiscard]] core::Result<image::MaskResizer> mask_of(size_t instance) const;
  [[nodiscard]] core::Result<image::MaskResizer> semantic_map() const;

  // Made at the first question and kept, so that asking for the size costs nothing twice.
  [[nodiscard]] core::Result<Outlines> outlines_of(size_t instance) const;
  [[nodiscard]] core::Result<SemanticMask> semantic_mask(float threshold, bool outlined) const;

  // Fills instances from the detection: masks to runs at picture size, on the call's threads.
  core::Status finish(core::Call& call, float mask_threshold);

  // Draws onto tight RGB pixels of the picture's size.
  core::Status draw(image::Picture& picture, const std::string& label, uint32_t first_colour) const;

 private:
  mutable std::mutex mutex_;
  mutable std::vector<Outlines> outlines_;  // guarded by mutex_; by instance
  mutable SemanticMask semantic_;           // guarded by mutex_; the last one asked for
};

}  // namespace npuseg::engine

// SPDX-License-Identifier: Apache-2.0
// The answer to one prompt on one picture: computed once, read many times.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "core/status.h"
#include "core/threads.h"
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

  // Fills instances from the detection: masks to runs at picture size, on the call's threads.
  core::Status finish(core::Call& call, float mask_threshold);

  // Draws onto tight RGB pixels of the picture's size.
  core::Status draw(image::Picture& picture, const std::string& label, uint32_t first_colour) const;
};

}  // namespace npuseg::engine

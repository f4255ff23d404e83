// SPDX-License-Identifier: Apache-2.0
#include "engine/answer.h"

#include <algorithm>

namespace npuseg::engine {

using core::Result;
using core::Status;

Result<image::MaskResizer> Answer::mask_of(size_t instance) const {
  const float* row = detection.masks.view().row(instances[instance].row);
  return image::MaskResizer::make({row, detection.side, detection.side, detection.side}, width,
                                  height);
}

Result<image::MaskResizer> Answer::semantic_map() const {
  return image::MaskResizer::make(
      {detection.semantic.data(), detection.side, detection.side, detection.side}, width, height);
}

Result<Outlines> Answer::outlines_of(size_t instance) const {
  const std::lock_guard lock(mutex_);
  outlines_.resize(instances.size());
  if (!outlines_[instance]) {
    NPUSEG_ASSIGN_OR_RETURN(outlines_[instance], make_outlines(instances[instance].mask));
  }
  return Outlines(outlines_[instance]);
}

Result<SemanticMask> Answer::semantic_mask(float threshold, bool outlined) const {
  const std::lock_guard lock(mutex_);
  if (semantic_.runs.counts.empty() || semantic_.threshold != threshold) {
    semantic_ = {};
    NPUSEG_ASSIGN_OR_RETURN(const image::MaskResizer resizer, semantic_map());
    core::Call call;
    NPUSEG_ASSIGN_OR_RETURN(semantic_.runs, resizer.runs(call, threshold));
    semantic_.threshold = threshold;
  }
  if (outlined && !semantic_.outlines) {
    NPUSEG_ASSIGN_OR_RETURN(semantic_.outlines, make_outlines(semantic_.runs));
  }
  return SemanticMask(semantic_);
}

Status Answer::finish(core::Call& call, float mask_threshold) {
  const float scale[4] = {static_cast<float>(width), static_cast<float>(height),
                          static_cast<float>(width), static_cast<float>(height)};
  instances.resize(detection.kept.size());
  for (size_t i = 0; i < instances.size(); ++i) {
    FoundInstance& found = instances[i];
    found.query = detection.kept[i];
    found.score = detection.scores[found.query];
    const auto at = std::find(detection.masked.begin(), detection.masked.end(), found.query);
    found.row = static_cast<size_t>(at - detection.masked.begin());
    for (size_t k = 0; k < 4; ++k) found.box[k] = detection.boxes[4 * found.query + k] * scale[k];
  }
  call.begin_stage(static_cast<uint32_t>(sam3::Stage::kPostprocess), instances.size());
  // Each mask uses the call's threads itself, so that one large mask is fast too.
  for (size_t i = 0; i < instances.size(); ++i) {
    NPUSEG_ASSIGN_OR_RETURN(const image::MaskResizer resizer, mask_of(i));
    NPUSEG_ASSIGN_OR_RETURN(instances[i].mask, resizer.runs(call, mask_threshold));
    instances[i].area = image::rle_area(instances[i].mask);
    call.advance();
  }
  return {};
}

Status Answer::draw(image::Picture& picture, const std::string& label,
                    uint32_t first_colour) const {
  std::vector<image::OverlayInstance> items(instances.size());
  for (size_t i = 0; i < items.size(); ++i) {
    items[i].mask = &instances[i].mask;
    items[i].box = instances[i].box;
    items[i].label = (label.empty() ? "" : label + " ") +
                     core::format("%.2f", static_cast<double>(instances[i].score));
    items[i].colour_index = first_colour + static_cast<uint32_t>(i);
  }
  return image::draw_overlay(picture, items);
}

}  // namespace npuseg::engine

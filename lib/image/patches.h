// SPDX-License-Identifier: Apache-2.0
// The picture processor of EmbeddingGemma 2 (transformers Gemma4ImageProcessor; spec
// embeddinggemma2-model.md 8): a picture is scaled to fill a budget of soft tokens, keeping its
// shape as far as whole patches allow, and cut into patches. Real patches only, no padding.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/buffer.h"
#include "core/status.h"
#include "core/threads.h"
#include "image/picture.h"

namespace npuseg::image {

// max_soft_tokens < 2^16, patch_size and pooling at most 256; none of them 0.
struct PatchRule {
  size_t max_soft_tokens = 280;
  size_t patch_size = 16;  // pixels
  size_t pooling = 3;      // a soft token stands for pooling x pooling patches
  double rescale_factor = 0.00392156862745098;
};

// Sides in patches, multiples of the rule's pooling.
struct PatchGrid {
  size_t width = 0;
  size_t height = 0;
  size_t soft_tokens = 0;

  [[nodiscard]] size_t patches() const { return width * height; }
  [[nodiscard]] bool operator==(const PatchGrid&) const = default;
};

// The grid of a picture of this size, without looking at pixels. INVALID_ARGUMENT for an empty
// picture or rule, UNSUPPORTED for pictures too thin for the budget.
core::Result<PatchGrid> fit_patch_grid(uint32_t width, uint32_t height, const PatchRule& rule);

struct PatchedPicture {
  PatchGrid grid;
  // [patches, patch_size^2 * 3], rows of the grid from top to bottom; a row holds (row, column,
  // channel) of its patch, the channel fastest: level * factor in float32.
  core::Matrix pixels;
};

core::Result<PatchedPicture> make_patches(core::Call& call, const RgbView& picture,
                                          const PatchRule& rule,
                                          const core::MemoryBudgetPtr& budget = nullptr);

// Column and row of every patch: [patches, 2].
std::vector<int64_t> patch_positions(const PatchGrid& grid);

}  // namespace npuseg::image

// SPDX-License-Identifier: Apache-2.0
// A mask's outlines as the flat words that NPUSEG_MASK_POLYGONS hands out.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/status.h"
#include "image/rle.h"

namespace npuseg::engine {

// Number of rings; then of each ring: points, index of its outer ring, x and y of every point.
using Outlines = std::shared_ptr<const std::vector<int32_t>>;

core::Result<Outlines> make_outlines(const image::Rle& runs);

}  // namespace npuseg::engine

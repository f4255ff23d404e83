// SPDX-License-Identifier: Apache-2.0
// Outlines of a mask along pixel edges, and filling them again; the pair is exact.
#pragma once

#include <cstdint>
#include <vector>

#include "core/status.h"
#include "image/rle.h"

namespace npuseg::image {

struct Point {
  int32_t x = 0;
  int32_t y = 0;
  bool operator==(const Point&) const = default;
};

// A closed ring of integer pixel corners, without repeating the first; only corners, so edges are
// alternately horizontal and vertical. Outer rings run clockwise on the screen (y down), holes
// counter-clockwise.
struct Ring {
  std::vector<Point> points;
  bool hole = false;
  uint64_t area = 0;    // enclosed by the ring, holes not taken off
  uint32_t parent = 0;  // index of the outer ring in the result; its own for outer rings
};

// Rings of the 4-connected regions, outer rings by falling area (ties: upper, then left first),
// each followed by its holes.
core::Result<std::vector<Ring>> mask_rings(const Rle& rle);

// Even-odd fill. Rings of mask_rings reproduce the mask exactly. INVALID_ARGUMENT for edges that
// are not horizontal or vertical or leave the picture.
core::Result<Rle> fill_rings(const std::vector<Ring>& rings, uint32_t height, uint32_t width);

}  // namespace npuseg::image

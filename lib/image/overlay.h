// SPDX-License-Identifier: Apache-2.0
// Draws found instances onto a picture: tinted mask, outline, box and a label that stays readable
// and inside the picture at any size.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>

#include "core/status.h"
#include "image/picture.h"
#include "image/rle.h"

namespace npuseg::image {

struct OverlayInstance {
  const Rle* mask = nullptr;   // may be null; else of the picture's size
  std::array<float, 4> box{};  // x0 y0 x1 y1 in pixels; not drawn when empty
  std::string label;           // UTF-8; e.g. "cat 0.98"; empty: no label
  uint32_t colour_index = 0;   // see overlay_colour
};

struct OverlayOptions {
  bool masks = true;
  bool outlines = true;
  bool boxes = true;
  bool labels = true;
  float opacity = 0.45f;  // of the mask tint, 0..1
};

// Well separated colours, the same for the same index always.
Rgb8 overlay_colour(uint32_t index);

// Draws the instances in order (later ones on top, all labels above all masks).
core::Status draw_overlay(Picture& picture, std::span<const OverlayInstance> instances,
                          const OverlayOptions& options = {});

}  // namespace npuseg::image

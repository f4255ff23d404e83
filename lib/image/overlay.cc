// SPDX-License-Identifier: Apache-2.0
#include "image/overlay.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "image/text_drawing.h"

namespace npuseg::image {

using core::Code;
using core::format;
using core::Status;

namespace {

// Neighbours differ in hue and lightness; no two are alike to the common colour deficiencies' eyes
// side by side.
constexpr std::array<Rgb8, 12> kPalette = {{{255, 76, 60},
                                            {40, 132, 255},
                                            {255, 208, 32},
                                            {170, 60, 220},
                                            {60, 200, 80},
                                            {255, 130, 200},
                                            {0, 205, 215},
                                            {255, 140, 20},
                                            {90, 90, 235},
                                            {176, 220, 40},
                                            {200, 90, 40},
                                            {20, 150, 120}}};

struct Box {
  int64_t x0 = 0;
  int64_t y0 = 0;
  int64_t x1 = 0;
  int64_t y1 = 0;

  [[nodiscard]] bool empty() const { return x1 <= x0 || y1 <= y0; }
  [[nodiscard]] bool meets(const Box& other) const {
    return x0 < other.x1 && other.x0 < x1 && y0 < other.y1 && other.y0 < y1;
  }
};

void fill(Picture& picture, Box box, Rgb8 colour) {
  box.x0 = std::max<int64_t>(box.x0, 0);
  box.y0 = std::max<int64_t>(box.y0, 0);
  box.x1 = std::min<int64_t>(box.x1, picture.width);
  box.y1 = std::min<int64_t>(box.y1, picture.height);
  for (int64_t y = box.y0; y < box.y1; ++y) {
    uint8_t* pixel = picture.row(static_cast<size_t>(y)) + box.x0 * 3;
    for (int64_t x = box.x0; x < box.x1; ++x, pixel += 3) {
      pixel[0] = colour.r;
      pixel[1] = colour.g;
      pixel[2] = colour.b;
    }
  }
}

// The box in whole pixels inside the picture; empty for a box that is none.
Box pixel_box(const Picture& picture, const std::array<float, 4>& box) {
  for (const float v : box) {
    if (!std::isfinite(v)) return {};
  }
  if (box[2] <= box[0] || box[3] <= box[1]) return {};
  const auto place = [](float v, uint32_t most) {
    return static_cast<int64_t>(std::lround(std::clamp(v, 0.0f, static_cast<float>(most))));
  };
  Box out{place(box[0], picture.width), place(box[1], picture.height), place(box[2], picture.width),
          place(box[3], picture.height)};
  out.x1 = std::min<int64_t>(std::max(out.x1, out.x0 + 1), picture.width);
  out.y1 = std::min<int64_t>(std::max(out.y1, out.y0 + 1), picture.height);
  out.x0 = std::min(out.x0, out.x1 - 1);
  out.y0 = std::min(out.y0, out.y1 - 1);
  return out;
}

int64_t line_width(const Picture& picture) {
  return std::max<int64_t>(1, std::lround(std::min(picture.width, picture.height) / 300.0));
}

void frame(Picture& picture, const Box& box, int64_t thick, Rgb8 colour) {
  thick = std::min({thick, box.x1 - box.x0, box.y1 - box.y0});
  fill(picture, {box.x0, box.y0, box.x1, box.y0 + thick}, colour);
  fill(picture, {box.x0, box.y1 - thick, box.x1, box.y1}, colour);
  fill(picture, {box.x0, box.y0, box.x0 + thick, box.y1}, colour);
  fill(picture, {box.x1 - thick, box.y0, box.x1, box.y1}, colour);
}

uint8_t tinted(uint8_t value, uint8_t colour, uint32_t part) {
  return static_cast<uint8_t>((value * (256 - part) + colour * part + 128) >> 8);
}

// Tints the mask and draws its outline (set pixels with an unset neighbour, thickened).
Status draw_mask(Picture& picture, const Rle& mask, Rgb8 colour, const OverlayOptions& options) {
  const std::array<uint32_t, 4> box = rle_bbox(mask);
  if (box[2] == 0) return {};
  NPUSEG_ASSIGN_OR_RETURN(const Rle part, rle_crop(mask, box[0], box[1], box[2], box[3]));
  const size_t width = size_t{box[2]} + 2;
  std::vector<uint8_t> set(width * (size_t{box[3]} + 2), 0);
  NPUSEG_RETURN_IF_ERROR(rle_to_mask(part, set.data() + width + 1, width));
  const float opacity = std::isfinite(options.opacity) ? options.opacity : 0.0f;
  const auto weight = static_cast<uint32_t>(std::lround(std::clamp(opacity, 0.0f, 1.0f) * 256.0f));
  const int64_t thick = line_width(picture);
  const int64_t before = thick / 2;
  for (uint32_t y = 0; options.masks && y < box[3]; ++y) {
    const uint8_t* inside = set.data() + (y + size_t{1}) * width + 1;
    uint8_t* pixel = picture.row(box[1] + y) + size_t{box[0]} * 3;
    for (uint32_t x = 0; x < box[2]; ++x, pixel += 3) {
      if (inside[x] == 0) continue;
      pixel[0] = tinted(pixel[0], colour.r, weight);
      pixel[1] = tinted(pixel[1], colour.g, weight);
      pixel[2] = tinted(pixel[2], colour.b, weight);
    }
  }
  for (uint32_t y = 0; options.outlines && y < box[3]; ++y) {
    const uint8_t* inside = set.data() + (y + size_t{1}) * width + 1;
    for (uint32_t x = 0; x < box[2]; ++x) {
      const uint8_t* p = inside + x;
      if (p[0] == 0 || (p[-1] != 0 && p[1] != 0 && *(p - width) != 0 && p[width] != 0)) continue;
      const int64_t px = int64_t{box[0]} + x - before;
      const int64_t py = int64_t{box[1]} + y - before;
      fill(picture, {px, py, px + thick, py + thick}, colour);
    }
  }
  return {};
}

// Dark text on light colours, light text on dark ones.
Rgb8 text_colour(Rgb8 background) {
  const uint32_t luma = 299u * background.r + 587u * background.g + 114u * background.b;
  return luma > 140000 ? Rgb8{0, 0, 0} : Rgb8{255, 255, 255};
}

constexpr uint32_t kSmallestText = 10;  // pixels a line; below it letters cannot be told apart

// The beginning of the text that fits into `room` pixels, whole characters only.
std::string_view fitting(std::string_view text, uint32_t height, uint32_t room) {
  const auto is_tail = [](char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; };
  uint32_t characters = 0;
  size_t end = 0;
  for (size_t at = 0; at < text.size(); at = end) {
    end = at + 1;
    while (end < text.size() && is_tail(text[end])) ++end;
    ++characters;
    if (text_width(std::string(characters, 'x'), height) > room) return text.substr(0, at);
  }
  return text;
}

// Keeps the box's size and moves it inside the picture.
Box moved_inside(const Picture& picture, Box box) {
  const int64_t right = std::max<int64_t>(0, box.x1 - picture.width);
  const int64_t down = std::max<int64_t>(0, box.y1 - picture.height);
  box = {box.x0 - right, box.y0 - down, box.x1 - right, box.y1 - down};
  const int64_t left = std::max<int64_t>(0, -box.x0);
  const int64_t up = std::max<int64_t>(0, -box.y0);
  return {box.x0 + left, box.y0 + up, box.x1 + left, box.y1 + up};
}

void draw_label(Picture& picture, const Box& target, const std::string& label, Rgb8 colour,
                std::vector<Box>& taken) {
  const uint32_t side = std::min(picture.width, picture.height);
  uint32_t height = std::max(14u, side / 28);
  const uint32_t wanted = text_width(label, height);
  if (wanted > picture.width) {
    const double scale = static_cast<double>(picture.width) / wanted;
    height = std::max(kSmallestText, static_cast<uint32_t>(height * scale));
  }
  const std::string_view text = fitting(label, height, picture.width);
  if (text.empty()) return;
  const int64_t w = text_width(text, height);
  const int64_t h = height;
  // Above the box, in its upper corner, below it, or at its right end, whichever is free.
  const std::array<Box, 5> places = {{{target.x0, target.y0 - h, target.x0 + w, target.y0},
                                      {target.x0, target.y0, target.x0 + w, target.y0 + h},
                                      {target.x0, target.y1, target.x0 + w, target.y1 + h},
                                      {target.x1 - w, target.y0 - h, target.x1, target.y0},
                                      {target.x1 - w, target.y1 - h, target.x1, target.y1}}};
  const size_t first = target.y0 >= h ? 0 : 1;
  Box chosen = moved_inside(picture, places[first]);
  for (size_t i = first; i < places.size(); ++i) {
    const Box place = moved_inside(picture, places[i]);
    const auto meets = [&place](const Box& other) { return place.meets(other); };
    if (std::none_of(taken.begin(), taken.end(), meets)) {
      chosen = place;
      break;
    }
  }
  taken.push_back(chosen);
  fill(picture, chosen, colour);
  draw_text(picture, chosen.x0, chosen.y0, height, text, text_colour(colour));
}

}  // namespace

Rgb8 overlay_colour(uint32_t index) {
  if (index < kPalette.size()) return kPalette[index];
  // Hues a golden section apart, in three steps of lightness.
  const double hue = std::fmod(index * 0.6180339887498949, 1.0) * 6.0;
  const double value = index % 3 == 0 ? 255.0 : (index % 3 == 1 ? 205.0 : 160.0);
  const auto channel = [&](double shift) {
    const double k = std::fmod(shift + hue, 6.0);
    const double part = std::clamp(std::min(k, 4.0 - k), 0.0, 1.0);
    return static_cast<uint8_t>(std::lround(value * (1.0 - 0.85 * part)));
  };
  return {channel(5.0), channel(3.0), channel(1.0)};
}

Status draw_overlay(Picture& picture, std::span<const OverlayInstance> instances,
                    const OverlayOptions& options) {
  for (size_t i = 0; i < instances.size(); ++i) {
    const Rle* mask = instances[i].mask;
    if (mask != nullptr && (mask->width != picture.width || mask->height != picture.height)) {
      return Status(Code::kInvalidArgument,
                    format("overlay: instance %zu has a mask of %ux%u, the picture is %ux%u; use "
                           "masks of the picture's size",
                           i, mask->width, mask->height, picture.width, picture.height));
    }
  }
  for (const OverlayInstance& instance : instances) {
    if (instance.mask == nullptr) continue;
    NPUSEG_RETURN_IF_ERROR(
        draw_mask(picture, *instance.mask, overlay_colour(instance.colour_index), options));
  }
  for (const OverlayInstance& instance : instances) {
    const Box box = pixel_box(picture, instance.box);
    if (options.boxes && !box.empty()) {
      frame(picture, box, line_width(picture), overlay_colour(instance.colour_index));
    }
  }
  std::vector<Box> taken;
  for (const OverlayInstance& instance : instances) {
    if (!options.labels || instance.label.empty()) continue;
    Box target = pixel_box(picture, instance.box);
    if (target.empty() && instance.mask != nullptr) {
      const std::array<uint32_t, 4> box = rle_bbox(*instance.mask);
      target = {box[0], box[1], int64_t{box[0]} + box[2], int64_t{box[1]} + box[3]};
    }
    if (target.empty()) continue;
    draw_label(picture, target, instance.label, overlay_colour(instance.colour_index), taken);
  }
  return {};
}

}  // namespace npuseg::image

// SPDX-License-Identifier: Apache-2.0
#include "image/patches.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "image/resize.h"

namespace npuseg::image {

using core::Call;
using core::Code;
using core::format;
using core::Result;
using core::Status;

namespace {
constexpr size_t kMaxBudget = size_t{1} << 16;
constexpr size_t kMaxUnit = 256;
}  // namespace

Result<PatchGrid> fit_patch_grid(uint32_t width, uint32_t height, const PatchRule& rule) {
  if (width == 0 || height == 0) {
    return Status(Code::kInvalidArgument, "patches: the picture is empty; give at least one pixel");
  }
  if (rule.max_soft_tokens == 0 || rule.max_soft_tokens >= kMaxBudget || rule.patch_size == 0 ||
      rule.patch_size > kMaxUnit || rule.pooling == 0 || rule.pooling > kMaxUnit) {
    return Status(Code::kInvalidArgument,
                  "patches: soft tokens, patch size or pooling is 0 or "
                  "too large; correct the rule");
  }
  // In double, as the reference does: its results at the borders of whole units depend on it.
  const auto h = static_cast<double>(height);
  const auto w = static_cast<double>(width);
  const size_t max_patches = rule.max_soft_tokens * rule.pooling * rule.pooling;
  const size_t target = max_patches * rule.patch_size * rule.patch_size;
  const double factor = std::sqrt(static_cast<double>(target) / (h * w));
  const size_t unit = rule.patch_size * rule.pooling;  // pixels a soft token covers on a side
  const auto units = [&](double side) {
    return static_cast<size_t>(std::floor(factor * side / static_cast<double>(unit)));
  };
  size_t rows = units(h);
  size_t columns = units(w);
  const auto ratio = [&](double large, double small) {
    return std::min(static_cast<size_t>(std::floor(large / small)), rule.max_soft_tokens);
  };
  if (rows == 0 && columns != 0) {
    rows = 1;
    columns = ratio(w, h);
  } else if (columns == 0 && rows != 0) {
    columns = 1;
    rows = ratio(h, w);
  }
  if (rows * columns == 0 || rows * columns > rule.max_soft_tokens) {
    return Status(Code::kUnsupported,
                  format("patches: a picture of %u x %u does not fit %zu soft tokens; crop it",
                         width, height, rule.max_soft_tokens));
  }
  return PatchGrid{columns * rule.pooling, rows * rule.pooling, rows * columns};
}

Result<PatchedPicture> make_patches(Call& call, const RgbView& picture, const PatchRule& rule,
                                    const core::MemoryBudgetPtr& budget) {
  PatchedPicture out;
  NPUSEG_ASSIGN_OR_RETURN(out.grid, fit_patch_grid(picture.width, picture.height, rule));
  const size_t side = rule.patch_size;
  const auto width = static_cast<uint32_t>(out.grid.width * side);
  const auto height = static_cast<uint32_t>(out.grid.height * side);
  Picture resized;
  RgbView view = picture;
  if (width != picture.width || height != picture.height) {
    NPUSEG_ASSIGN_OR_RETURN(resized,
                            resize_rgb(call, picture, width, height, Filter::kBicubic, budget));
    view = resized.view();
  }
  NPUSEG_ASSIGN_OR_RETURN(
      out.pixels, core::Matrix::make(budget, out.grid.patches(), side * side * 3, "patches"));
  // A product, not a division by 255: 126 of the 256 values differ in the last bit.
  std::array<float, 256> values;
  const auto factor = static_cast<float>(rule.rescale_factor);
  for (size_t level = 0; level < values.size(); ++level) {
    values[level] = static_cast<float>(level) * factor;
  }
  const size_t row_values = side * 3;
  float* pixels = out.pixels.data();
  NPUSEG_RETURN_IF_ERROR(core::parallel_for(call, out.grid.height, [&](size_t grid_row, int) {
    for (size_t y = 0; y < side; ++y) {
      const uint8_t* levels = view.row(grid_row * side + y);
      float* to = pixels + (grid_row * out.grid.width * side + y) * row_values;
      for (size_t column = 0; column < out.grid.width; ++column) {
        for (size_t i = 0; i < row_values; ++i) to[i] = values[levels[i]];
        levels += row_values;
        to += row_values * side;
      }
    }
  }));
  return out;
}

std::vector<int64_t> patch_positions(const PatchGrid& grid) {
  std::vector<int64_t> out;
  out.reserve(grid.patches() * 2);
  for (size_t y = 0; y < grid.height; ++y) {
    for (size_t x = 0; x < grid.width; ++x) {
      out.push_back(static_cast<int64_t>(x));
      out.push_back(static_cast<int64_t>(y));
    }
  }
  return out;
}

}  // namespace npuseg::image

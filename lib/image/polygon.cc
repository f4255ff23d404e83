// SPDX-License-Identifier: Apache-2.0
// Rings are traced along pixel edges with the set pixels on the right hand; where two set pixels
// touch only at a corner the trace turns towards its own pixel (4-connected regions).
#include "image/polygon.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "image/rle_builder.h"

namespace npuseg::image {

using core::Code;
using core::format;
using core::Result;
using core::Status;

namespace {

// The part of the mask inside its box, with a border of one empty pixel.
struct Bitmap {
  int32_t x0 = 0;  // of the box in the picture
  int32_t y0 = 0;
  size_t width = 0;  // with border
  size_t height = 0;
  std::vector<uint8_t> pixels;

  static constexpr uint8_t kSet = 1;
  static constexpr uint8_t kTopEdgeSeen = 2;

  [[nodiscard]] uint8_t& at(size_t x, size_t y) { return pixels[y * width + x]; }
  [[nodiscard]] bool set(size_t x, size_t y) const { return (pixels[y * width + x] & kSet) != 0; }
};

Result<Bitmap> make_bitmap(const Rle& rle, const std::array<uint32_t, 4>& box) {
  NPUSEG_ASSIGN_OR_RETURN(const Rle part, rle_crop(rle, box[0], box[1], box[2], box[3]));
  Bitmap map;
  map.x0 = static_cast<int32_t>(box[0]);
  map.y0 = static_cast<int32_t>(box[1]);
  map.width = size_t{box[2]} + 2;
  map.height = size_t{box[3]} + 2;
  map.pixels.assign(map.width * map.height, 0);
  uint8_t* inside = map.pixels.data() + map.width + 1;
  NPUSEG_RETURN_IF_ERROR(rle_to_mask(part, inside, map.width));
  for (uint8_t& pixel : map.pixels) pixel &= Bitmap::kSet;
  return map;
}

// Regions as sets of vertical runs.
class Regions {
 public:
  explicit Regions(const Bitmap& map) : columns_(map.width + 1) {
    for (size_t x = 0; x < map.width; ++x) {
      columns_[x] = runs_.size();
      for (size_t y = 0; y < map.height; ++y) {
        if (!map.set(x, y)) continue;
        const size_t begin = y;
        while (map.set(x, y)) ++y;  // the border ends it
        runs_.push_back({begin, y});
      }
    }
    columns_[map.width] = runs_.size();
    parent_.resize(runs_.size());
    std::iota(parent_.begin(), parent_.end(), size_t{0});
    for (size_t x = 1; x < map.width; ++x) join_columns(x);
  }

  // The region of a set pixel.
  size_t of(size_t x, size_t y) {
    const auto begin = runs_.begin() + static_cast<std::ptrdiff_t>(columns_[x]);
    const auto end = runs_.begin() + static_cast<std::ptrdiff_t>(columns_[x + 1]);
    const auto after =
        std::upper_bound(begin, end, y, [](size_t value, const Run& r) { return value < r.begin; });
    return root(static_cast<size_t>(after - runs_.begin()) - 1);
  }
  [[nodiscard]] size_t count() const { return runs_.size(); }

 private:
  struct Run {
    size_t begin, end;
  };

  void join_columns(size_t x) {
    size_t a = columns_[x - 1];
    size_t b = columns_[x];
    while (a < columns_[x] && b < columns_[x + 1]) {
      if (runs_[a].begin < runs_[b].end && runs_[b].begin < runs_[a].end) {
        parent_[root(b)] = root(a);
      }
      if (runs_[a].end < runs_[b].end) {
        ++a;
      } else {
        ++b;
      }
    }
  }

  size_t root(size_t run) {
    while (parent_[run] != run) {
      parent_[run] = parent_[parent_[run]];
      run = parent_[run];
    }
    return run;
  }

  std::vector<size_t> columns_;  // first run of each column
  std::vector<Run> runs_;
  std::vector<size_t> parent_;
};

// Directions right, down, left, up.
constexpr std::array<int, 4> kStepX = {1, 0, -1, 0};
constexpr std::array<int, 4> kStepY = {0, 1, 0, -1};

Ring trace(Bitmap& map, size_t start_x, size_t start_y) {
  Ring ring;
  int64_t x = static_cast<int64_t>(start_x);
  int64_t y = static_cast<int64_t>(start_y);
  size_t direction = 0;
  int64_t twice_area = 0;
  const auto is_set = [&map](int64_t px, int64_t py) {
    return map.set(static_cast<size_t>(px), static_cast<size_t>(py));
  };
  const auto put = [&] {
    // Bitmap corner (x, y) is picture corner (x - 1 + x0, y - 1 + y0) because of the border.
    ring.points.push_back(
        {static_cast<int32_t>(x - 1) + map.x0, static_cast<int32_t>(y - 1) + map.y0});
  };
  put();
  for (;;) {
    if (direction == 0) {
      map.at(static_cast<size_t>(x), static_cast<size_t>(y)) |= Bitmap::kTopEdgeSeen;
      twice_area -= 2 * y;
    } else if (direction == 2) {
      twice_area += 2 * y;
    }
    x += kStepX[direction];
    y += kStepY[direction];
    // Pixels around the corner that lie ahead, on the right and on the left of the way.
    const int64_t ahead_x[4] = {x, x - 1, x - 1, x};
    const int64_t ahead_y[4] = {y, y, y - 1, y - 1};
    const bool right = is_set(ahead_x[direction], ahead_y[direction]);
    const size_t on_left = (direction + 3) % 4;
    const bool left = is_set(ahead_x[on_left], ahead_y[on_left]);
    size_t next = direction;
    if (!right) {
      next = (direction + 1) % 4;
    } else if (left) {
      next = on_left;
    }
    if (x == static_cast<int64_t>(start_x) && y == static_cast<int64_t>(start_y) && next == 0) {
      break;
    }
    if (next != direction) put();
    direction = next;
  }
  ring.hole = twice_area < 0;
  ring.area = static_cast<uint64_t>(twice_area < 0 ? -twice_area : twice_area) / 2;
  return ring;
}

// Larger first; then upper, then left.
bool comes_first(const Ring& a, const Ring& b) {
  if (a.area != b.area) return a.area > b.area;
  const Point& p = a.points.front();
  const Point& q = b.points.front();
  return p.y != q.y ? p.y < q.y : p.x < q.x;
}

}  // namespace

Result<std::vector<Ring>> mask_rings(const Rle& rle) {
  std::vector<Ring> result;
  const std::array<uint32_t, 4> box = rle_bbox(rle);
  if (box[2] == 0) return result;
  if (rle.width > INT32_MAX || rle.height > INT32_MAX) {
    return Status(Code::kLimitExceeded, "mask outline: a side is above 2147483647 pixels");
  }
  NPUSEG_ASSIGN_OR_RETURN(Bitmap map, make_bitmap(rle, box));
  Regions regions(map);
  struct Found {
    Ring ring;
    size_t region;
  };
  std::vector<Found> outer;
  std::vector<Found> holes;
  for (size_t y = 1; y + 1 < map.height; ++y) {
    for (size_t x = 1; x + 1 < map.width; ++x) {
      if (map.at(x, y) != Bitmap::kSet || map.set(x, y - 1)) continue;
      Ring ring = trace(map, x, y);
      const size_t region = regions.of(x, y);
      (ring.hole ? holes : outer).push_back({std::move(ring), region});
    }
  }
  const auto order = [](const Found& a, const Found& b) { return comes_first(a.ring, b.ring); };
  std::sort(outer.begin(), outer.end(), order);
  std::sort(holes.begin(), holes.end(), order);
  std::vector<uint32_t> rank(regions.count());
  for (size_t i = 0; i < outer.size(); ++i) rank[outer[i].region] = static_cast<uint32_t>(i);
  std::stable_sort(holes.begin(), holes.end(), [&rank](const Found& a, const Found& b) {
    return rank[a.region] < rank[b.region];
  });
  result.reserve(outer.size() + holes.size());
  size_t hole = 0;
  for (size_t i = 0; i < outer.size(); ++i) {
    const auto parent = static_cast<uint32_t>(result.size());
    outer[i].ring.parent = parent;
    result.push_back(std::move(outer[i].ring));
    for (; hole < holes.size() && rank[holes[hole].region] == i; ++hole) {
      holes[hole].ring.parent = parent;
      result.push_back(std::move(holes[hole].ring));
    }
  }
  return result;
}

Result<Rle> fill_rings(const std::vector<Ring>& rings, uint32_t height, uint32_t width) {
  NPUSEG_RETURN_IF_ERROR(check_rle_size(height, width));
  // Every horizontal edge turns inside to outside, or back, from its row down in its columns.
  std::vector<uint64_t> turns;
  for (size_t r = 0; r < rings.size(); ++r) {
    const std::vector<Point>& points = rings[r].points;
    for (size_t i = 0; i < points.size(); ++i) {
      const Point& a = points[i];
      const Point& b = points[i + 1 == points.size() ? 0 : i + 1];
      if ((a.x != b.x && a.y != b.y) || a.x < 0 || a.y < 0 || static_cast<uint32_t>(a.x) > width ||
          static_cast<uint32_t>(a.y) > height) {
        return Status(Code::kInvalidArgument,
                      format("mask outline: ring %zu, point %zu (%d, %d): edges must be horizontal "
                             "or vertical and inside %ux%u",
                             r, i, a.x, a.y, width, height));
      }
      for (int32_t x = std::min(a.x, b.x); x < std::max(a.x, b.x); ++x) {
        if (static_cast<uint32_t>(x) < width) {
          turns.push_back(static_cast<uint64_t>(x) * height + static_cast<uint64_t>(a.y));
        }
      }
    }
  }
  std::sort(turns.begin(), turns.end());
  RleBuilder out;
  uint64_t at = 0;
  bool inside = false;
  for (const uint64_t turn : turns) {
    out.add(inside, turn - at);
    at = turn;
    inside = !inside;
  }
  out.add(inside, uint64_t{height} * width - at);
  return Rle{height, width, std::move(out).take()};
}

}  // namespace npuseg::image

// SPDX-License-Identifier: Apache-2.0
#include "compute/attention.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "compute/line_floats.h"
#include "compute/panel_kernels.h"
#include "compute/simd_kernels.h"

namespace npuseg::compute {

using core::Status;

namespace {

constexpr size_t kQueryTile = 640;    // queries that share one packing of keys and values
constexpr size_t kSmallestTile = 96;  // below, packing would cost too much
constexpr size_t kEnoughTiles = 24;
// Packed keys and values of a block: half of a small second-level cache.
constexpr size_t kBlockFloats = 65536;
constexpr size_t kLongestBlock = 640;

struct Scratch {
  LineFloats keys;
  LineFloats values;
  LineFloats scores;
  LineFloats sums;
  std::vector<float> bias;
  std::vector<float> maximum;
  std::vector<float> total;
};

// A run of queries of one head of one batch element.
struct Tile {
  size_t head;
  size_t first_row;  // of the batch element, in query and (self-attention) key
  size_t first_key_row;
  size_t first;  // query of the batch element
  size_t rows;
  size_t keys;
};

// The keys that a query sees: [begin, end).
struct Range {
  size_t begin;
  size_t end;
};

Range visible_keys(const Attention& args, size_t query, size_t keys) {
  Range range{0, keys};
  if (args.causal) range.end = std::min(keys, query + 1);
  if (args.radius < keys) {
    range.begin = query > args.radius ? query - args.radius : 0;
    range.end = std::min(range.end, query + args.radius + 1);
  }
  return range;
}

size_t round_up(size_t value, size_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

// Blocks of about equal size, a function of the shapes alone.
size_t block_size(size_t keys, size_t dim) {
  const size_t panel = panel_columns();
  const size_t most =
      std::max(panel, std::min(kLongestBlock, kBlockFloats / std::max<size_t>(1, 2 * dim)));
  const size_t blocks = (keys + most - 1) / most;
  return round_up((keys + blocks - 1) / blocks, panel);
}

const float* grid_bias(const Attention& args, const Tile& tile, size_t row, size_t first_key,
                       size_t keys, std::vector<float>* bias) {
  const size_t query = tile.head * args.queries + tile.first + row;
  const float* by = args.bias_y + query * args.grid_height;
  const float* bx = args.bias_x + query * args.grid_width;
  bias->resize(keys);
  size_t key = first_key;
  while (key < first_key + keys) {
    const size_t y = key / args.grid_width;
    const size_t x = key % args.grid_width;
    const size_t run = std::min(args.grid_width - x, first_key + keys - key);
    add_constant_row(bx + x, by[y], bias->data() + (key - first_key), run);
    key += run;
  }
  return bias->data();
}

// Turns a row of raw scores of the block's keys into weights, zero where a key is not seen, and
// rescales what was summed before.
void weigh_row(const Attention& args, const Tile& tile, size_t row, size_t first_key, size_t keys,
               float* scores, float* sums, size_t sums_width, Scratch* own) {
  const Range seen = visible_keys(args, tile.first + row, tile.keys);
  const size_t begin = std::clamp(seen.begin, first_key, first_key + keys) - first_key;
  const size_t end = std::clamp(seen.end, first_key, first_key + keys) - first_key;
  if (begin >= end) {
    std::fill_n(scores, keys, 0.0f);
    return;
  }
  std::fill_n(scores, begin, 0.0f);
  std::fill(scores + end, scores + keys, 0.0f);
  const float* bias = args.bias_y == nullptr
                          ? nullptr
                          : grid_bias(args, tile, row, first_key + begin, end - begin, &own->bias);
  const float factor = softmax_row(scores + begin, end - begin, args.scale, bias,
                                   &own->maximum[row], &own->total[row]);
  if (factor != 1.0f) scale_row(sums, factor, sums_width);
}

void run_tile(core::Call& call, const Attention& args, const Tile& tile, Scratch* own) {
  const size_t dim = args.head_dim;
  const size_t panel = panel_columns();
  const size_t strip = strip_height();
  const size_t column = tile.head * dim;
  const size_t key_heads = args.key_heads == 0 ? args.heads : args.key_heads;
  const size_t key_column = tile.head / (args.heads / key_heads) * dim;
  const float* query = args.query + (tile.first_row + tile.first) * args.query_stride + column;
  const float* keys = args.key + tile.first_key_row * args.key_stride + key_column;
  const float* values = args.value + tile.first_key_row * args.value_stride + key_column;
  const size_t block = block_size(tile.keys, dim);
  const size_t sums_width = round_up(dim, panel);
  float* packed_keys = own->keys.get(block * dim);
  float* packed_values = own->values.get(block * sums_width);
  float* scores = own->scores.get(strip * block);
  float* sums = own->sums.get(tile.rows * sums_width);
  std::fill_n(sums, tile.rows * sums_width, 0.0f);
  own->maximum.assign(tile.rows, -std::numeric_limits<float>::infinity());
  own->total.assign(tile.rows, 0.0f);
  // Blocks that no query of the tile sees change nothing.
  const size_t seen_begin = visible_keys(args, tile.first, tile.keys).begin;
  const size_t seen_end = visible_keys(args, tile.first + tile.rows - 1, tile.keys).end;
  for (size_t first = seen_begin / block * block; first < seen_end; first += block) {
    call.poll();
    if (call.stopped()) return;
    const size_t count = std::min(block, tile.keys - first);
    pack_transposed(keys + first * args.key_stride, args.key_stride, count, dim, packed_keys);
    pack_straight(values + first * args.value_stride, args.value_stride, count, dim, packed_values);
    for (size_t r = 0; r < tile.rows; r += strip) {
      const size_t rows = std::min(strip, tile.rows - r);
      multiply_strip(rows, query + r * args.query_stride, args.query_stride, packed_keys,
                     round_up(count, panel) / panel, dim, false, scores, block);
      for (size_t i = 0; i < rows; ++i) {
        weigh_row(args, tile, r + i, first, count, scores + i * block, sums + (r + i) * sums_width,
                  sums_width, own);
      }
      multiply_strip(rows, scores, block, packed_values, sums_width / panel, count, true,
                     sums + r * sums_width, sums_width);
    }
  }
  for (size_t r = 0; r < tile.rows; ++r) {
    float* out = args.out + (tile.first_row + tile.first + r) * args.out_stride + column;
    const float factor = 1.0f / own->total[r];
    for (size_t c = 0; c < dim; ++c) out[c] = sums[r * sums_width + c] * factor;
  }
}

// Cuts every head of every batch element into tiles of queries.
std::vector<Tile> make_tiles(const Attention& args) {
  std::vector<Tile> tiles;
  for (size_t b = 0; b < args.batch; ++b) {
    Tile tile{};
    size_t queries = args.queries;
    if (args.starts != nullptr) {
      tile.first_row = tile.first_key_row = args.starts[b];
      tile.keys = queries = args.starts[b + 1] - args.starts[b];
    } else {
      tile.first_row = b * args.queries;
      tile.first_key_row = b * args.keys;
      tile.keys = args.keys;
    }
    if (queries == 0) continue;
    size_t parts = (queries + kQueryTile - 1) / kQueryTile;
    while (args.batch * args.heads * parts < kEnoughTiles &&
           (queries + parts) / (parts + 1) >= kSmallestTile) {
      ++parts;
    }
    const size_t rows = round_up((queries + parts - 1) / parts, strip_height());
    for (tile.head = 0; tile.head < args.heads; ++tile.head) {
      for (tile.first = 0; tile.first < queries; tile.first += rows) {
        tile.rows = std::min(rows, queries - tile.first);
        tiles.push_back(tile);
      }
    }
  }
  return tiles;
}

}  // namespace

Status attention(const Exec& exec, const Attention& args) {
  const std::vector<Tile> tiles = make_tiles(args);
  if (tiles.empty()) return exec.call->check();
  double products = 0.0;
  for (const Tile& tile : tiles) {
    products += static_cast<double>(tile.rows) * static_cast<double>(tile.keys);
  }
  std::vector<Scratch> scratch(static_cast<size_t>(exec.call->threads()));
  return core::parallel_for(
      *exec.call, tiles.size(),
      [&](size_t index, int slot) {
        run_tile(*exec.call, args, tiles[index], &scratch[static_cast<size_t>(slot)]);
      },
      products * (static_cast<double>(args.head_dim) / 12.0 + 1.0));
}

}  // namespace npuseg::compute

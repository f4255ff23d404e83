// SPDX-License-Identifier: Apache-2.0
#include "compute/attention.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "compute/simd_kernels.h"

namespace npuseg::compute {

using core::Status;

namespace {

// A tile of scores is kQueryTile x about kKeyBlock floats: it stays in a core's L2 cache.
constexpr size_t kQueryTile = 128;
constexpr size_t kKeyBlock = 512;
constexpr size_t kOneBlock = 640;  // up to here the keys are one block: no rescaling at all

struct Scratch {
  std::vector<float> scores;
  std::vector<float> sums;  // [kQueryTile, head_dim], not yet divided
  std::vector<float> bias;
  std::vector<float> maximum;
  std::vector<float> total;
};

struct Tile {
  size_t batch;
  size_t head;
  size_t first;
  size_t rows;
};

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

void run_tile(const Attention& args, const Tile& tile, size_t block, Scratch* own) {
  const size_t dim = args.head_dim;
  const size_t column = tile.head * dim;
  const size_t query_row = tile.batch * args.queries + tile.first;
  const float* query = args.query + query_row * args.query_stride + column;
  const float* keys = args.key + tile.batch * args.keys * args.key_stride + column;
  const float* values = args.value + tile.batch * args.keys * args.value_stride + column;
  const float lowest = -std::numeric_limits<float>::infinity();
  own->scores.resize(kQueryTile * block);
  own->sums.resize(kQueryTile * dim);
  own->maximum.assign(tile.rows, lowest);
  own->total.assign(tile.rows, 0.0f);
  const size_t visible = args.causal ? std::min(args.keys, tile.first + tile.rows) : args.keys;
  for (size_t first = 0; first < visible; first += block) {
    const size_t count = std::min(block, visible - first);
    sgemm(tile.rows, count, dim, 1.0f, query, args.query_stride, keys + first * args.key_stride,
          args.key_stride, true, 0.0f, own->scores.data(), block);
    for (size_t r = 0; r < tile.rows; ++r) {
      float* row = own->scores.data() + r * block;
      if (args.causal) {
        for (size_t j = 0; j < count; ++j) {
          if (first + j > tile.first + r) row[j] = lowest;
        }
      }
      const float* bias =
          args.bias_y == nullptr ? nullptr : grid_bias(args, tile, r, first, count, &own->bias);
      const float factor =
          softmax_row(row, count, args.scale, bias, &own->maximum[r], &own->total[r]);
      if (first != 0 && factor != 1.0f) scale_row(own->sums.data() + r * dim, factor, dim);
    }
    sgemm(tile.rows, dim, count, 1.0f, own->scores.data(), block,
          values + first * args.value_stride, args.value_stride, false, first == 0 ? 0.0f : 1.0f,
          own->sums.data(), dim);
  }
  for (size_t r = 0; r < tile.rows; ++r) {
    float* out = args.out + (query_row + r) * args.out_stride + column;
    const float factor = 1.0f / own->total[r];
    const float* sums = own->sums.data() + r * dim;
    for (size_t c = 0; c < dim; ++c) out[c] = sums[c] * factor;
  }
}

}  // namespace

Status attention(const Exec& exec, const Attention& args) {
  if (args.queries == 0 || args.batch == 0) return exec.call->check();
  const size_t tiles = (args.queries + kQueryTile - 1) / kQueryTile;
  const size_t per_tile = (args.queries + tiles - 1) / tiles;
  size_t block = args.keys;
  if (args.keys > kOneBlock) {
    const size_t blocks = (args.keys + kKeyBlock - 1) / kKeyBlock;
    block = ((args.keys + blocks - 1) / blocks + 15) / 16 * 16;
  }
  std::vector<Scratch> scratch(static_cast<size_t>(exec.call->threads()));
  const double nanoseconds = static_cast<double>(args.batch * args.heads * args.queries) *
                             static_cast<double>(args.keys) *
                             (static_cast<double>(args.head_dim) / 12.0 + 1.0);
  return core::parallel_for(
      *exec.call, args.batch * args.heads * tiles,
      [&](size_t index, int slot) {
        Tile tile;
        tile.batch = index / (args.heads * tiles);
        tile.head = index / tiles % args.heads;
        tile.first = index % tiles * per_tile;
        if (tile.first >= args.queries) return;
        tile.rows = std::min(per_tile, args.queries - tile.first);
        run_tile(args, tile, block, &scratch[static_cast<size_t>(slot)]);
      },
      nanoseconds);
}

}  // namespace npuseg::compute

// SPDX-License-Identifier: Apache-2.0
// The two products of attention on strips of a few queries, dispatched by Highway. Keys and values
// are packed into panels once a block; a strip's scores stay in the first cache.
//
// A panel is attention_panel() columns wide. Every sum runs over its index in order, in one chain
// of fused multiply-adds a column, so it does not depend on which strip a query falls into.
#pragma once

#include <cstddef>

namespace npuseg::compute {

// Queries of a strip and columns of a panel on this machine.
size_t attention_strip();
size_t attention_panel();

// packed: [ceil(count / panel)][dim][panel], columns behind `count` zero.
void pack_keys(const float* keys, size_t stride, size_t count, size_t dim, float* packed);
// packed: [ceil(dim / panel)][count][panel], columns behind `dim` zero.
void pack_values(const float* values, size_t stride, size_t count, size_t dim, float* packed);

// scores[r, j] = query[r] . key[j] for all columns of all `panels`; rows <= attention_strip().
void score_strip(size_t rows, const float* query, size_t query_stride, const float* packed_keys,
                 size_t panels, size_t dim, float* scores, size_t scores_stride);
// sums[r, c] += sum over j < count of scores[r, j] * value[j, c].
void add_values_strip(size_t rows, const float* scores, size_t scores_stride,
                      const float* packed_values, size_t panels, size_t count, float* sums,
                      size_t sums_stride);

}  // namespace npuseg::compute

// SPDX-License-Identifier: Apache-2.0
// Register-blocked products of a strip of a few rows with packed panels of columns, dispatched by
// Highway: the core of attention, of row-independent linear layers, and of the GEMM in builds
// without oneDNN.
//
// A panel is panel_columns() columns wide and as deep as the product. Every product's sum runs over
// its index in order, in one chain of multiply-adds a column, so it does not depend on which strip
// a row falls into or which rows are beside it; what it accumulates to is added at the end.
#pragma once

#include <cstddef>

namespace npuseg::compute {

// Rows of a strip and columns of a panel on this machine.
size_t strip_height();
size_t panel_columns();

// Rows become columns: packed [ceil(rows / panel)][depth][panel], columns behind `rows` zero.
void pack_transposed(const float* from, size_t stride, size_t rows, size_t depth, float* packed);
// Columns stay: packed [ceil(columns / panel)][depth][panel], columns behind `columns` zero.
void pack_straight(const float* from, size_t stride, size_t depth, size_t columns, float* packed);

// sums[r, j] = (accumulate ? sums[r, j] : 0) + (sum over i < depth of a[r, i] * packed[i, j]), for
// all columns of all `panels`; rows <= strip_height().
void multiply_strip(size_t rows, const float* a, size_t a_stride, const float* packed,
                    size_t panels, size_t depth, bool accumulate, float* sums, size_t sums_stride);

// The same with one panel and any number of rows. While it runs, the cache lines at the `ahead`
// addresses (where the next panel comes from) are fetched.
void multiply_panel(size_t rows, const float* a, size_t a_stride, const float* panel, size_t depth,
                    bool accumulate, float* sums, size_t sums_stride, const float* const* ahead,
                    size_t ahead_count);

}  // namespace npuseg::compute

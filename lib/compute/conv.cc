// SPDX-License-Identifier: Apache-2.0
#include "compute/conv.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "compute/elementwise.h"
#include "compute/simd_kernels.h"

namespace npuseg::compute {

using core::ConstMatrixView;
using core::Matrix;
using core::MatrixView;
using core::Status;
using core::TensorView;

namespace {

constexpr size_t kBandPixels = 600;

// [out, in, 3, 3] -> nine matrices [out, in], one a kernel tap.
core::Result<Matrix> pack_3x3(const Exec& exec, const TensorView& weight) {
  const size_t outs = weight.shape[0];
  const size_t ins = weight.shape[1];
  NPUSEG_ASSIGN_OR_RETURN(Matrix packed,
                          Matrix::make(exec.budget, 9 * outs, ins, "convolution weights"));
  std::vector<std::vector<float>> scratch(static_cast<size_t>(exec.call->threads()));
  NPUSEG_RETURN_IF_ERROR(core::parallel_for(
      *exec.call, outs,
      [&](size_t o, int slot) {
        std::vector<float>& stored = scratch[static_cast<size_t>(slot)];
        stored.resize(ins * 9);
        widen(weight, o * ins * 9, ins * 9, stored.data());
        for (size_t tap = 0; tap < 9; ++tap) {
          float* row = packed.view().row(tap * outs + o);
          for (size_t c = 0; c < ins; ++c) row[c] = stored[c * 9 + tap];
        }
      },
      static_cast<double>(9 * ins * outs)));
  return packed;
}

struct Scratch {
  std::vector<float> band;     // zero-framed rows of the input
  std::vector<float> product;  // framed rows of the output, two junk pixels a row
};

}  // namespace

Status conv3x3(const Exec& exec, ConstMatrixView input, size_t height, size_t width,
               const TensorView& weight, MatrixView output, const Epilogue& epilogue) {
  const size_t outs = weight.shape[0];
  const size_t ins = weight.shape[1];
  if (height == 0 || width == 0) return exec.call->check();
  NPUSEG_ASSIGN_OR_RETURN(const Matrix packed, pack_3x3(exec, weight));
  std::vector<float> bias;
  if (!epilogue.bias.empty()) {
    bias.resize(outs);
    widen(epilogue.bias, 0, outs, bias.data());
  }
  const size_t framed = width + 2;
  const size_t band_rows = std::clamp<size_t>(kBandPixels / framed, 1, height);
  const size_t bands = (height + band_rows - 1) / band_rows;
  std::vector<Scratch> scratch(static_cast<size_t>(exec.call->threads()));
  return core::parallel_for(*exec.call, bands, [&](size_t index, int slot) {
    Scratch& own = scratch[static_cast<size_t>(slot)];
    const size_t first = index * band_rows;
    const size_t rows = std::min(band_rows, height - first);
    own.band.assign((band_rows + 2) * framed * ins, 0.0f);
    own.product.resize(band_rows * framed * outs);
    for (size_t y = 0; y < rows + 2; ++y) {
      if (first + y == 0 || first + y > height) continue;
      float* to = own.band.data() + (y * framed + 1) * ins;
      for (size_t x = 0; x < width; ++x) {
        std::memcpy(to + x * ins, input.row((first + y - 1) * width + x), ins * sizeof(float));
      }
    }
    // One product a kernel tap, over all framed pixels of the band at once: the tap only moves the
    // first pixel. The last two pixels of a framed row give junk that is not copied.
    const size_t pixels = rows * framed - 2;
    for (size_t tap = 0; tap < 9; ++tap) {
      exec.call->poll();
      if (exec.call->stopped()) return;
      sgemm(pixels, outs, ins, 1.0f, own.band.data() + ((tap / 3) * framed + tap % 3) * ins, ins,
            packed.view().row(tap * outs), ins, true, tap == 0 ? 0.0f : 1.0f, own.product.data(),
            outs);
    }
    for (size_t y = 0; y < rows; ++y) {
      for (size_t x = 0; x < width; ++x) {
        const size_t pixel = (first + y) * width + x;
        const float* residual =
            epilogue.residual.data == nullptr ? nullptr : epilogue.residual.row(pixel);
        epilogue_row(own.product.data() + (y * framed + x) * outs,
                     bias.empty() ? nullptr : bias.data(), epilogue.activation, residual,
                     output.row(pixel), outs);
      }
    }
  });
}

Status conv_transpose2x2(const Exec& exec, ConstMatrixView input, size_t height, size_t width,
                         const TensorView& weight, MatrixView output, const Epilogue& epilogue) {
  const size_t ins = weight.shape[0];
  const size_t outs = weight.shape[1];
  // No overlaps: the four output pixels of an input pixel are four products of their own.
  NPUSEG_ASSIGN_OR_RETURN(Matrix packed,
                          Matrix::make(exec.budget, 4 * outs, ins, "convolution weights"));
  constexpr size_t kBand = 32;
  std::vector<std::vector<float>> scratch(static_cast<size_t>(exec.call->threads()));
  NPUSEG_RETURN_IF_ERROR(
      core::parallel_for(*exec.call, (ins + kBand - 1) / kBand, [&](size_t index, int slot) {
        std::vector<float>& stored = scratch[static_cast<size_t>(slot)];
        stored.resize(4 * outs);
        for (size_t c = index * kBand; c < std::min(ins, (index + 1) * kBand); ++c) {
          widen(weight, c * 4 * outs, 4 * outs, stored.data());
          for (size_t o = 0; o < outs; ++o) {
            for (size_t ab = 0; ab < 4; ++ab) {
              packed.view().row(ab * outs + o)[c] = stored[o * 4 + ab];
            }
          }
        }
      }));
  std::vector<int32_t> rows(height * width);
  for (size_t ab = 0; ab < 4; ++ab) {
    for (size_t y = 0; y < height; ++y) {
      for (size_t x = 0; x < width; ++x) {
        rows[y * width + x] = static_cast<int32_t>((2 * y + ab / 2) * 2 * width + 2 * x + ab % 2);
      }
    }
    Epilogue part = epilogue;
    part.out_rows = rows.data();
    NPUSEG_RETURN_IF_ERROR(
        linear(exec, input, packed.view().row_range(ab * outs, outs), output, part));
  }
  return {};
}

Status upsample_add(const Exec& exec, ConstMatrixView low, size_t low_height, size_t low_width,
                    ConstMatrixView high, size_t height, size_t width, MatrixView out) {
  return core::parallel_for(
      *exec.call, height,
      [&](size_t y, int) {
        const size_t low_y = y * low_height / height;
        for (size_t x = 0; x < width; ++x) {
          const size_t low_x = x * low_width / width;
          add_rows(low.row(low_y * low_width + low_x), high.row(y * width + x),
                   out.row(y * width + x), low.cols);
        }
      },
      static_cast<double>(height * width * low.cols));
}

Status max_pool2x2(const Exec& exec, ConstMatrixView input, size_t height, size_t width,
                   MatrixView output) {
  const size_t half = width / 2;
  return core::parallel_for(*exec.call, height / 2, [&](size_t y, int) {
    for (size_t x = 0; x < half; ++x) {
      const size_t corner = 2 * y * width + 2 * x;
      max4_row(input.row(corner), input.row(corner + 1), input.row(corner + width),
               input.row(corner + width + 1), output.row(y * half + x), input.cols);
    }
  });
}

}  // namespace npuseg::compute

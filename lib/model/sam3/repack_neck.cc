// SPDX-License-Identifier: Apache-2.0
// The neck for the NPU: its three levels' first steps in one product, 1 x 1 convolutions folded
// into the transposed ones before them (spec iron-bundle-sam3.md, 6.3).
#include <algorithm>
#include <vector>

#include "model/sam3/repack_packer.h"

namespace npuseg::sam3 {

using core::Status;

namespace {

// A transposed 2 x 2 convolution as a product whose outputs are (tap, channel), tap = 2 * row +
// column.
Dense taps_of(const LinearWeights& conv) {
  const size_t ins = conv.weight.shape[0];
  const size_t outs = conv.weight.shape[1];
  const Floats weight = floats_of(conv.weight);
  Floats bias = floats_of(conv.bias);
  bias.resize(outs);
  Dense dense(4 * outs, ins);
  for (size_t tap = 0; tap < 4; ++tap) {
    for (size_t o = 0; o < outs; ++o) {
      float* row = dense.row(tap * outs + o);
      for (size_t c = 0; c < ins; ++c) row[c] = weight[(c * outs + o) * 4 + tap];
      dense.b[tap * outs + o] = bias[o];
    }
  }
  return dense;
}

// A 1 x 1 convolution applied to every tap.
Dense project(const Dense& taps, const LinearWeights& projection) {
  const Dense by(projection);
  const size_t inner = by.k;
  Dense dense(4 * by.n, taps.k);
  std::vector<double> sums(taps.k);
  for (size_t tap = 0; tap < 4; ++tap) {
    for (size_t o = 0; o < by.n; ++o) {
      std::fill(sums.begin(), sums.end(), 0.0);
      double bias = by.b[o];
      for (size_t c = 0; c < inner; ++c) {
        const auto factor = static_cast<double>(by.w[o * inner + c]);
        const float* from = taps.w.data() + (tap * inner + c) * taps.k;
        for (size_t i = 0; i < taps.k; ++i) sums[i] += factor * static_cast<double>(from[i]);
        bias += factor * static_cast<double>(taps.b[tap * inner + c]);
      }
      float* row = dense.row(tap * by.n + o);
      for (size_t i = 0; i < taps.k; ++i) row[i] = static_cast<float>(sums[i]);
      dense.b[tap * by.n + o] = static_cast<float>(bias);
    }
  }
  return dense;
}

}  // namespace

Status repack_neck(Packer& packer) {
  const std::vector<FpnLayerWeights>& fpn = packer.weights().fpn;
  const Dense first = taps_of(fpn[0].scale_layers[0]);
  const Dense second = project(taps_of(fpn[1].scale_layers[0]), fpn[1].proj1);
  const Dense third(fpn[2].proj1);
  Dense in(first.n + second.n + third.n, first.k);
  in.take(first, 0, first.n, 0);
  in.take(second, 0, second.n, first.n);
  in.take(third, 0, third.n, first.n + second.n);
  NPUSEG_RETURN_IF_ERROR(packer.packed("n.in", "n_in", in));
  NPUSEG_RETURN_IF_ERROR(
      packer.packed("n.up", "n_up", project(taps_of(fpn[0].scale_layers[1]), fpn[0].proj1)));
  for (size_t i = 0; i < fpn.size(); ++i) {
    NPUSEG_RETURN_IF_ERROR(packer.convolution("n.conv" + std::to_string(i), fpn[i].proj2));
  }
  return {};
}

}  // namespace npuseg::sam3

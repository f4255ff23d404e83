// SPDX-License-Identifier: Apache-2.0
// A checkpoint's weights for the kernels of an existing bundle: the algebra that makes a bundle's
// stages equal to the model's (spec iron-bundle-sam3.md, sections 4.4, 5, 6).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "bundle/bundle.h"
#include "bundle/writer.h"
#include "model/sam3/sam3.h"

namespace npuseg::sam3 {

// UNSUPPORTED, naming param or kernel and both values, when the kernels were compiled for another
// model. `where` is the checkpoint's directory.
core::Status check_repack(const Model& model, const bundle::Bundle& kernels,
                          const std::string& where);

// Writes every tensor that a picture with a text needs. UNSUPPORTED where a kernel takes no bias
// and the model has one.
core::Status repack_tensors(core::Call& call, const Model& model, const bundle::Bundle& kernels,
                            bundle::Writer* out);

// A picture as decoded and as the model is fed, and the ids of a text.
struct ReferenceInput {
  std::span<const unsigned char> rgb;  // [height, width, 3]
  size_t width = 0;
  size_t height = 0;
  const float* pixels = nullptr;  // [3, S, S]
  std::span<const int64_t> ids;
  int32_t pad = 0;
  float threshold = 0;  // of a query's score to be among those that the detection keeps
};

// Writes what the float graph makes of them, stage by stage, as the tensors ref.*. Returns the
// last: the masks of all queries.
core::Result<Detection> repack_references(core::Call& call, const Model& model,
                                          const bundle::Bundle& kernels,
                                          const ReferenceInput& input, bundle::Writer* out);

}  // namespace npuseg::sam3

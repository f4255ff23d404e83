// SPDX-License-Identifier: Apache-2.0
#include "model/embeddinggemma2/npu_weights.h"

#include <algorithm>

#include "compute/elementwise.h"

namespace npuseg::embeddinggemma2 {

using bundle::Bundle;
using core::Code;
using core::DType;
using core::format;
using core::Result;
using core::Shape;
using core::Status;
using core::TensorView;

namespace {

// A bf16 table whose number of rows only the file says.
Result<TensorView> table(const Bundle& bundle, const char* name, size_t parts, size_t width) {
  const bundle::StoredTensor* tensor = bundle.tensors().find(name);
  const auto refuse = [&](const std::string& why) {
    return Status(Code::kCorruptData, "cannot use bundle: " + bundle.directory() + ": tensor " +
                                          name + why + "; export the bundle again");
  };
  if (tensor == nullptr) return refuse(" is missing");
  TensorView view = tensor->view;
  const size_t values = view.shape.elements();
  if (view.dtype != DType::kBF16 || values == 0 || values % (parts * width) != 0) {
    return refuse(format(" should be BF16 rows of %zu values, it is %s with %zu values", width,
                         core::dtype_name(view.dtype), values));
  }
  view.shape = {parts, values / (parts * width), width};
  return view;
}

// Values that are not finite would spoil every result.
Status check_values(const Bundle& bundle, const std::string& name, const TensorView& view) {
  const size_t bad = compute::find_non_finite(view);
  if (bad == view.shape.elements()) return {};
  return {Code::kCorruptData,
          format("cannot use bundle: %s: value %zu of tensor %s is not finite; export the bundle "
                 "again",
                 bundle.directory().c_str(), bad, name.c_str())};
}

}  // namespace

Status NpuWeights::bind(const Bundle& bundle, NpuWeights* out) {
  const bundle::Gemma2Params& p = bundle.gemma2().params;
  const auto floats = [&](const std::string& name, const Shape& shape, TensorView* view) -> Status {
    NPUSEG_ASSIGN_OR_RETURN(*view, bundle.tensors().get(name, DType::kF32, shape));
    return check_values(bundle, name, *view);
  };
  NPUSEG_ASSIGN_OR_RETURN(out->positions, table(bundle, "v.pos", 2, p.v_dim));
  for (size_t i = 0; i < p.v_layers; ++i) {
    VisionLayer& layer = out->vision.emplace_back();
    layer.name = "v" + std::to_string(i) + ".";
    NPUSEG_RETURN_IF_ERROR(floats(layer.name + "q_norm", {p.v_head_dim}, &layer.q_norm));
    NPUSEG_RETURN_IF_ERROR(floats(layer.name + "k_norm", {p.v_head_dim}, &layer.k_norm));
    NPUSEG_RETURN_IF_ERROR(floats(layer.name + "post_attn", {p.v_dim}, &layer.post_attention));
    NPUSEG_RETURN_IF_ERROR(floats(layer.name + "post_ff", {p.v_dim}, &layer.post_feedforward));
  }
  NPUSEG_RETURN_IF_ERROR(floats("t.ple_norm", {p.dim}, &out->per_layer_norm));
  TensorView scalars;
  NPUSEG_RETURN_IF_ERROR(floats("t.layer_scalar", {p.layers}, &scalars));
  for (size_t i = 0; i < p.layers; ++i) {
    TextLayer& layer = out->text.emplace_back();
    layer.name = "t" + std::to_string(i) + ".";
    NPUSEG_RETURN_IF_ERROR(floats(layer.name + "q_norm", {p.head_dims[i]}, &layer.q_norm));
    NPUSEG_RETURN_IF_ERROR(floats(layer.name + "k_norm", {p.head_dims[i]}, &layer.k_norm));
    NPUSEG_RETURN_IF_ERROR(floats(layer.name + "post_attn", {p.dim}, &layer.post_attention));
    NPUSEG_RETURN_IF_ERROR(floats(layer.name + "post_ff", {p.dim}, &layer.post_feedforward));
    NPUSEG_RETURN_IF_ERROR(floats(layer.name + "post_ple", {p.dim}, &layer.post_per_layer));
    compute::widen(scalars, i, 1, &layer.scalar);
  }
  NPUSEG_RETURN_IF_ERROR(floats("t.norm", {p.dim}, &out->norm));
  NPUSEG_RETURN_IF_ERROR(floats("t.tok", {4, p.dim}, &out->special));
  NPUSEG_RETURN_IF_ERROR(floats("t.proj", {p.out, p.dim}, &out->projection));
  if (p.max_text_tokens == 0) return {};
  NPUSEG_ASSIGN_OR_RETURN(out->embeddings, table(bundle, "t.embed", 1, p.dim));
  return {};
}

}  // namespace npuseg::embeddinggemma2

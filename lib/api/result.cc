// SPDX-License-Identifier: Apache-2.0
// Asking and reading answers at the C boundary.
#include <algorithm>
#include <cstring>
#include <optional>
#include <string_view>

#include "api/caller_memory.h"
#include "api/guard.h"
#include "api/handles.h"
#include "api/options.h"
#include "api/structs.h"

using npuseg::api::check_room;
using npuseg::api::export_struct;
using npuseg::api::guard;
using npuseg::api::invalid;
using npuseg::api::make_handle;
using npuseg::api::object_of;
using npuseg::api::rows_bytes;
using npuseg::core::Code;
using npuseg::core::format;
using npuseg::core::Status;
namespace engine = npuseg::engine;
namespace image = npuseg::image;

namespace {

Status segment(const npuseg_sam3* model, npuseg_image* picture,
               std::optional<std::string_view> text, const npuseg_segment_options* options,
               npuseg_result** out) {
  if (out == nullptr) return invalid("cannot segment: out_result is NULL; pass its address");
  *out = nullptr;
  NPUSEG_ASSIGN_OR_RETURN(const auto object, object_of(model));
  NPUSEG_ASSIGN_OR_RETURN(const auto photo, object_of(picture));
  NPUSEG_ASSIGN_OR_RETURN(const engine::SegmentOptions wanted, npuseg::api::to_engine(options));
  NPUSEG_ASSIGN_OR_RETURN(std::shared_ptr<const engine::Answer> answer,
                          object->segment(*photo, text, wanted));
  make_handle(std::move(answer), out);
  return {};
}

struct Destination {
  uint32_t kind;
  void* dst;
  size_t stride;
  size_t bytes;
  size_t* required;
};

// outlined() gives the outlines of the same mask.
template <class Outlined>
Status write_runs(const image::Rle& runs, Outlined&& outlined, Destination to) {
  bool write = false;
  switch (to.kind) {
    case NPUSEG_MASK_BYTES: {
      size_t needed = 0;
      NPUSEG_RETURN_IF_ERROR(rows_bytes(runs.width, runs.height, &to.stride, &needed));
      NPUSEG_RETURN_IF_ERROR(check_room(to.dst, to.bytes, needed, to.required, &write));
      return write ? image::rle_to_mask(runs, static_cast<uint8_t*>(to.dst), to.stride) : Status();
    }
    case NPUSEG_MASK_RLE_STRING: {
      const std::string text = image::rle_to_string(runs);
      NPUSEG_RETURN_IF_ERROR(check_room(to.dst, to.bytes, text.size() + 1, to.required, &write));
      if (write) std::memcpy(to.dst, text.c_str(), text.size() + 1);
      return {};
    }
    case NPUSEG_MASK_RLE_COUNTS: {
      const size_t needed = runs.counts.size() * sizeof(uint32_t);
      NPUSEG_RETURN_IF_ERROR(check_room(to.dst, to.bytes, needed, to.required, &write));
      if (write) std::memcpy(to.dst, runs.counts.data(), needed);
      return {};
    }
    case NPUSEG_MASK_POLYGONS: {
      NPUSEG_ASSIGN_OR_RETURN(const engine::Outlines outlines, outlined());
      const size_t needed = outlines->size() * sizeof(int32_t);
      NPUSEG_RETURN_IF_ERROR(check_room(to.dst, to.bytes, needed, to.required, &write));
      if (write) std::memcpy(to.dst, outlines->data(), needed);
      return {};
    }
    default:
      return invalid(format("cannot write mask: kind is %u; use an NPUSEG_MASK_* value", to.kind));
  }
}

Status check_float_plane(const engine::Answer& answer, Destination* to, bool* write) {
  size_t needed = 0;
  NPUSEG_RETURN_IF_ERROR(
      rows_bytes(size_t{answer.width} * sizeof(float), answer.height, &to->stride, &needed));
  if (to->stride % sizeof(float) != 0 ||
      reinterpret_cast<uintptr_t>(to->dst) % alignof(float) != 0) {
    return invalid("cannot write probabilities: dst and stride must be multiples of 4");
  }
  return check_room(to->dst, to->bytes, needed, to->required, write);
}

Status write_probabilities(const image::MaskResizer& resizer, const Destination& to) {
  npuseg::core::Call call;
  return resizer.floats(call, static_cast<float*>(to.dst), to.stride / sizeof(float));
}

Status mask(const npuseg_result* result, size_t index, Destination to) {
  NPUSEG_ASSIGN_OR_RETURN(const auto answer, object_of(result));
  if (index >= answer->instances.size()) {
    return invalid(
        format("cannot read mask: instance %zu of %zu", index, answer->instances.size()));
  }
  if (to.kind != NPUSEG_MASK_PROBABILITIES) {
    return write_runs(
        answer->instances[index].mask, [&] { return answer->outlines_of(index); }, to);
  }
  bool write = false;
  NPUSEG_RETURN_IF_ERROR(check_float_plane(*answer, &to, &write));
  if (!write) return {};
  NPUSEG_ASSIGN_OR_RETURN(const image::MaskResizer resizer, answer->mask_of(index));
  return write_probabilities(resizer, to);
}

Status semantic(const npuseg_result* result, float threshold, Destination to) {
  NPUSEG_ASSIGN_OR_RETURN(const auto answer, object_of(result));
  if (answer->detection.semantic.empty()) {
    return {Code::kWrongState,
            "cannot read semantic map: it was not computed; set NPUSEG_SEGMENT_SEMANTIC"};
  }
  NPUSEG_ASSIGN_OR_RETURN(const float limit, npuseg::api::to_threshold(threshold, "threshold"));
  if (to.kind == NPUSEG_MASK_PROBABILITIES) {
    bool write = false;
    NPUSEG_RETURN_IF_ERROR(check_float_plane(*answer, &to, &write));
    if (!write) return {};
    NPUSEG_ASSIGN_OR_RETURN(const image::MaskResizer resizer, answer->semantic_map());
    return write_probabilities(resizer, to);
  }
  NPUSEG_ASSIGN_OR_RETURN(const engine::SemanticMask mask,
                          answer->semantic_mask(limit, to.kind == NPUSEG_MASK_POLYGONS));
  return write_runs(
      mask.runs, [&] { return npuseg::core::Result<engine::Outlines>(mask.outlines); }, to);
}

Status instances(const npuseg_result* result, npuseg_instance* out, size_t element_bytes,
                 size_t* count) {
  NPUSEG_ASSIGN_OR_RETURN(const auto answer, object_of(result));
  if (count == nullptr) return invalid("cannot read instances: count is NULL; pass its address");
  const size_t room = *count;
  const size_t have = answer->instances.size();
  *count = have;
  if (out == nullptr && room == 0) return {};
  // The struct may only grow: an older program asks for a prefix.
  if (element_bytes < npuseg::api::kFirstSize<npuseg_instance> ||
      element_bytes > npuseg::api::kMostStructBytes) {
    return invalid(
        format("cannot read instances: element_bytes is %zu; pass "
               "sizeof(npuseg_instance)",
               element_bytes));
  }
  if (out == nullptr || room < have) {
    return {Code::kBufferTooSmall,
            format("buffer too small: room for %zu instances, there are %zu; nothing was written",
                   out == nullptr ? 0 : room, have)};
  }
  auto* at = reinterpret_cast<unsigned char*>(out);
  for (const engine::FoundInstance& found : answer->instances) {
    npuseg_instance value{};
    value.query = found.query;
    value.score = found.score;
    std::copy(found.box.begin(), found.box.end(), value.box);
    value.area = found.area;
    if (element_bytes > sizeof value) std::memset(at, 0, element_bytes);
    std::memcpy(at, &value, std::min(element_bytes, sizeof value));
    at += element_bytes;
  }
  return {};
}

Status raw(const npuseg_result* result, uint32_t which, void* dst, size_t dst_bytes,
           size_t* out_required, uint64_t* out_shape) {
  NPUSEG_ASSIGN_OR_RETURN(const auto answer, object_of(result));
  const npuseg::sam3::Detection& found = answer->detection;
  const uint64_t queries = found.logits.size();
  const uint64_t side = found.side;
  const void* from = nullptr;
  uint64_t shape[4] = {};
  size_t element = sizeof(float);
  switch (which) {
    case NPUSEG_RAW_PRED_LOGITS:
      from = found.logits.data();
      shape[0] = queries;
      break;
    case NPUSEG_RAW_PRESENCE_LOGITS:
      from = &found.presence_logit;
      shape[0] = 1;
      break;
    case NPUSEG_RAW_PRED_BOXES:
      from = found.boxes.data();
      shape[0] = queries;
      shape[1] = 4;
      break;
    case NPUSEG_RAW_PRED_MASKS:
      if (found.masks.rows() != queries) {
        return {Code::kWrongState,
                "cannot read masks: only those of the instances were computed; "
                "set NPUSEG_SEGMENT_ALL_MASKS"};
      }
      from = found.masks.data();
      shape[0] = queries;
      shape[1] = shape[2] = side;
      break;
    case NPUSEG_RAW_SEMANTIC_SEG:
      if (found.semantic.empty()) {
        return {Code::kWrongState,
                "cannot read semantic map: it was not computed; set NPUSEG_SEGMENT_SEMANTIC"};
      }
      from = found.semantic.data();
      shape[0] = 1;
      shape[1] = shape[2] = side;
      break;
    case NPUSEG_RAW_INPUT_IDS:
      from = answer->padded_ids.data();
      shape[0] = answer->padded_ids.size();
      element = sizeof(int64_t);
      break;
    default:
      return invalid(format("cannot read tensor: %u; use an NPUSEG_RAW_* value", which));
  }
  size_t needed = element;
  for (const uint64_t dim : shape) needed *= dim == 0 ? 1 : static_cast<size_t>(dim);
  if (out_shape != nullptr) std::copy(std::begin(shape), std::end(shape), out_shape);
  bool write = false;
  NPUSEG_RETURN_IF_ERROR(check_room(dst, dst_bytes, needed, out_required, &write));
  if (write) std::memcpy(dst, from, needed);
  return {};
}

Status draw(const npuseg_result* result, const char* label, uint32_t first_colour, void* pixels,
            size_t stride, size_t pixels_bytes) {
  NPUSEG_ASSIGN_OR_RETURN(const auto answer, object_of(result));
  if (pixels == nullptr) return invalid("cannot draw: pixels is NULL; pass the picture's memory");
  const size_t row = size_t{3} * answer->width;
  size_t needed = 0;
  NPUSEG_RETURN_IF_ERROR(rows_bytes(row, answer->height, &stride, &needed));
  bool write = false;
  NPUSEG_RETURN_IF_ERROR(check_room(pixels, pixels_bytes, needed, nullptr, &write));
  auto* bytes = static_cast<unsigned char*>(pixels);
  NPUSEG_ASSIGN_OR_RETURN(image::Picture picture,
                          image::Picture::copy_of({bytes, answer->width, answer->height, stride}));
  NPUSEG_RETURN_IF_ERROR(answer->draw(picture, label == nullptr ? "" : label, first_colour));
  for (uint32_t y = 0; y < picture.height; ++y) {
    std::memcpy(bytes + y * stride, picture.row(y), row);
  }
  return {};
}

}  // namespace

extern "C" {

npuseg_status npuseg_segment(const npuseg_sam3* model, npuseg_image* picture, const char* prompt,
                             const npuseg_segment_options* options, npuseg_result** out_result) {
  return guard([&] {
    std::optional<std::string_view> text;
    if (prompt != nullptr) text = prompt;
    return segment(model, picture, text, options, out_result);
  });
}

npuseg_status npuseg_segment_text(const npuseg_sam3* model, npuseg_image* picture, const char* text,
                                  size_t text_bytes, const npuseg_segment_options* options,
                                  npuseg_result** out_result) {
  return guard([&] {
    std::optional<std::string_view> counted;
    if (text != nullptr) {
      counted = text_bytes == NPUSEG_NUL_TERMINATED ? std::string_view(text)
                                                    : std::string_view(text, text_bytes);
    }
    return segment(model, picture, counted, options, out_result);
  });
}

npuseg_status npuseg_result_info(const npuseg_result* result, npuseg_result_data* out_info) {
  return guard([&]() -> Status {
    NPUSEG_ASSIGN_OR_RETURN(const auto answer, object_of(result));
    npuseg_result_data info{};
    info.instances = static_cast<uint32_t>(answer->instances.size());
    info.width = answer->width;
    info.height = answer->height;
    info.mask_side = static_cast<uint32_t>(answer->detection.side);
    info.queries = static_cast<uint32_t>(answer->detection.logits.size());
    info.presence = answer->presence;
    info.tokens = static_cast<uint32_t>(answer->tokens);
    info.tokens_dropped = static_cast<uint32_t>(answer->tokens_dropped);
    std::copy(std::begin(answer->times.runs), std::end(answer->times.runs), info.stage_runs);
    std::copy(std::begin(answer->times.nanoseconds), std::end(answer->times.nanoseconds),
              info.stage_nanoseconds);
    return export_struct(info, out_info, "npuseg_result_data");
  });
}

npuseg_status npuseg_result_instances(const npuseg_result* result, npuseg_instance* out_instances,
                                      size_t element_bytes, size_t* count) {
  return guard([&] { return instances(result, out_instances, element_bytes, count); });
}

npuseg_status npuseg_result_mask(const npuseg_result* result, size_t index, uint32_t kind,
                                 void* dst, size_t stride, size_t dst_bytes, size_t* out_required) {
  return guard([&] { return mask(result, index, {kind, dst, stride, dst_bytes, out_required}); });
}

npuseg_status npuseg_result_semantic(const npuseg_result* result, float threshold, uint32_t kind,
                                     void* dst, size_t stride, size_t dst_bytes,
                                     size_t* out_required) {
  return guard([&] {
    return semantic(result, threshold, {kind, dst, stride, dst_bytes, out_required});
  });
}

npuseg_status npuseg_result_raw(const npuseg_result* result, uint32_t which, void* dst,
                                size_t dst_bytes, size_t* out_required, uint64_t* out_shape) {
  return guard([&] { return raw(result, which, dst, dst_bytes, out_required, out_shape); });
}

npuseg_status npuseg_result_draw(const npuseg_result* result, const char* label,
                                 uint32_t first_colour, void* pixels, size_t stride,
                                 size_t pixels_bytes) {
  return guard([&] { return draw(result, label, first_colour, pixels, stride, pixels_bytes); });
}

}  // extern "C"

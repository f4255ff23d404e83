// SPDX-License-Identifier: Apache-2.0
// Embedding at the C boundary: pictures, texts and both, alone and in batches.
#include <algorithm>
#include <cstring>

#include "api/caller_memory.h"
#include "api/guard.h"
#include "api/handles.h"
#include "api/options.h"
#include "api/structs.h"

using npuseg::api::guard;
using npuseg::api::invalid;
using npuseg::api::kFirstSize;
using npuseg::api::kMostStructBytes;
using npuseg::api::object_of;
using npuseg::core::Code;
using npuseg::core::format;
using npuseg::core::Result;
using npuseg::core::Status;
namespace core = npuseg::core;
namespace engine = npuseg::engine;
namespace image = npuseg::image;

namespace {

constexpr uint32_t kMostParts = 65536;

Result<engine::EmbeddingPart> text_part(const char* text, size_t bytes) {
  if (text == nullptr) return invalid("cannot embed text: text is NULL; pass UTF-8");
  engine::EmbeddingPart part;
  part.text = bytes == SIZE_MAX ? std::string_view(text) : std::string_view(text, bytes);
  return part;
}

Result<engine::EmbeddingPart> picture_part(const npuseg_image* picture) {
  engine::EmbeddingPart part;
  NPUSEG_ASSIGN_OR_RETURN(part.picture, object_of(picture));
  return part;
}

Result<engine::EmbeddingPart> import_part(const npuseg_embed_part& in) {
  if ((in.image == nullptr) == (in.text == nullptr)) {
    return invalid(in.image == nullptr ? "has neither image nor text; set one"
                                       : "has an image and a text; make two parts of them");
  }
  if (in.image != nullptr) return picture_part(in.image);
  return text_part(in.text, static_cast<size_t>(in.text_bytes));
}

Result<engine::EmbeddingInput> import_input(const npuseg_embed_input& in) {
  if (in.parts == nullptr || in.part_count == 0) {
    return invalid("has no parts; give a picture or a text");
  }
  if (in.part_count > kMostParts) {
    return Status(Code::kLimitExceeded,
                  format("has %u parts, at most %u are possible", in.part_count, kMostParts));
  }
  const size_t size = in.part_bytes == 0 ? sizeof(npuseg_embed_part) : in.part_bytes;
  if (size < kFirstSize<npuseg_embed_part> || size > kMostStructBytes) {
    return invalid("part_bytes is not sizeof(npuseg_embed_part)");
  }
  engine::EmbeddingInput out;
  if (in.task != nullptr) out.task = in.task;
  const auto* at = reinterpret_cast<const unsigned char*>(in.parts);
  for (uint32_t i = 0; i < in.part_count; ++i, at += size) {
    npuseg_embed_part part{};
    std::memcpy(&part, at, std::min(size, sizeof part));
    Result<engine::EmbeddingPart> made = import_part(part);
    if (!made.ok()) {
      return Status(made.status().code(), format("part %u: ", i) + made.status().message());
    }
    out.parts.push_back(std::move(made.value()));
  }
  return out;
}

Result<engine::EmbeddingInput> import_only(const npuseg_embed_input* in) {
  if (in == nullptr) return invalid("cannot embed: input is NULL; pass one");
  Result<engine::EmbeddingInput> made = import_input(*in);
  if (made.ok()) return made;
  return Status(made.status().code(), "cannot embed: input: " + made.status().message());
}

Result<std::vector<engine::EmbeddingInput>> import_inputs(const npuseg_embed_input* inputs,
                                                          size_t input_bytes, size_t count) {
  if (count != 0 && inputs == nullptr)
    return invalid("cannot embed: inputs is NULL; pass an array");
  if (input_bytes < kFirstSize<npuseg_embed_input> || input_bytes > kMostStructBytes) {
    return invalid("cannot embed: input_bytes is not sizeof(npuseg_embed_input)");
  }
  if (count > SIZE_MAX / kMostStructBytes) return invalid("cannot embed: input_count is too large");
  std::vector<engine::EmbeddingInput> out;
  out.reserve(count);
  const auto* at = reinterpret_cast<const unsigned char*>(inputs);
  for (size_t i = 0; i < count; ++i, at += input_bytes) {
    npuseg_embed_input input{};
    std::memcpy(&input, at, std::min(input_bytes, sizeof input));
    Result<engine::EmbeddingInput> made = import_input(input);
    if (!made.ok()) {
      return Status(made.status().code(),
                    format("cannot embed: input %zu: ", i) + made.status().message());
    }
    out.push_back(std::move(made.value()));
  }
  return out;
}

// rows == 0: nothing is written, so nothing is asked for.
Status embed_into(engine::EmbeddingGemma2Engine& model,
                  const std::vector<engine::EmbeddingInput>& inputs,
                  const npuseg_embed_options* options, float* matrix, size_t row_floats,
                  size_t matrix_floats) {
  NPUSEG_ASSIGN_OR_RETURN(const engine::EmbedOptions wanted, npuseg::api::to_engine(options));
  NPUSEG_ASSIGN_OR_RETURN(const size_t dims, model.dims_of(wanted));
  if (row_floats == 0) row_floats = dims;
  if (row_floats < dims) {
    return invalid(
        format("cannot embed: rows are %zu floats apart, a vector has %zu", row_floats, dims));
  }
  if (inputs.empty()) return {};
  if (inputs.size() - 1 > (SIZE_MAX - dims) / row_floats) {
    return invalid("cannot embed: the matrix is larger than memory can be");
  }
  const size_t needed = (inputs.size() - 1) * row_floats + dims;
  if (matrix == nullptr) return invalid("cannot embed: the output is NULL; pass memory");
  if (matrix_floats < needed) {
    return {Code::kBufferTooSmall,
            format("cannot embed: room for %zu floats, %zu are needed", matrix_floats, needed)};
  }
  return model.embed(inputs, wanted, matrix, row_floats);
}

// One input of these parts.
Status embed_one(engine::EmbeddingGemma2Engine& model, std::vector<engine::EmbeddingPart> parts,
                 const npuseg_embed_options* options, float* vector, size_t vector_floats) {
  std::vector<engine::EmbeddingInput> inputs(1);
  inputs[0].parts = std::move(parts);
  return embed_into(model, inputs, options, vector, 0, vector_floats);
}

// Tells the size and shape, and copies rows x cols values when there is room.
template <class T>
Status give(const T* values, size_t rows, size_t cols, void* dst, size_t dst_bytes,
            size_t* out_required, uint64_t* out_shape) {
  if (out_shape != nullptr) {
    out_shape[0] = rows;
    out_shape[1] = cols;
  }
  const size_t bytes = rows * std::max<size_t>(cols, 1) * sizeof(T);
  bool write = false;
  NPUSEG_RETURN_IF_ERROR(npuseg::api::check_room(dst, dst_bytes, bytes, out_required, &write));
  if (write) std::memcpy(dst, values, bytes);
  return {};
}

Status model_input(const engine::EmbeddingGemma2Engine& model, const npuseg_embed_input* input,
                   const npuseg_embed_options* options, uint32_t which, uint32_t picture, void* dst,
                   size_t dst_bytes, size_t* out_required, uint64_t* out_shape) {
  if (which < NPUSEG_EMBED_RAW_INPUT_IDS || which > NPUSEG_EMBED_RAW_POSITION_IDS) {
    return invalid(
        format("cannot copy model input: which is %u; use an NPUSEG_EMBED_RAW_* value", which));
  }
  NPUSEG_ASSIGN_OR_RETURN(const engine::EmbedOptions wanted, npuseg::api::to_engine(options));
  NPUSEG_ASSIGN_OR_RETURN(const engine::EmbeddingInput made, import_only(input));
  core::Call call(model.with_defaults(wanted.call));
  NPUSEG_ASSIGN_OR_RETURN(const engine::EmbeddingLayout layout, model.layout(made, wanted, call));
  if (which == NPUSEG_EMBED_RAW_INPUT_IDS) {
    const std::vector<int64_t>& ids = layout.composed.ids;
    return give(ids.data(), ids.size(), 0, dst, dst_bytes, out_required, out_shape);
  }
  if (picture >= layout.pictures.size()) {
    return invalid(
        format("cannot copy model input: picture %u of %zu", picture, layout.pictures.size()));
  }
  NPUSEG_ASSIGN_OR_RETURN(const image::PatchedPicture patched,
                          model.patches(*layout.pictures[picture], call));
  if (which == NPUSEG_EMBED_RAW_POSITION_IDS) {
    const std::vector<int64_t> positions = image::patch_positions(patched.grid);
    return give(positions.data(), patched.grid.patches(), 2, dst, dst_bytes, out_required,
                out_shape);
  }
  return give(patched.pixels.data(), patched.pixels.rows(), patched.pixels.cols(), dst, dst_bytes,
              out_required, out_shape);
}

}  // namespace

extern "C" {

npuseg_status npuseg_embed_rgb(const npuseg_embeddinggemma2* model, const void* rgb, uint32_t width,
                               uint32_t height, size_t stride, const npuseg_embed_options* options,
                               float* vector, size_t vector_floats) {
  return guard([&]() -> Status {
    NPUSEG_ASSIGN_OR_RETURN(const auto object, object_of(model));
    if (rgb == nullptr) return invalid("cannot embed picture: rgb is NULL; pass pixels");
    if (width == 0 || height == 0) {
      return invalid(
          format("cannot embed picture: %u x %u pixels; give at least one", width, height));
    }
    engine::CallerPixels pixels;
    size_t bytes = 0;
    NPUSEG_RETURN_IF_ERROR(npuseg::api::rows_bytes(size_t{3} * width, height, &stride, &bytes));
    pixels.data = static_cast<const uint8_t*>(rgb);
    pixels.bytes = bytes;
    pixels.width = width;
    pixels.height = height;
    pixels.stride = stride;
    engine::EmbeddingPart part;
    // The photo ends with this call, so the pixels need not be copied.
    NPUSEG_ASSIGN_OR_RETURN(part.picture, engine::Photo::from_pixels(pixels, true, nullptr, {}));
    return embed_one(*object, {part}, options, vector, vector_floats);
  });
}

npuseg_status npuseg_embed_image(const npuseg_embeddinggemma2* model, npuseg_image* image,
                                 const npuseg_embed_options* options, float* vector,
                                 size_t vector_floats) {
  return guard([&]() -> Status {
    NPUSEG_ASSIGN_OR_RETURN(const auto object, object_of(model));
    NPUSEG_ASSIGN_OR_RETURN(const engine::EmbeddingPart part, picture_part(image));
    return embed_one(*object, {part}, options, vector, vector_floats);
  });
}

npuseg_status npuseg_embed_text(const npuseg_embeddinggemma2* model, const char* text,
                                size_t text_bytes, const npuseg_embed_options* options,
                                float* vector, size_t vector_floats) {
  return guard([&]() -> Status {
    NPUSEG_ASSIGN_OR_RETURN(const auto object, object_of(model));
    NPUSEG_ASSIGN_OR_RETURN(const engine::EmbeddingPart part, text_part(text, text_bytes));
    return embed_one(*object, {part}, options, vector, vector_floats);
  });
}

npuseg_status npuseg_embed_image_text(const npuseg_embeddinggemma2* model, npuseg_image* image,
                                      const char* text, size_t text_bytes,
                                      const npuseg_embed_options* options, float* vector,
                                      size_t vector_floats) {
  return guard([&]() -> Status {
    NPUSEG_ASSIGN_OR_RETURN(const auto object, object_of(model));
    NPUSEG_ASSIGN_OR_RETURN(const engine::EmbeddingPart picture, picture_part(image));
    NPUSEG_ASSIGN_OR_RETURN(const engine::EmbeddingPart part, text_part(text, text_bytes));
    return embed_one(*object, {picture, part}, options, vector, vector_floats);
  });
}

npuseg_status npuseg_embed_batch(const npuseg_embeddinggemma2* model,
                                 const npuseg_embed_input* inputs, size_t input_bytes,
                                 size_t input_count, const npuseg_embed_options* options,
                                 float* matrix, size_t row_floats, size_t matrix_floats) {
  return guard([&]() -> Status {
    NPUSEG_ASSIGN_OR_RETURN(const auto object, object_of(model));
    NPUSEG_ASSIGN_OR_RETURN(const auto imported, import_inputs(inputs, input_bytes, input_count));
    return embed_into(*object, imported, options, matrix, row_floats, matrix_floats);
  });
}

npuseg_status npuseg_embed_tokens(const npuseg_embeddinggemma2* model,
                                  const npuseg_embed_input* input,
                                  const npuseg_embed_options* options, size_t* out_tokens,
                                  size_t* out_dropped) {
  return guard([&]() -> Status {
    NPUSEG_ASSIGN_OR_RETURN(const auto object, object_of(model));
    NPUSEG_ASSIGN_OR_RETURN(const engine::EmbedOptions wanted, npuseg::api::to_engine(options));
    NPUSEG_ASSIGN_OR_RETURN(const auto made, import_only(input));
    core::Call call(object->with_defaults(wanted.call));
    NPUSEG_ASSIGN_OR_RETURN(const engine::EmbeddingLayout layout,
                            object->layout(made, wanted, call));
    if (out_tokens != nullptr) *out_tokens = layout.composed.ids.size();
    if (out_dropped != nullptr) *out_dropped = layout.dropped();
    return {};
  });
}

npuseg_status npuseg_embed_model_input(const npuseg_embeddinggemma2* model,
                                       const npuseg_embed_input* input,
                                       const npuseg_embed_options* options, uint32_t which,
                                       uint32_t picture, void* dst, size_t dst_bytes,
                                       size_t* out_required, uint64_t* out_shape) {
  return guard([&]() -> Status {
    NPUSEG_ASSIGN_OR_RETURN(const auto object, object_of(model));
    return model_input(*object, input, options, which, picture, dst, dst_bytes, out_required,
                       out_shape);
  });
}

}  // extern "C"

// SPDX-License-Identifier: Apache-2.0
// Pictures at the C boundary.
#include <cstring>
#include <new>

#include "api/caller_memory.h"
#include "api/guard.h"
#include "api/handles.h"
#include "api/options.h"
#include "api/structs.h"
#include "core/file.h"
#include "image/png_write.h"

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

Status no_out() { return invalid("cannot make image: out_image is NULL; pass its address"); }

Status from_pixels(const npuseg_pixels* pixels, const npuseg_image_options* options,
                   npuseg_image** out) {
  npuseg_pixels in;
  const Status imported = pixels == nullptr
                              ? invalid("cannot use pixels: NULL; pass an npuseg_pixels")
                              : npuseg::api::import_struct(pixels, &in, "npuseg_pixels");
  if (!imported.ok()) return imported;
  // From here on the memory is given back on every path.
  std::unique_ptr<engine::Release> release(new (std::nothrow)
                                               engine::Release(in.release, in.release_user));
  if (!release) {
    if (in.release != nullptr) in.release(in.release_user);
    return {Code::kOutOfMemory, "cannot use pixels: out of memory"};
  }
  if (out == nullptr) return no_out();
  *out = nullptr;
  if ((in.flags & ~static_cast<uint32_t>(NPUSEG_PIXELS_BORROW)) != 0) {
    return {Code::kUnsupported, "cannot use pixels: flags has unknown bits; clear them"};
  }
  NPUSEG_ASSIGN_OR_RETURN(const image::DecodeOptions wanted, npuseg::api::to_engine(options));
  engine::CallerPixels from;
  from.data = static_cast<const uint8_t*>(in.data);
  from.format = static_cast<image::PixelFormat>(in.format);
  from.width = in.width;
  from.height = in.height;
  from.stride = static_cast<size_t>(in.stride);
  NPUSEG_ASSIGN_OR_RETURN(const size_t needed,
                          image::pixels_bytes(from.format, from.width, from.height, from.stride));
  from.bytes = in.data_bytes == 0 ? needed : static_cast<size_t>(in.data_bytes);
  NPUSEG_ASSIGN_OR_RETURN(std::shared_ptr<engine::Photo> photo,
                          engine::Photo::from_pixels(from, (in.flags & NPUSEG_PIXELS_BORROW) != 0,
                                                     std::move(release), wanted));
  make_handle(std::move(photo), out);
  return {};
}

Status copy_pixels(const npuseg_image* handle, void* dst, size_t stride, size_t dst_bytes,
                   size_t* out_required) {
  NPUSEG_ASSIGN_OR_RETURN(const auto photo, object_of(handle));
  const size_t row = size_t{3} * photo->width();
  size_t needed = 0;
  NPUSEG_RETURN_IF_ERROR(rows_bytes(row, photo->height(), &stride, &needed));
  bool write = false;
  NPUSEG_RETURN_IF_ERROR(check_room(dst, dst_bytes, needed, out_required, &write));
  if (!write) return {};
  NPUSEG_ASSIGN_OR_RETURN(const image::RgbView view, photo->pixels());
  for (uint32_t y = 0; y < view.height; ++y) {
    std::memcpy(static_cast<unsigned char*>(dst) + y * stride, view.row(y), row);
  }
  return {};
}

Status model_input(const npuseg_image* handle, const npuseg_sam3* model, float* dst,
                   size_t dst_bytes, size_t* out_required) {
  NPUSEG_ASSIGN_OR_RETURN(const auto photo, object_of(handle));
  NPUSEG_ASSIGN_OR_RETURN(const auto object, object_of(model));
  const size_t needed = object->model_input_floats() * sizeof(float);
  if (reinterpret_cast<uintptr_t>(dst) % alignof(float) != 0) {
    return invalid("cannot write model input: dst: is no multiple of 4; align it");
  }
  bool write = false;
  NPUSEG_RETURN_IF_ERROR(check_room(dst, dst_bytes, needed, out_required, &write));
  if (!write) return {};
  npuseg::core::Call call;
  return object->model_input(*photo, call, dst);
}

Status write_png(const char* path, uint32_t layout, uint32_t width, uint32_t height,
                 const void* pixels, size_t stride, size_t pixels_bytes) {
  if (path == nullptr || pixels == nullptr) {
    return invalid("cannot write PNG: path or pixels is NULL; pass both");
  }
  if (layout != NPUSEG_FORMAT_RGB && layout != NPUSEG_FORMAT_GREY) {
    return invalid("cannot write PNG: format must be NPUSEG_FORMAT_RGB or NPUSEG_FORMAT_GREY");
  }
  if (width == 0 || height == 0) return invalid("cannot write PNG: a side is 0");
  const size_t channels = layout == NPUSEG_FORMAT_RGB ? 3 : 1;
  size_t needed = 0;
  NPUSEG_RETURN_IF_ERROR(rows_bytes(channels * width, height, &stride, &needed));
  if (pixels_bytes < needed) {
    return invalid(format("cannot write PNG: %zu bytes given, the geometry asks for %zu",
                          pixels_bytes, needed));
  }
  const auto* from = static_cast<const uint8_t*>(pixels);
  auto encoded = layout == NPUSEG_FORMAT_RGB ? image::encode_png_rgb({from, width, height, stride})
                                             : image::encode_png_grey(from, stride, width, height);
  if (!encoded.ok()) return std::move(encoded).status();
  return npuseg::core::write_file_atomically(path, encoded.value());
}

}  // namespace

extern "C" {

npuseg_status npuseg_image_open(const char* path, const npuseg_image_options* options,
                                npuseg_image** out_image) {
  return guard([&]() -> Status {
    if (out_image == nullptr) return no_out();
    *out_image = nullptr;
    if (path == nullptr || *path == '\0') {
      return invalid("cannot open: path: is NULL or empty; pass a path");
    }
    NPUSEG_ASSIGN_OR_RETURN(const image::DecodeOptions wanted, npuseg::api::to_engine(options));
    NPUSEG_ASSIGN_OR_RETURN(std::shared_ptr<engine::Photo> photo,
                            engine::Photo::open(path, wanted));
    make_handle(std::move(photo), out_image);
    return {};
  });
}

npuseg_status npuseg_image_from_memory(const void* data, size_t bytes,
                                       const npuseg_image_options* options,
                                       npuseg_image** out_image) {
  return guard([&]() -> Status {
    if (out_image == nullptr) return no_out();
    *out_image = nullptr;
    if (data == nullptr) return invalid("cannot decode image: data is NULL; pass the file's bytes");
    NPUSEG_ASSIGN_OR_RETURN(const image::DecodeOptions wanted, npuseg::api::to_engine(options));
    NPUSEG_ASSIGN_OR_RETURN(std::shared_ptr<engine::Photo> photo,
                            engine::Photo::decode({static_cast<const uint8_t*>(data), bytes},
                                                  wanted, "picture in memory"));
    make_handle(std::move(photo), out_image);
    return {};
  });
}

npuseg_status npuseg_image_from_pixels(const npuseg_pixels* pixels,
                                       const npuseg_image_options* options,
                                       npuseg_image** out_image) {
  return guard([&] { return from_pixels(pixels, options, out_image); });
}

npuseg_status npuseg_image_info(const npuseg_image* image, npuseg_image_data* out_info) {
  return guard([&]() -> Status {
    NPUSEG_ASSIGN_OR_RETURN(const auto photo, object_of(image));
    npuseg_image_data info{};
    info.width = photo->width();
    info.height = photo->height();
    info.orientation = photo->orientation();
    info.stored_width = photo->stored_width();
    info.stored_height = photo->stored_height();
    info.decode_nanoseconds = photo->decode_nanoseconds();
    info.feature_bytes = photo->feature_bytes();
    return export_struct(info, out_info, "npuseg_image_data");
  });
}

npuseg_status npuseg_image_pixels(const npuseg_image* image, void* dst, size_t stride,
                                  size_t dst_bytes, size_t* out_required) {
  return guard([&] { return copy_pixels(image, dst, stride, dst_bytes, out_required); });
}

npuseg_status npuseg_image_prepare(npuseg_image* image, const npuseg_sam3* model,
                                   const npuseg_segment_options* options) {
  return guard([&]() -> Status {
    NPUSEG_ASSIGN_OR_RETURN(const auto photo, object_of(image));
    NPUSEG_ASSIGN_OR_RETURN(const auto object, object_of(model));
    NPUSEG_ASSIGN_OR_RETURN(const engine::SegmentOptions wanted, npuseg::api::to_engine(options));
    return object->prepare(*photo, wanted.call);
  });
}

npuseg_status npuseg_image_forget(npuseg_image* image) {
  return guard([&]() -> Status {
    NPUSEG_ASSIGN_OR_RETURN(const auto photo, object_of(image));
    photo->forget();
    return {};
  });
}

npuseg_status npuseg_image_model_input(const npuseg_image* image, const npuseg_sam3* model,
                                       float* dst, size_t dst_bytes, size_t* out_required) {
  return guard([&] { return model_input(image, model, dst, dst_bytes, out_required); });
}

npuseg_status npuseg_write_png(const char* path, uint32_t layout, uint32_t width, uint32_t height,
                               const void* pixels, size_t stride, size_t pixels_bytes) {
  return guard(
      [&] { return write_png(path, layout, width, height, pixels, stride, pixels_bytes); });
}

}  // extern "C"

/* SPDX-License-Identifier: Apache-2.0 */
/* Go may not hand C a struct that points to Go memory, so these take the fields one by one and
 * build the struct on the C side. The cell with the number of a Go value lies on the C stack:
 * callbacks run only inside the call, and a number never poses as a pointer in Go. */
#ifndef NPUSEG_GO_SHIM_H
#define NPUSEG_GO_SHIM_H

#include <npuseg.h>

extern int32_t npusegGoProgress(void *user, uint32_t stage, uint64_t done, uint64_t total);

static inline npuseg_model_options go_model_options(const char *device, uint32_t threads,
                                                    uint32_t precision, uint64_t memory_limit,
                                                    uintptr_t *cell) {
  npuseg_model_options options = {.struct_size = sizeof options,
                                  .device = device,
                                  .threads = threads,
                                  .precision = precision,
                                  .memory_limit = memory_limit};
  if (*cell != 0) {
    options.progress = npusegGoProgress;
    options.progress_user = cell;
  }
  return options;
}

static inline npuseg_status go_sam3_load(const char *directory, const char *device,
                                         uint32_t threads, uint32_t precision,
                                         uint64_t memory_limit, uintptr_t call, void **out) {
  npuseg_model_options options = go_model_options(device, threads, precision, memory_limit, &call);
  npuseg_sam3 *model = NULL;
  npuseg_status status = npuseg_sam3_load(directory, &options, &model);
  *out = model;
  return status;
}

static inline npuseg_status go_embeddinggemma2_load(const char *directory, const char *device,
                                                    uint32_t threads, uint32_t precision,
                                                    uint64_t memory_limit, uintptr_t call,
                                                    void **out) {
  npuseg_model_options options = go_model_options(device, threads, precision, memory_limit, &call);
  npuseg_embeddinggemma2 *model = NULL;
  npuseg_status status = npuseg_embeddinggemma2_load(directory, &options, &model);
  *out = model;
  return status;
}

static inline npuseg_status go_image_open(const char *path, void **out) {
  npuseg_image *image = NULL;
  npuseg_status status = npuseg_image_open(path, NULL, &image);
  *out = image;
  return status;
}

static inline npuseg_status go_image_from_memory(const void *data, size_t bytes, void **out) {
  npuseg_image *image = NULL;
  npuseg_status status = npuseg_image_from_memory(data, bytes, NULL, &image);
  *out = image;
  return status;
}

static inline npuseg_status go_image_from_pixels(uint32_t format, uint32_t width, uint32_t height,
                                                 uint64_t stride, const void *data,
                                                 uint64_t data_bytes, void **out) {
  npuseg_pixels pixels = {.struct_size = sizeof pixels,
                          .format = format,
                          .width = width,
                          .height = height,
                          .stride = stride,
                          .data = data,
                          .data_bytes = data_bytes};
  npuseg_image *image = NULL;
  npuseg_status status = npuseg_image_from_pixels(&pixels, NULL, &image);
  *out = image;
  return status;
}

static inline npuseg_status go_segment(void *model, void *image, const void *text,
                                       size_t text_bytes, uint32_t flags, float threshold,
                                       float mask_threshold, uint32_t max_instances,
                                       uint32_t threads, const npuseg_box *boxes,
                                       uint32_t box_count, uintptr_t call, void **out) {
  npuseg_segment_options options = {.struct_size = sizeof options,
                                    .flags = flags,
                                    .threshold = threshold,
                                    .mask_threshold = mask_threshold,
                                    .max_instances = max_instances,
                                    .threads = threads,
                                    .boxes = boxes,
                                    .box_count = box_count,
                                    .box_bytes = sizeof *boxes};
  if (call != 0) {
    options.progress = npusegGoProgress;
    options.progress_user = &call;
  }
  npuseg_result *result = NULL;
  npuseg_status status = npuseg_segment_text((npuseg_sam3 *)model, (npuseg_image *)image,
                                             (const char *)text, text_bytes, &options, &result);
  *out = result;
  return status;
}

/* A picture, a text or a picture followed by a text; what is NULL is not there. */
static inline npuseg_status go_embed(void *model, void *image, const void *text, size_t text_bytes,
                                     uint32_t flags, const char *task, uint32_t dims,
                                     uint32_t threads, uintptr_t call, float *vector,
                                     size_t vector_floats) {
  npuseg_embed_options options = {.struct_size = sizeof options,
                                  .flags = flags,
                                  .task = task,
                                  .dims = dims,
                                  .threads = threads};
  if (call != 0) {
    options.progress = npusegGoProgress;
    options.progress_user = &call;
  }
  npuseg_embeddinggemma2 *embedder = (npuseg_embeddinggemma2 *)model;
  npuseg_image *picture = (npuseg_image *)image;
  if (picture == NULL) {
    return npuseg_embed_text(embedder, (const char *)text, text_bytes, &options, vector,
                             vector_floats);
  }
  if (text == NULL) {
    return npuseg_embed_image(embedder, picture, &options, vector, vector_floats);
  }
  return npuseg_embed_image_text(embedder, picture, (const char *)text, text_bytes, &options,
                                 vector, vector_floats);
}

#endif

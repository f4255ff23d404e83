/* SPDX-License-Identifier: Apache-2.0 */
/* What the C API tests share: cmocka, the demo model, one way to say that a call must succeed. */
#ifndef NPUSEG_TEST_SUPPORT_H
#define NPUSEG_TEST_SUPPORT_H

#include <npuseg.h>
#include <png.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
/* jpeglib.h needs stdio.h before it. */
/* clang-format off */
#include <jpeglib.h>
/* clang-format on */
#include <stdlib.h>
#include <string.h>
/* cmocka.h needs the headers above before it, so it must not be sorted. */
/* clang-format off */
#include <cmocka.h>
/* clang-format on */

#define SAMPLE(name) NPUSEG_DEMO_DIR "/samples/" name

/* The message is what a failing test must show. */
#define MUST(call)                                                                          \
  do {                                                                                      \
    const npuseg_status status_ = (call);                                                   \
    if (status_ != NPUSEG_OK) {                                                             \
      print_error("%s: %s: %s\n", #call, npuseg_status_name(status_), npuseg_last_error()); \
    }                                                                                       \
    assert_int_equal(status_, NPUSEG_OK);                                                   \
  } while (0)

/* Fails with this status, a message, and the same status in the error info. */
#define REFUSED(call, expected)                                  \
  do {                                                           \
    npuseg_error_info info_;                                     \
    memset(&info_, 0, sizeof info_);                             \
    info_.struct_size = (uint32_t)sizeof info_;                  \
    assert_int_equal((call), (expected));                        \
    assert_true(strlen(npuseg_last_error()) > 10);               \
    assert_int_equal(npuseg_last_error_info(&info_), NPUSEG_OK); \
    assert_int_equal(info_.status, (expected));                  \
    assert_string_equal(info_.message, npuseg_last_error());     \
  } while (0)

#define SIZED(type, name)        \
  type name;                     \
  memset(&name, 0, sizeof name); \
  name.struct_size = (uint32_t)sizeof name

static inline npuseg_sam3 *load_demo(void) {
  npuseg_sam3 *model = NULL;
  MUST(npuseg_sam3_load(NPUSEG_DEMO_DIR, NULL, &model));
  assert_non_null(model);
  return model;
}

static inline npuseg_image *image_of_rgb(const unsigned char *pixels, uint32_t width,
                                         uint32_t height) {
  npuseg_image *image = NULL;
  SIZED(npuseg_pixels, source);
  source.format = NPUSEG_FORMAT_RGB;
  source.width = width;
  source.height = height;
  source.data = pixels;
  source.data_bytes = (size_t)width * height * 3;
  MUST(npuseg_image_from_pixels(&source, NULL, &image));
  return image;
}

static inline npuseg_image *open_with_libpng(const char *path) {
  npuseg_image *image;
  unsigned char *pixels;
  png_image png;
  memset(&png, 0, sizeof png);
  png.version = PNG_IMAGE_VERSION;
  assert_true(png_image_begin_read_from_file(&png, path));
  png.format = PNG_FORMAT_RGB;
  pixels = malloc((size_t)PNG_IMAGE_SIZE(png));
  assert_true(png_image_finish_read(&png, NULL, pixels, 0, NULL));
  image = image_of_rgb(pixels, png.width, png.height);
  free(pixels);
  return image;
}

static inline npuseg_image *open_with_libjpeg(const char *path) {
  npuseg_image *image;
  unsigned char *pixels;
  struct jpeg_decompress_struct jpeg;
  struct jpeg_error_mgr errors;
  FILE *file = fopen(path, "rb");
  assert_non_null(file);
  jpeg.err = jpeg_std_error(&errors);
  jpeg_create_decompress(&jpeg);
  jpeg_stdio_src(&jpeg, file);
  jpeg_read_header(&jpeg, TRUE);
  jpeg.out_color_space = JCS_RGB;
  jpeg_start_decompress(&jpeg);
  pixels = malloc((size_t)jpeg.output_width * jpeg.output_height * 3);
  while (jpeg.output_scanline < jpeg.output_height) {
    unsigned char *line = pixels + (size_t)jpeg.output_scanline * jpeg.output_width * 3;
    jpeg_read_scanlines(&jpeg, &line, 1);
  }
  image = image_of_rgb(pixels, jpeg.output_width, jpeg.output_height);
  jpeg_finish_decompress(&jpeg);
  jpeg_destroy_decompress(&jpeg);
  fclose(file);
  free(pixels);
  return image;
}

/* A picture file's pixels, also for libraries that were built without its codec. */
static inline npuseg_image *open_sample(const char *path) {
  const int is_png = strstr(path, ".png") != NULL;
  npuseg_image *image = NULL;
  if (is_png ? NPUSEG_TEST_PNG : NPUSEG_TEST_JPEG) {
    MUST(npuseg_image_open(path, NULL, &image));
  } else {
    REFUSED(npuseg_image_open(path, NULL, &image), NPUSEG_UNSUPPORTED);
    image = is_png ? open_with_libpng(path) : open_with_libjpeg(path);
  }
  assert_non_null(image);
  return image;
}

static inline void info_of(const npuseg_result *result, npuseg_result_data *info) {
  memset(info, 0, sizeof *info);
  info->struct_size = (uint32_t)sizeof *info;
  MUST(npuseg_result_info(result, info));
}

/* Same instances and same masks, byte for byte. */
static inline void assert_same_results(const npuseg_result *a, const npuseg_result *b) {
  npuseg_result_data info_a, info_b;
  npuseg_instance *found_a, *found_b;
  unsigned char *mask_a, *mask_b;
  size_t count_a, count_b, i, bytes;
  info_of(a, &info_a);
  info_of(b, &info_b);
  assert_int_equal(info_a.instances, info_b.instances);
  assert_memory_equal(&info_a.presence, &info_b.presence, sizeof info_a.presence);
  assert_int_equal(info_a.width, info_b.width);
  assert_int_equal(info_a.height, info_b.height);
  count_a = count_b = info_a.instances;
  found_a = calloc(count_a + 1, sizeof *found_a);
  found_b = calloc(count_b + 1, sizeof *found_b);
  MUST(npuseg_result_instances(a, found_a, sizeof *found_a, &count_a));
  MUST(npuseg_result_instances(b, found_b, sizeof *found_b, &count_b));
  assert_memory_equal(found_a, found_b, count_a * sizeof *found_a);
  bytes = (size_t)info_a.width * info_a.height;
  mask_a = malloc(bytes);
  mask_b = malloc(bytes);
  for (i = 0; i < count_a; ++i) {
    MUST(npuseg_result_mask(a, i, NPUSEG_MASK_BYTES, mask_a, 0, bytes, NULL));
    MUST(npuseg_result_mask(b, i, NPUSEG_MASK_BYTES, mask_b, 0, bytes, NULL));
    assert_memory_equal(mask_a, mask_b, bytes);
  }
  free(mask_a);
  free(mask_b);
  free(found_a);
  free(found_b);
}

#endif

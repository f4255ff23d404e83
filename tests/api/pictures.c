/* SPDX-License-Identifier: Apache-2.0 */
/* Pixels in and out: formats, strides, borrowed memory given back exactly once on every path. */
#include "support.h"

static int given_back;
static void give_back(void *user) {
  assert_ptr_equal(user, &given_back);
  ++given_back;
}

static void describe(npuseg_pixels *pixels, const void *data, uint32_t width, uint32_t height) {
  memset(pixels, 0, sizeof *pixels);
  pixels->struct_size = (uint32_t)sizeof *pixels;
  pixels->format = NPUSEG_FORMAT_RGB;
  pixels->width = width;
  pixels->height = height;
  pixels->data = data;
  pixels->release = give_back;
  pixels->release_user = &given_back;
  given_back = 0;
}

static void test_borrowed_pixels_come_back_once(void **state) {
  unsigned char rgb[12 * 10 * 3];
  unsigned char copy[12 * 10 * 3];
  npuseg_pixels pixels;
  npuseg_image *image = NULL;
  (void)state;
  memset(rgb, 9, sizeof rgb);
  /* Copied: back before the call returns. */
  describe(&pixels, rgb, 12, 10);
  MUST(npuseg_image_from_pixels(&pixels, NULL, &image));
  assert_int_equal(given_back, 1);
  MUST(npuseg_release(image));
  assert_int_equal(given_back, 1);
  /* Borrowed, never used. */
  describe(&pixels, rgb, 12, 10);
  pixels.flags = NPUSEG_PIXELS_BORROW;
  MUST(npuseg_image_from_pixels(&pixels, NULL, &image));
  MUST(npuseg_release(image));
  assert_int_equal(given_back, 1);
  /* Borrowed and used. */
  describe(&pixels, rgb, 12, 10);
  pixels.flags = NPUSEG_PIXELS_BORROW;
  MUST(npuseg_image_from_pixels(&pixels, NULL, &image));
  MUST(npuseg_image_pixels(image, copy, 36, sizeof copy, NULL));
  assert_memory_equal(rgb, copy, sizeof rgb);
  MUST(npuseg_release(image));
  assert_int_equal(given_back, 1);
}

static void test_failures_give_pixels_back_too(void **state) {
  unsigned char rgb[12 * 10 * 3] = {0};
  npuseg_pixels pixels;
  npuseg_image *image = NULL;
  uint32_t flags;
  SIZED(npuseg_image_options, options);
  (void)state;
  options.max_pixels = 100;
  for (flags = 0; flags <= NPUSEG_PIXELS_BORROW; ++flags) {
    describe(&pixels, rgb, 12, 10);
    pixels.flags = flags;
    assert_int_not_equal(npuseg_image_from_pixels(&pixels, NULL, NULL), NPUSEG_OK);
    assert_int_equal(given_back, 1);
    describe(&pixels, rgb, 12, 10);
    pixels.flags = flags;
    REFUSED(npuseg_image_from_pixels(&pixels, &options, &image), NPUSEG_LIMIT_EXCEEDED);
    assert_int_equal(given_back, 1);
    describe(&pixels, rgb, 0, 10);
    pixels.flags = flags;
    REFUSED(npuseg_image_from_pixels(&pixels, NULL, &image), NPUSEG_INVALID_ARGUMENT);
    assert_int_equal(given_back, 1);
    describe(&pixels, rgb, 12, 10);
    pixels.flags = flags;
    pixels.format = 77;
    REFUSED(npuseg_image_from_pixels(&pixels, NULL, &image), NPUSEG_INVALID_ARGUMENT);
    assert_int_equal(given_back, 1);
    describe(&pixels, rgb, 12, 10);
    pixels.flags = flags;
    pixels.stride = 35;
    REFUSED(npuseg_image_from_pixels(&pixels, NULL, &image), NPUSEG_INVALID_ARGUMENT);
    assert_int_equal(given_back, 1);
    assert_null(image);
  }
}

static void test_formats_and_strides(void **state) {
  static const unsigned char bgra[2 * 16] = {3, 2, 1, 255, 6, 5, 4, 0,   0,  0,  0,  0,
                                             0, 0, 0, 0,   9, 8, 7, 255, 12, 11, 10, 255};
  static const unsigned char expected[12] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  unsigned char rgb[12];
  npuseg_pixels pixels;
  npuseg_image *image = NULL;
  size_t need = 0;
  (void)state;
  describe(&pixels, bgra, 2, 2);
  pixels.format = NPUSEG_FORMAT_BGRA;
  pixels.stride = 16;
  MUST(npuseg_image_from_pixels(&pixels, NULL, &image));
  MUST(npuseg_image_pixels(image, NULL, 6, 0, &need));
  assert_int_equal(need, 12);
  memset(rgb, 0x5a, sizeof rgb);
  assert_int_equal(npuseg_image_pixels(image, rgb, 6, 11, NULL), NPUSEG_BUFFER_TOO_SMALL);
  assert_int_equal(rgb[0], 0x5a);
  MUST(npuseg_image_pixels(image, rgb, 6, sizeof rgb, NULL));
  assert_memory_equal(rgb, expected, sizeof rgb);
  MUST(npuseg_release(image));
}

static void test_narrow_pictures(void **state) {
  static const uint32_t sides[2][2] = {{7, 1000}, {1000, 7}};
  npuseg_sam3 *model = load_demo();
  int i;
  (void)state;
  for (i = 0; i < 2; ++i) {
    unsigned char *rgb = calloc(7000, 3);
    npuseg_pixels pixels;
    npuseg_image *image = NULL;
    npuseg_result *result = NULL;
    npuseg_result_data info;
    size_t need = 0;
    SIZED(npuseg_segment_options, options);
    options.threshold = -1.0f;
    describe(&pixels, rgb, sides[i][0], sides[i][1]);
    MUST(npuseg_image_from_pixels(&pixels, NULL, &image));
    MUST(npuseg_segment(model, image, "shape", &options, &result));
    info_of(result, &info);
    assert_int_equal(info.width, sides[i][0]);
    assert_int_equal(info.height, sides[i][1]);
    MUST(npuseg_result_mask(result, 0, NPUSEG_MASK_BYTES, NULL, 0, 0, &need));
    assert_int_equal(need, 7000);
    MUST(npuseg_release(result));
    MUST(npuseg_release(image));
    free(rgb);
  }
  MUST(npuseg_release(model));
}

static void test_files(void **state) {
  npuseg_image *image = NULL;
  (void)state;
  REFUSED(npuseg_image_open("/nonexistent.png", NULL, &image), NPUSEG_NOT_FOUND);
  assert_int_not_equal(npuseg_image_open(NPUSEG_DEMO_DIR "/config.json", NULL, &image), NPUSEG_OK);
  assert_int_not_equal(npuseg_image_from_memory("GIF89a", 6, NULL, &image), NPUSEG_OK);
  assert_null(image);
}

static void test_draw_and_write(void **state) {
  npuseg_sam3 *model = load_demo();
  npuseg_image *image = open_sample(SAMPLE("a.png"));
  npuseg_result *result = NULL;
  npuseg_image *again = NULL;
  const size_t bytes = 320 * 240 * 3;
  unsigned char *before = malloc(bytes), *pixels = malloc(bytes), *read = malloc(bytes);
  const char *path = "api_pictures_overlay.png";
  (void)state;
  MUST(npuseg_segment(model, image, "shapes", NULL, &result));
  MUST(npuseg_image_pixels(image, before, 960, bytes, NULL));
  memcpy(pixels, before, bytes);
  assert_int_equal(npuseg_result_draw(result, "shapes", 0, pixels, 0, bytes - 1),
                   NPUSEG_BUFFER_TOO_SMALL);
  assert_memory_equal(before, pixels, bytes);
  MUST(npuseg_result_draw(result, "shapes", 0, pixels, 0, bytes));
  assert_memory_not_equal(before, pixels, bytes);
  MUST(npuseg_write_png(path, NPUSEG_FORMAT_RGB, 320, 240, pixels, 0, bytes));
  MUST(npuseg_image_open(path, NULL, &again));
  MUST(npuseg_image_pixels(again, read, 960, bytes, NULL));
  assert_memory_equal(pixels, read, bytes);
  assert_int_not_equal(
      npuseg_write_png("/nonexistent/x.png", NPUSEG_FORMAT_RGB, 320, 240, pixels, 0, bytes),
      NPUSEG_OK);
  REFUSED(npuseg_write_png(path, NPUSEG_FORMAT_BGR, 320, 240, pixels, 0, bytes),
          NPUSEG_INVALID_ARGUMENT);
  remove(path);
  MUST(npuseg_release(again));
  MUST(npuseg_release(result));
  MUST(npuseg_release(image));
  MUST(npuseg_release(model));
  free(before);
  free(pixels);
  free(read);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_borrowed_pixels_come_back_once),
      cmocka_unit_test(test_failures_give_pixels_back_too),
      cmocka_unit_test(test_formats_and_strides),
      cmocka_unit_test(test_narrow_pictures),
      cmocka_unit_test(test_files),
      cmocka_unit_test(test_draw_and_write),
  };
  return cmocka_run_group_tests_name("api.pictures", tests, NULL, NULL);
}

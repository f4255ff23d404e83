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
#if NPUSEG_TEST_PNG
  MUST(npuseg_write_png(path, NPUSEG_FORMAT_RGB, 320, 240, pixels, 0, bytes));
  MUST(npuseg_image_open(path, NULL, &again));
  MUST(npuseg_image_pixels(again, read, 960, bytes, NULL));
  assert_memory_equal(pixels, read, bytes);
#else
  REFUSED(npuseg_write_png(path, NPUSEG_FORMAT_RGB, 320, 240, pixels, 0, bytes),
          NPUSEG_UNSUPPORTED);
#endif
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

static uint32_t crc32_of(const unsigned char *bytes, size_t count) {
  uint32_t crc = 0xffffffffU;
  size_t i;
  int bit;
  for (i = 0; i < count; ++i) {
    crc ^= bytes[i];
    for (bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ (0xedb88320U & (0U - (crc & 1U)));
  }
  return ~crc;
}

static void put_be32(unsigned char *to, uint32_t value) {
  to[0] = (unsigned char)(value >> 24);
  to[1] = (unsigned char)(value >> 16);
  to[2] = (unsigned char)(value >> 8);
  to[3] = (unsigned char)value;
}

/* The sample with an eXIf chunk behind its header. */
static unsigned char *with_orientation(unsigned char orientation, size_t *bytes) {
  static const unsigned char tiff[26] = {'I', 'I', 42, 0, 8, 0, 0, 0, 1, 0, 0x12, 1,
                                         3,   0,   1,  0, 0, 0, 0, 0, 0, 0, 0,    0};
  const size_t header = 8 + 25, chunk = 12 + sizeof tiff;
  FILE *file = fopen(SAMPLE("a.png"), "rb");
  unsigned char *png;
  long size;
  assert_non_null(file);
  fseek(file, 0, SEEK_END);
  size = ftell(file);
  rewind(file);
  *bytes = (size_t)size + chunk;
  png = malloc(*bytes);
  assert_int_equal(fread(png, 1, header, file), header);
  assert_int_equal(fread(png + header + chunk, 1, (size_t)size - header, file),
                   (size_t)size - header);
  fclose(file);
  put_be32(png + header, sizeof tiff);
  memcpy(png + header + 4, "eXIf", 4);
  memcpy(png + header + 8, tiff, sizeof tiff);
  png[header + 8 + 18] = orientation;
  put_be32(png + header + 8 + sizeof tiff, crc32_of(png + header + 4, 4 + sizeof tiff));
  return png;
}

/* The table of docs/api-concepts.md: the stored pixel of an upright one. */
static size_t stored_pixel(uint32_t orientation, size_t x, size_t y) {
  const size_t right = 320 - 1, bottom = 240 - 1;
  switch (orientation) {
    case 2:
      return y * 320 + (right - x);
    case 3:
      return (bottom - y) * 320 + (right - x);
    case 4:
      return (bottom - y) * 320 + x;
    case 5:
      return x * 320 + y;
    case 6:
      return (bottom - x) * 320 + y;
    case 7:
      return (bottom - x) * 320 + (right - y);
    case 8:
      return x * 320 + (right - y);
    default:
      return y * 320 + x;
  }
}

static void test_stored_geometry(void **state) {
  const size_t bytes = 320 * 240 * 3;
  unsigned char *stored = malloc(bytes), *upright = malloc(bytes);
  unsigned char orientation;
  size_t x, y, size;
  SIZED(npuseg_image_options, options);
  (void)state;
  options.flags = NPUSEG_IMAGE_IGNORE_EXIF;
  for (orientation = 0; orientation <= 9; ++orientation) {
    unsigned char *png = with_orientation(orientation, &size);
    const uint32_t real = orientation >= 1 && orientation <= 8 ? orientation : 1;
    npuseg_image *image = NULL;
    SIZED(npuseg_image_data, as_stored);
    SIZED(npuseg_image_data, turned);
    if (!NPUSEG_TEST_PNG) {
      REFUSED(npuseg_image_from_memory(png, size, &options, &image), NPUSEG_UNSUPPORTED);
      free(png);
      continue;
    }
    MUST(npuseg_image_from_memory(png, size, &options, &image));
    MUST(npuseg_image_info(image, &as_stored));
    MUST(npuseg_image_pixels(image, stored, 0, bytes, NULL));
    MUST(npuseg_release(image));
    MUST(npuseg_image_from_memory(png, size, NULL, &image));
    MUST(npuseg_image_info(image, &turned));
    MUST(npuseg_image_pixels(image, upright, 0, bytes, NULL));
    MUST(npuseg_release(image));
    free(png);
    assert_int_equal(as_stored.orientation, real);
    assert_int_equal(turned.orientation, real);
    assert_int_equal(as_stored.width, 320);
    assert_int_equal(as_stored.height, 240);
    assert_int_equal(as_stored.stored_width, 320);
    assert_int_equal(as_stored.stored_height, 240);
    assert_int_equal(turned.stored_width, 320);
    assert_int_equal(turned.stored_height, 240);
    assert_int_equal(turned.width, real >= 5 ? 240 : 320);
    assert_int_equal(turned.height, real >= 5 ? 320 : 240);
    for (y = 0; y < turned.height; ++y) {
      for (x = 0; x < turned.width; ++x) {
        const unsigned char *a = upright + 3 * (y * turned.width + x);
        const unsigned char *b = stored + 3 * stored_pixel(real, x, y);
        if (memcmp(a, b, 3) != 0) fail_msg("orientation %u at %zu, %zu", real, x, y);
      }
    }
  }
  free(stored);
  free(upright);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_borrowed_pixels_come_back_once),
      cmocka_unit_test(test_failures_give_pixels_back_too),
      cmocka_unit_test(test_formats_and_strides),
      cmocka_unit_test(test_narrow_pictures),
      cmocka_unit_test(test_files),
      cmocka_unit_test(test_draw_and_write),
      cmocka_unit_test(test_stored_geometry),
  };
  return cmocka_run_group_tests_name("api.pictures", tests, NULL, NULL);
}

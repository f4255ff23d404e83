/* SPDX-License-Identifier: Apache-2.0 */
/* Masks as outlines: filled even-odd they are the mask, byte for byte, and their areas add up. */
#include "support.h"

static uint32_t width, height;

struct outlines {
  int32_t *words;
  size_t count;
  int32_t rings;
  int32_t holes;
};

typedef npuseg_status (*read_fn)(const npuseg_result *result, size_t index, void *dst,
                                 size_t dst_bytes, uint32_t kind, size_t *need);

static npuseg_status read_instance(const npuseg_result *result, size_t index, void *dst,
                                   size_t dst_bytes, uint32_t kind, size_t *need) {
  return npuseg_result_mask(result, index, kind, dst, 0, dst_bytes, need);
}

/* Threshold (index + 1) / 10. */
static npuseg_status read_semantic(const npuseg_result *result, size_t index, void *dst,
                                   size_t dst_bytes, uint32_t kind, size_t *need) {
  return npuseg_result_semantic(result, (float)(index + 1) / 10.0f, kind, dst, 0, dst_bytes, need);
}

static void read_outlines(const npuseg_result *result, size_t index, read_fn read,
                          struct outlines *out) {
  size_t need = 0, again = 0, i;
  unsigned char *bytes;
  MUST(read(result, index, NULL, 0, NPUSEG_MASK_POLYGONS, &need));
  assert_true(need >= 4);
  assert_int_equal(need % 4, 0);
  bytes = malloc(need + 1);
  memset(bytes, 0x5a, need + 1);
  assert_int_equal(read(result, index, bytes, need - 1, NPUSEG_MASK_POLYGONS, &again),
                   NPUSEG_BUFFER_TOO_SMALL);
  assert_int_equal(again, need);
  for (i = 0; i < need + 1; ++i) assert_int_equal(bytes[i], 0x5a);
  /* Any address will do. */
  MUST(read(result, index, bytes + 1, need, NPUSEG_MASK_POLYGONS, NULL));
  out->count = need / 4;
  out->words = malloc(need);
  memcpy(out->words, bytes + 1, need);
  free(bytes);
}

/* Every vertical edge toggles the pixels on its right; doubled shoelace areas are summed. */
static void check_outlines(const npuseg_result *result, size_t index, read_fn read,
                           struct outlines *out) {
  const size_t pixels = (size_t)width * height;
  unsigned char *mask = malloc(pixels), *filled = calloc(pixels, 1);
  size_t at = 1, k, x;
  int32_t ring, y;
  int64_t twice = 0, set = 0;
  read_outlines(result, index, read, out);
  out->rings = out->words[0];
  out->holes = 0;
  for (ring = 0; ring < out->rings; ++ring) {
    const int32_t points = out->words[at];
    const int32_t parent = out->words[at + 1];
    const int32_t *xy = out->words + at + 2;
    int64_t twice_ring = 0;
    assert_true(points >= 4);
    assert_true(at + 2 + 2 * (size_t)points <= out->count);
    assert_true(parent >= 0 && parent <= ring);
    for (k = 0; k < (size_t)points; ++k) {
      const int32_t *a = xy + 2 * k;
      const int32_t *b = xy + 2 * ((k + 1) % (size_t)points);
      assert_true(a[0] >= 0 && a[0] <= (int32_t)width && a[1] >= 0 && a[1] <= (int32_t)height);
      assert_true((a[0] == b[0]) != (a[1] == b[1]));
      twice_ring += (int64_t)a[0] * b[1] - (int64_t)b[0] * a[1];
      if (a[0] != b[0]) continue;
      for (y = a[1] < b[1] ? a[1] : b[1]; y < (a[1] < b[1] ? b[1] : a[1]); ++y) {
        for (x = (size_t)a[0]; x < width; ++x) filled[(size_t)y * width + x] ^= 255;
      }
    }
    /* y points down: outer rings are clockwise on the screen. */
    assert_int_equal(twice_ring > 0, parent == ring);
    out->holes += parent != ring;
    twice += twice_ring;
    at += 2 + 2 * (size_t)points;
  }
  assert_int_equal(at, out->count);
  MUST(read(result, index, mask, pixels, NPUSEG_MASK_BYTES, NULL));
  assert_memory_equal(mask, filled, pixels);
  for (k = 0; k < pixels; ++k) set += mask[k] != 0;
  assert_int_equal(twice, 2 * set);
  free(mask);
  free(filled);
}

static void test_outlines_are_the_masks(void **state) {
  static const char *const files[] = {SAMPLE("a.png"), SAMPLE("b.png"), SAMPLE("d.jpg")};
  npuseg_sam3 *model = load_demo();
  int32_t most_rings = 0, holes = 0;
  size_t i, k;
  SIZED(npuseg_segment_options, options);
  (void)state;
  options.flags = NPUSEG_SEGMENT_SEMANTIC;
  options.threshold = 0.1f;
  for (i = 0; i < 3; ++i) {
    npuseg_image *image = open_sample(files[i]);
    npuseg_result *result = NULL;
    npuseg_result_data info;
    struct outlines found;
    MUST(npuseg_segment(model, image, "shapes", &options, &result));
    info_of(result, &info);
    width = info.width;
    height = info.height;
    assert_true(info.instances > 0);
    for (k = 0; k < info.instances + 9; ++k) {
      if (k < info.instances) {
        check_outlines(result, k, read_instance, &found);
      } else {
        check_outlines(result, k - info.instances, read_semantic, &found);
      }
      if (found.rings > most_rings) most_rings = found.rings;
      holes += found.holes;
      free(found.words);
    }
    MUST(npuseg_release(result));
    MUST(npuseg_release(image));
  }
  /* The cases were worth it: several islands, and holes. */
  assert_true(most_rings > 2);
  assert_true(holes > 0);
  MUST(npuseg_release(model));
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_outlines_are_the_masks)};
  return cmocka_run_group_tests_name("api.polygons", tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The demo model's answers against the reference implementation's (demo_expected.h).
 *
 * Bounds: the goldens hold 6 decimals of scores and 3 of boxes (half a unit each: 5e-7, 5e-4); the
 * rest is float32 arithmetic in another order of summation: measured 2.8e-6, 5.2e-4 and 0 pixels.
 * A mask may differ where a probability is within that error of the threshold. */
#include <math.h>

#include "demo_expected.h"
#include "support.h"

#define SCORE_BOUND 2e-5f
#define BOX_BOUND 5e-3f
/* Pixels that may differ, of one mask. */
#define MASK_BOUND 1

static unsigned char *fill_runs(const char *rle, size_t width, size_t height) {
  unsigned char *mask = calloc(width * height, 1); /* column-major */
  long counts[4096];
  size_t n = 0, at = 0, i;
  while (*rle != 0) {
    long value = 0;
    int shift = 0, more = 1;
    while (more) {
      const long c = *rle++ - 48;
      value |= (c & 0x1f) << shift;
      more = (c & 0x20) != 0;
      shift += 5;
      if (!more && (c & 0x10) != 0) value |= -1L * (1L << shift);
    }
    if (n > 2) value += counts[n - 2];
    assert_true(n < 4096);
    counts[n++] = value;
  }
  for (i = 0; i < n; ++i) {
    assert_true(counts[i] >= 0 && at + (size_t)counts[i] <= width * height);
    if (i % 2 == 1) memset(mask + at, 1, (size_t)counts[i]);
    at += (size_t)counts[i];
  }
  assert_int_equal(at, width * height);
  return mask;
}

static size_t count_differences(const unsigned char *a, const unsigned char *b, size_t bytes) {
  size_t i, n = 0;
  for (i = 0; i < bytes; ++i) n += a[i] != b[i];
  return n;
}

static float worst_score, worst_box;
static size_t worst_mask;

static void compare(const npuseg_result *result, const struct expected_picture *picture,
                    const struct expected_prompt *prompt) {
  npuseg_result_data info;
  npuseg_instance found[24];
  size_t count = 24;
  int i, k;
  info_of(result, &info);
  assert_int_equal(info.width, picture->width);
  assert_int_equal(info.height, picture->height);
  assert_true(fabsf(info.presence - prompt->presence) <= SCORE_BOUND);
  MUST(npuseg_result_instances(result, found, sizeof found[0], &count));
  assert_int_equal(count, prompt->count);
  for (i = 0; i < prompt->count; ++i) {
    const struct expected_instance *want = &expected_instances[prompt->first + i];
    const size_t bytes = (size_t)picture->width * picture->height;
    char *rle;
    unsigned char *mine, *theirs, *rows;
    size_t need = 0, differ, area = 0, x, y;
    worst_score = fmaxf(worst_score, fabsf(found[i].score - want->score));
    for (k = 0; k < 4; ++k) worst_box = fmaxf(worst_box, fabsf(found[i].box[k] - want->box[k]));
    MUST(npuseg_result_mask(result, (size_t)i, NPUSEG_MASK_RLE_STRING, NULL, 0, 0, &need));
    rle = malloc(need);
    MUST(npuseg_result_mask(result, (size_t)i, NPUSEG_MASK_RLE_STRING, rle, 0, need, NULL));
    mine = fill_runs(rle, picture->width, picture->height);
    theirs = fill_runs(want->rle, picture->width, picture->height);
    differ = count_differences(mine, theirs, bytes);
    if (differ > worst_mask) worst_mask = differ;
    /* The byte form is the same mask, and the area is its count. */
    rows = malloc(bytes);
    MUST(npuseg_result_mask(result, (size_t)i, NPUSEG_MASK_BYTES, rows, 0, bytes, NULL));
    for (y = 0; y < picture->height; ++y) {
      for (x = 0; x < picture->width; ++x) {
        const unsigned char value = rows[y * picture->width + x];
        assert_int_equal(value, mine[x * picture->height + y] ? 255 : 0);
        area += value != 0;
      }
    }
    assert_int_equal(found[i].area, area);
    assert_true(llabs((long long)area - (long long)want->area) <= MASK_BOUND);
    free(rle);
    free(mine);
    free(theirs);
    free(rows);
  }
}

static void test_answers_equal_the_reference(void **state) {
  npuseg_sam3 *model = load_demo();
  size_t p;
  int i;
  (void)state;
  for (p = 0; p < sizeof expected_pictures / sizeof expected_pictures[0]; ++p) {
    const struct expected_picture *picture = &expected_pictures[p];
    char path[4096];
    npuseg_image *image;
    snprintf(path, sizeof path, "%s/samples/%s", NPUSEG_DEMO_DIR, picture->file);
    image = open_sample(path);
    for (i = 0; i < picture->count; ++i) {
      const struct expected_prompt *prompt = &expected_prompts[picture->first + i];
      npuseg_result *result = NULL;
      npuseg_box box = {0, 0, 0, 0, 1};
      SIZED(npuseg_segment_options, options);
      memcpy(&box, prompt->exemplar, sizeof prompt->exemplar);
      options.boxes = &box;
      options.box_count = box.x1 > 0 ? 1 : 0;
      MUST(npuseg_segment(model, image, prompt->text, &options, &result));
      compare(result, picture, prompt);
      MUST(npuseg_release(result));
    }
    MUST(npuseg_release(image));
  }
  MUST(npuseg_release(model));
  print_message("largest differences: score %.2g, box %.2g px, mask %zu px\n", (double)worst_score,
                (double)worst_box, worst_mask);
  assert_true(worst_score <= SCORE_BOUND);
  assert_true(worst_box <= BOX_BOUND);
  assert_true(worst_mask <= MASK_BOUND);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_answers_equal_the_reference)};
  return cmocka_run_group_tests_name("api.demo", tests, NULL, NULL);
}

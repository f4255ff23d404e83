/* SPDX-License-Identifier: Apache-2.0 */
/* Exemplar boxes: they have an effect, stand for a missing text, and bad ones are refused. */
#include <math.h>

#include "support.h"

static npuseg_sam3 *model;
static npuseg_image *image;
/* The first purple square of a.png. */
static const npuseg_box good = {121.0f, 127.0f, 203.0f, 217.0f, 1};

static int set_up(void **state) {
  (void)state;
  model = load_demo();
  image = open_sample(SAMPLE("a.png"));
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  MUST(npuseg_release(model));
  MUST(npuseg_release(image));
  return 0;
}

static npuseg_status ask(const char *text, const npuseg_box *boxes, uint32_t count,
                         npuseg_result **result) {
  SIZED(npuseg_segment_options, options);
  options.boxes = boxes;
  options.box_count = count;
  *result = NULL;
  return npuseg_segment(model, image, text, &options, result);
}

static void test_no_text_is_visual(void **state) {
  npuseg_result *a, *b;
  npuseg_result_data info;
  (void)state;
  MUST(ask(NULL, &good, 1, &a));
  MUST(ask("visual", &good, 1, &b));
  info_of(b, &info);
  assert_int_equal(info.stage_runs[NPUSEG_STAGE_GEOMETRY], 1);
  assert_same_results(a, b);
  MUST(npuseg_release(a));
  MUST(npuseg_release(b));
}

static void logits_of(const npuseg_result *result, float logits[24]) {
  MUST(npuseg_result_raw(result, NPUSEG_RAW_PRED_LOGITS, logits, 24 * sizeof(float), NULL, NULL));
}

static void test_boxes_and_labels_matter(void **state) {
  npuseg_result *plain, *positive, *negative;
  float a[24], b[24], c[24];
  npuseg_box box = good;
  (void)state;
  MUST(ask("shapes", NULL, 0, &plain));
  MUST(ask("shapes", &box, 1, &positive));
  box.label = 0;
  MUST(ask("shapes", &box, 1, &negative));
  logits_of(plain, a);
  logits_of(positive, b);
  logits_of(negative, c);
  assert_memory_not_equal(a, b, sizeof a);
  assert_memory_not_equal(b, c, sizeof b);
  MUST(npuseg_release(plain));
  MUST(npuseg_release(positive));
  MUST(npuseg_release(negative));
}

static void test_refused_boxes(void **state) {
  static const npuseg_box bad[] = {
      {10, 10, 10, 20, 1},       {20, 10, 10, 20, 1},  {10, 20, 20, 10, 1},  {-10, 5, 20, 20, 1},
      {5, -10, 20, 20, 1},       {10, 10, 20, 20, 2},  {10, 10, 20, 20, -1}, {400, 10, 420, 20, 1},
      {10, 10, 20, INFINITY, 1}, {NAN, 10, 20, 20, 1},
  };
  npuseg_result *result;
  npuseg_box negative = good;
  size_t i;
  (void)state;
  for (i = 0; i < sizeof bad / sizeof bad[0]; ++i) {
    REFUSED(ask("shapes", &bad[i], 1, &result), NPUSEG_INVALID_ARGUMENT);
    assert_null(result);
  }
  negative.label = 0;
  REFUSED(ask(NULL, &negative, 1, &result), NPUSEG_INVALID_ARGUMENT);
  REFUSED(ask(NULL, NULL, 0, &result), NPUSEG_INVALID_ARGUMENT);
  REFUSED(ask("shapes", NULL, 3, &result), NPUSEG_INVALID_ARGUMENT);
}

static void test_a_box_may_leave_the_picture(void **state) {
  static const npuseg_box partly = {-20.5f, 100.0f, 80.0f, 300.0f, 1};
  npuseg_result *result;
  (void)state;
  MUST(ask("shapes", &partly, 1, &result));
  MUST(npuseg_release(result));
}

static void test_boxes_of_a_newer_program(void **state) {
  struct {
    npuseg_box box;
    uint32_t unknown;
  } grown[2];
  npuseg_box plain[2];
  npuseg_result *a = NULL, *b;
  SIZED(npuseg_segment_options, options);
  (void)state;
  memset(grown, 0, sizeof grown);
  grown[0].box = grown[1].box = good;
  grown[1].box.x0 = 150.0f;
  plain[0] = grown[0].box;
  plain[1] = grown[1].box;
  options.boxes = &grown[0].box;
  options.box_count = 2;
  options.box_bytes = (uint32_t)sizeof grown[0];
  MUST(npuseg_segment(model, image, "shapes", &options, &a));
  MUST(ask("shapes", plain, 2, &b));
  assert_same_results(a, b);
  MUST(npuseg_release(a));
  MUST(npuseg_release(b));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_no_text_is_visual),
      cmocka_unit_test(test_boxes_and_labels_matter),
      cmocka_unit_test(test_refused_boxes),
      cmocka_unit_test(test_a_box_may_leave_the_picture),
      cmocka_unit_test(test_boxes_of_a_newer_program),
  };
  return cmocka_run_group_tests_name("api.boxes", tests, set_up, tear_down);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* One script over all handle types: retain, release, any order, dead and mistyped handles. */
#include "support.h"

static void *make_model(void) { return load_demo(); }
static void *make_image(void) { return open_sample(SAMPLE("a.png")); }
static void *make_result(void) {
  npuseg_sam3 *model = load_demo();
  npuseg_image *image = open_sample(SAMPLE("a.png"));
  npuseg_result *result = NULL;
  MUST(npuseg_segment(model, image, "shapes", NULL, &result));
  /* The result needs neither any more. */
  MUST(npuseg_release(model));
  MUST(npuseg_release(image));
  return result;
}
static void *(*const makers[])(void) = {make_model, make_image, make_result};

static void test_lifecycle_of_every_handle(void **state) {
  size_t i;
  int n;
  (void)state;
  for (i = 0; i < sizeof makers / sizeof makers[0]; ++i) {
    void *handle = makers[i]();
    for (n = 0; n < 1000; ++n) MUST(npuseg_retain(handle));
    for (n = 0; n < 1001; ++n) MUST(npuseg_release(handle));
    REFUSED(npuseg_release(handle), NPUSEG_INVALID_ARGUMENT);
    REFUSED(npuseg_retain(handle), NPUSEG_INVALID_ARGUMENT);
  }
}

static void test_null_and_foreign_pointers(void **state) {
  char text[64] = "not a handle";
  (void)state;
  MUST(npuseg_release(NULL));
  REFUSED(npuseg_release(text), NPUSEG_INVALID_ARGUMENT);
  REFUSED(npuseg_retain(text), NPUSEG_INVALID_ARGUMENT);
  REFUSED(npuseg_release((void *)(uintptr_t)8), NPUSEG_INVALID_ARGUMENT);
}

static void test_handles_of_the_wrong_kind(void **state) {
  npuseg_sam3 *model = load_demo();
  npuseg_image *image = open_sample(SAMPLE("a.png"));
  npuseg_result *result = NULL;
  SIZED(npuseg_result_data, data);
  SIZED(npuseg_image_data, geometry);
  SIZED(npuseg_model_info, info);
  (void)state;
  REFUSED(npuseg_segment((npuseg_sam3 *)(void *)image, image, "cat", NULL, &result),
          NPUSEG_INVALID_ARGUMENT);
  assert_null(result);
  REFUSED(npuseg_segment(model, (npuseg_image *)(void *)model, "cat", NULL, &result),
          NPUSEG_INVALID_ARGUMENT);
  REFUSED(npuseg_result_info((npuseg_result *)(void *)image, &data), NPUSEG_INVALID_ARGUMENT);
  REFUSED(npuseg_image_info((npuseg_image *)(void *)model, &geometry), NPUSEG_INVALID_ARGUMENT);
  REFUSED(npuseg_sam3_info((npuseg_sam3 *)(void *)image, &info), NPUSEG_INVALID_ARGUMENT);
  MUST(npuseg_release(image));
  REFUSED(npuseg_segment(model, image, "cat", NULL, &result), NPUSEG_INVALID_ARGUMENT);
  MUST(npuseg_release(model));
  REFUSED(npuseg_sam3_info(model, &info), NPUSEG_INVALID_ARGUMENT);
}

static void test_any_order_of_release(void **state) {
  static const int orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
                                   {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
  size_t i, k;
  (void)state;
  for (i = 0; i < 6; ++i) {
    npuseg_sam3 *model = load_demo();
    npuseg_image *image = open_sample(SAMPLE("b.png"));
    npuseg_result *result = NULL;
    void *handles[3];
    MUST(npuseg_segment(model, image, "circle", NULL, &result));
    handles[0] = model;
    handles[1] = image;
    handles[2] = result;
    for (k = 0; k < 3; ++k) MUST(npuseg_release(handles[orders[i][k]]));
  }
}

static void test_a_picture_outlives_its_model(void **state) {
  npuseg_sam3 *first = load_demo();
  npuseg_image *image = open_sample(SAMPLE("a.png"));
  npuseg_sam3 *second;
  npuseg_result *a = NULL, *b = NULL;
  (void)state;
  MUST(npuseg_segment(first, image, "shapes", NULL, &a));
  MUST(npuseg_release(first));
  second = load_demo(); /* maybe at the same address: its features must not be taken for it */
  MUST(npuseg_segment(second, image, "shapes", NULL, &b));
  assert_same_results(a, b);
  MUST(npuseg_release(a));
  MUST(npuseg_release(b));
  MUST(npuseg_release(second));
  MUST(npuseg_release(image));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_lifecycle_of_every_handle),
      cmocka_unit_test(test_null_and_foreign_pointers),
      cmocka_unit_test(test_handles_of_the_wrong_kind),
      cmocka_unit_test(test_any_order_of_release),
      cmocka_unit_test(test_a_picture_outlives_its_model),
  };
  return cmocka_run_group_tests_name("api.lifecycle", tests, NULL, NULL);
}

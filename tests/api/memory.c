/* SPDX-License-Identifier: Apache-2.0 */
/* Limits are refusals, and repeated calls do not grow the process. */
#include "support.h"

#if defined(__SANITIZE_ADDRESS__)
/* The address sanitizer keeps freed memory for a while, but counts what is in use; GCC does not
 * ship the header that declares it. */
size_t __sanitizer_get_current_allocated_bytes(void);

static long held_kib(void) { return (long)(__sanitizer_get_current_allocated_bytes() / 1024); }
#else
static long held_kib(void) {
  FILE *file = fopen("/proc/self/statm", "r");
  long pages = 0, resident = 0;
  if (file == NULL) return 0;
  if (fscanf(file, "%ld %ld", &pages, &resident) != 2) resident = 0;
  fclose(file);
  return resident * 4;
}
#endif

static void test_memory_limit(void **state) {
  npuseg_image *image = open_sample(SAMPLE("a.png"));
  uint64_t limit;
  int refused = 0, passed = 0;
  (void)state;
  for (limit = 4096; limit <= UINT64_C(1) << 30; limit *= 4) {
    npuseg_sam3 *model = NULL;
    npuseg_result *result = NULL;
    npuseg_status status;
    SIZED(npuseg_model_options, options);
    options.memory_limit = limit;
    status = npuseg_sam3_load(NPUSEG_DEMO_DIR, &options, &model);
    if (status == NPUSEG_OK) {
      SIZED(npuseg_counters, counters);
      status = npuseg_segment(model, image, "shapes", NULL, &result);
      MUST(npuseg_sam3_counters(model, &counters));
      assert_true(counters.memory_peak <= limit);
    }
    if (status == NPUSEG_OK) {
      ++passed;
    } else {
      assert_int_equal(status, NPUSEG_LIMIT_EXCEEDED);
      assert_null(result);
      assert_int_equal(passed, 0); /* more memory never makes it worse */
      ++refused;
    }
    MUST(npuseg_release(result));
    MUST(npuseg_release(model));
  }
  assert_true(refused > 0);
  assert_true(passed > 0);
  MUST(npuseg_release(image));
}

static void test_repeated_calls_do_not_grow(void **state) {
  npuseg_sam3 *model = load_demo();
  npuseg_image *image = open_sample(SAMPLE("a.png"));
  long early = 0;
  int i;
  (void)state;
  for (i = 0; i < 200; ++i) {
    npuseg_result *result = NULL;
    MUST(npuseg_segment(model, image, i % 2 ? "shapes" : "circle", NULL, &result));
    MUST(npuseg_release(result));
    if (i == 19) early = held_kib();
  }
  /* 2 MiB of slack for the allocator; one call's working set would be far more 180 times over. */
  assert_true(held_kib() - early < 2048);
  MUST(npuseg_release(image));
  MUST(npuseg_release(model));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_memory_limit),
      cmocka_unit_test(test_repeated_calls_do_not_grow),
  };
  return cmocka_run_group_tests_name("api.memory", tests, NULL, NULL);
}

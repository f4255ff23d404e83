/* SPDX-License-Identifier: Apache-2.0 */
/* What is computed once, and how a running call is stopped. */
#include <time.h>

#include "support.h"

static void runs_of(const npuseg_sam3 *model, uint64_t runs[NPUSEG_STAGE_COUNT]) {
  SIZED(npuseg_counters, counters);
  MUST(npuseg_sam3_counters(model, &counters));
  memcpy(runs, counters.runs, sizeof counters.runs);
}

static void test_features_are_computed_once(void **state) {
  npuseg_sam3 *model = load_demo();
  npuseg_image *first = open_sample(SAMPLE("a.png"));
  npuseg_image *second = open_sample(SAMPLE("b.png"));
  npuseg_result *result = NULL;
  npuseg_result_data info;
  uint64_t runs[NPUSEG_STAGE_COUNT];
  (void)state;
  MUST(npuseg_segment(model, first, "circle", NULL, &result));
  MUST(npuseg_release(result));
  MUST(npuseg_segment(model, first, "square", NULL, &result));
  info_of(result, &info);
  assert_int_equal(info.stage_runs[NPUSEG_STAGE_VIT], 0);
  assert_int_equal(info.stage_runs[NPUSEG_STAGE_TEXT], 1);
  MUST(npuseg_release(result));
  runs_of(model, runs);
  assert_int_equal(runs[NPUSEG_STAGE_VIT], 1);
  assert_int_equal(runs[NPUSEG_STAGE_NECK], 1);
  assert_int_equal(runs[NPUSEG_STAGE_TEXT], 2);
  MUST(npuseg_segment(model, second, "circle", NULL, &result));
  info_of(result, &info);
  assert_int_equal(info.stage_runs[NPUSEG_STAGE_VIT], 1);
  assert_int_equal(info.stage_runs[NPUSEG_STAGE_TEXT], 0);
  MUST(npuseg_release(result));
  runs_of(model, runs);
  assert_int_equal(runs[NPUSEG_STAGE_VIT], 2);
  assert_int_equal(runs[NPUSEG_STAGE_TEXT], 2);
  assert_int_equal(runs[NPUSEG_STAGE_GEOMETRY], 0);
  MUST(npuseg_image_forget(first));
  MUST(npuseg_image_prepare(first, model, NULL));
  runs_of(model, runs);
  assert_int_equal(runs[NPUSEG_STAGE_VIT], 3);
  MUST(npuseg_image_prepare(first, model, NULL));
  runs_of(model, runs);
  assert_int_equal(runs[NPUSEG_STAGE_VIT], 3);
  MUST(npuseg_release(first));
  MUST(npuseg_release(second));
  MUST(npuseg_release(model));
}

/* Features that do not fit are computed again, everything else stays the same. */
static void test_feature_budgets(void **state) {
  npuseg_image *images[3];
  npuseg_result *result = NULL, *expected = NULL;
  npuseg_sam3 *model = load_demo();
  uint64_t runs[NPUSEG_STAGE_COUNT], one_image, one_prompt, idle;
  int i;
  SIZED(npuseg_counters, counters);
  SIZED(npuseg_image_data, data);
  SIZED(npuseg_model_options, options);
  (void)state;
  images[0] = open_sample(SAMPLE("a.png"));
  images[1] = open_sample(SAMPLE("b.png"));
  images[2] = open_sample(SAMPLE("c.png"));
  MUST(npuseg_sam3_counters(model, &counters));
  idle = counters.memory_used;
  assert_int_equal(counters.image_cache_bytes, 0);
  MUST(npuseg_segment(model, images[0], "shapes", NULL, &expected));
  MUST(npuseg_sam3_counters(model, &counters));
  one_image = counters.image_cache_bytes;
  one_prompt = counters.prompt_cache_bytes;
  assert_true(one_image > 1000);
  assert_true(one_prompt > 100);
  assert_true(counters.memory_used >= idle + one_image);
  MUST(npuseg_image_info(images[0], &data));
  assert_int_equal(data.feature_bytes, one_image);
  MUST(npuseg_image_forget(images[0]));
  MUST(npuseg_image_info(images[0], &data));
  assert_int_equal(data.feature_bytes, 0);
  MUST(npuseg_sam3_counters(model, &counters));
  assert_int_equal(counters.image_cache_bytes, 0);
  MUST(npuseg_image_prepare(images[0], model, NULL));
  MUST(npuseg_release(model)); /* takes its features along */
  MUST(npuseg_image_info(images[0], &data));
  assert_int_equal(data.feature_bytes, 0);

  /* Nothing is kept. */
  options.image_cache_bytes = 1;
  options.prompt_cache_bytes = 1;
  MUST(npuseg_sam3_load(NPUSEG_DEMO_DIR, &options, &model));
  MUST(npuseg_image_prepare(images[0], model, NULL));
  for (i = 0; i < 2; ++i) {
    MUST(npuseg_segment(model, images[0], "shapes", NULL, &result));
    assert_same_results(result, expected);
    MUST(npuseg_release(result));
  }
  runs_of(model, runs);
  assert_int_equal(runs[NPUSEG_STAGE_VIT], 3);
  assert_int_equal(runs[NPUSEG_STAGE_TEXT], 2);
  MUST(npuseg_sam3_counters(model, &counters));
  assert_int_equal(counters.image_cache_bytes, 0);
  assert_int_equal(counters.prompt_cache_bytes, 0);
  assert_int_equal(counters.prompt_cache_hits, 0);
  assert_int_equal(counters.memory_used, idle);
  MUST(npuseg_image_info(images[0], &data));
  assert_int_equal(data.feature_bytes, 0);
  MUST(npuseg_release(model));

  /* Room for two pictures and two prompts. */
  options.image_cache_bytes = 2 * one_image;
  options.prompt_cache_entries = 2;
  options.prompt_cache_bytes = NPUSEG_UNLIMITED;
  MUST(npuseg_sam3_load(NPUSEG_DEMO_DIR, &options, &model));
  for (i = 0; i < 3; ++i) MUST(npuseg_image_prepare(images[i], model, NULL));
  MUST(npuseg_sam3_counters(model, &counters));
  assert_int_equal(counters.image_cache_bytes, 2 * one_image);
  assert_int_equal(counters.memory_used, idle + 2 * one_image);
  MUST(npuseg_image_prepare(images[1], model, NULL)); /* kept, and now newer than the third */
  runs_of(model, runs);
  assert_int_equal(runs[NPUSEG_STAGE_VIT], 3);
  MUST(npuseg_image_prepare(images[0], model, NULL)); /* gone; the third makes room */
  MUST(npuseg_image_prepare(images[1], model, NULL));
  runs_of(model, runs);
  assert_int_equal(runs[NPUSEG_STAGE_VIT], 4);
  MUST(npuseg_image_info(images[2], &data));
  assert_int_equal(data.feature_bytes, 0);
  MUST(npuseg_release(images[1])); /* a picture takes its features along */
  MUST(npuseg_sam3_counters(model, &counters));
  assert_int_equal(counters.image_cache_bytes, one_image);
  for (i = 0; i < 6; ++i) {
    static const char *const prompts[] = {"circle", "square", "circle", "star", "circle", "square"};
    MUST(npuseg_segment(model, images[0], prompts[i], NULL, &result));
    MUST(npuseg_release(result));
  }
  runs_of(model, runs);
  assert_int_equal(runs[NPUSEG_STAGE_VIT], 4);
  assert_int_equal(runs[NPUSEG_STAGE_TEXT], 4);
  MUST(npuseg_release(model));

  /* The bytes of one prompt: the same prompt again is a hit, another one replaces it. */
  options.prompt_cache_entries = 0;
  options.prompt_cache_bytes = one_prompt;
  MUST(npuseg_sam3_load(NPUSEG_DEMO_DIR, &options, &model));
  for (i = 0; i < 4; ++i) {
    MUST(npuseg_segment(model, images[0], i < 2 ? "shapes" : "circle", NULL, &result));
    MUST(npuseg_release(result));
    MUST(npuseg_sam3_counters(model, &counters));
    assert_true(counters.prompt_cache_bytes <= one_prompt);
  }
  runs_of(model, runs);
  assert_true(counters.prompt_cache_hits >= 1);
  assert_int_equal(runs[NPUSEG_STAGE_TEXT] + counters.prompt_cache_hits, 4);
  MUST(npuseg_release(model));
  MUST(npuseg_release(expected));
  MUST(npuseg_release(images[0]));
  MUST(npuseg_release(images[2]));
}

/* Features of pictures that are still open must not make memory_limit refuse the next picture. */
static void test_kept_features_give_way(void **state) {
  npuseg_image *images[8];
  npuseg_sam3 *model = NULL;
  npuseg_result *result = NULL;
  int i;
  SIZED(npuseg_counters, counters);
  SIZED(npuseg_model_options, options);
  (void)state;
  model = load_demo();
  for (i = 0; i < 8; ++i) images[i] = open_sample(i % 2 ? SAMPLE("a.png") : SAMPLE("b.png"));
  MUST(npuseg_segment(model, images[0], "shapes", NULL, &result));
  MUST(npuseg_release(result));
  MUST(npuseg_sam3_counters(model, &counters));
  MUST(npuseg_release(model));
  options.memory_limit = counters.memory_peak + counters.image_cache_bytes;
  MUST(npuseg_sam3_load(NPUSEG_DEMO_DIR, &options, &model));
  for (i = 0; i < 8; ++i) {
    MUST(npuseg_segment(model, images[i], "shapes", NULL, &result));
    MUST(npuseg_release(result));
  }
  MUST(npuseg_sam3_counters(model, &counters));
  assert_true(counters.memory_peak <= options.memory_limit);
  for (i = 0; i < 8; ++i) MUST(npuseg_release(images[i]));
  MUST(npuseg_release(model));
}

struct watcher {
  uint32_t stop_at; /* stage; 0: never */
  int calls;
  int after_stop;
  int32_t answer;
};

static int32_t watch(void *user, uint32_t stage, uint64_t done, uint64_t total) {
  struct watcher *watcher = user;
  (void)done;
  (void)total;
  watcher->calls++;
  if (watcher->answer != 0) watcher->after_stop++;
  if (watcher->stop_at != 0 && stage == watcher->stop_at) watcher->answer = 77;
  return watcher->answer;
}

static double seconds(void) {
  struct timespec now;
  timespec_get(&now, TIME_UTC);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void test_cancel_from_the_progress_callback(void **state) {
  static const uint32_t stages[] = {NPUSEG_STAGE_PREPROCESS,   NPUSEG_STAGE_VIT,
                                    NPUSEG_STAGE_TEXT,         NPUSEG_STAGE_DETR_ENCODER,
                                    NPUSEG_STAGE_DETR_DECODER, NPUSEG_STAGE_MASK_DECODER};
  npuseg_sam3 *model = load_demo();
  npuseg_image *fresh = open_sample(SAMPLE("a.png"));
  npuseg_result *expected = NULL, *after = NULL;
  size_t i;
  (void)state;
  MUST(npuseg_segment(model, fresh, "shapes", NULL, &expected));
  MUST(npuseg_release(model));
  MUST(npuseg_release(fresh));
  for (i = 0; i < sizeof stages / sizeof stages[0]; ++i) {
    struct watcher watcher = {0, 0, 0, 0};
    npuseg_result *result = NULL;
    double begin;
    SIZED(npuseg_segment_options, options);
    SIZED(npuseg_error_info, error);
    model = load_demo();
    fresh = open_sample(SAMPLE("a.png"));
    watcher.stop_at = stages[i];
    options.progress = watch;
    options.progress_user = &watcher;
    begin = seconds();
    assert_int_equal(npuseg_segment(model, fresh, "shapes", &options, &result), NPUSEG_CANCELLED);
    assert_true(seconds() - begin < 5.0);
    assert_null(result);
    assert_int_equal(watcher.after_stop, 0);
    MUST(npuseg_last_error_info(&error));
    assert_int_equal(error.os_error, 77);
    /* A stopped call leaves nothing half made. */
    MUST(npuseg_segment(model, fresh, "shapes", NULL, &after));
    assert_same_results(expected, after);
    MUST(npuseg_release(after));
    MUST(npuseg_release(fresh));
    MUST(npuseg_release(model));
  }
  MUST(npuseg_release(expected));
}

static void test_progress_names_stages_and_ends_with_the_call(void **state) {
  npuseg_sam3 *model = load_demo();
  npuseg_image *image = open_sample(SAMPLE("c.png"));
  npuseg_result *result = NULL;
  struct watcher watcher = {0, 0, 0, 0};
  int calls;
  SIZED(npuseg_segment_options, options);
  (void)state;
  options.progress = watch;
  options.progress_user = &watcher;
  MUST(npuseg_segment(model, image, "star", &options, &result));
  calls = watcher.calls;
  assert_true(calls >= 5);
  MUST(npuseg_release(result));
  MUST(npuseg_segment(model, image, "star", NULL, &result));
  assert_int_equal(watcher.calls, calls);
  MUST(npuseg_release(result));
  MUST(npuseg_release(image));
  MUST(npuseg_release(model));
}

static void test_deadline(void **state) {
  npuseg_sam3 *model = load_demo();
  npuseg_image *image = open_sample(SAMPLE("a.png"));
  npuseg_result *result = NULL;
  SIZED(npuseg_segment_options, options);
  (void)state;
  options.deadline_nanoseconds = 1;
  REFUSED(npuseg_segment(model, image, "shapes", &options, &result), NPUSEG_TIMEOUT);
  assert_null(result);
  options.deadline_nanoseconds = UINT64_C(600000000000);
  MUST(npuseg_segment(model, image, "shapes", &options, &result));
  MUST(npuseg_release(result));
  options.deadline_nanoseconds = UINT64_MAX;
  MUST(npuseg_segment(model, image, "shapes", &options, &result));
  MUST(npuseg_release(result));
  MUST(npuseg_release(image));
  MUST(npuseg_release(model));
}

static void test_long_prompts(void **state) {
  npuseg_sam3 *model = load_demo();
  npuseg_image *image = open_sample(SAMPLE("a.png"));
  npuseg_result *result = NULL;
  npuseg_result_data info;
  char text[4001];
  size_t i;
  SIZED(npuseg_segment_options, options);
  (void)state;
  for (i = 0; i < 4000; i += 4) memcpy(text + i, "red ", 4);
  text[4000] = 0;
  REFUSED(npuseg_segment(model, image, text, NULL, &result), NPUSEG_LIMIT_EXCEEDED);
  options.flags = NPUSEG_SEGMENT_TRUNCATE_PROMPT;
  MUST(npuseg_segment(model, image, text, &options, &result));
  info_of(result, &info);
  assert_int_equal(info.tokens, 32);
  assert_true(info.tokens_dropped > 0);
  MUST(npuseg_release(result));
  REFUSED(npuseg_segment_text(model, image, "\xff\xfe", 2, NULL, &result), NPUSEG_INVALID_ARGUMENT);
  MUST(npuseg_segment_text(model, image, "circles", 6, NULL, &result));
  MUST(npuseg_release(result));
  MUST(npuseg_segment(model, image, "", NULL, &result));
  MUST(npuseg_release(result));
  MUST(npuseg_release(image));
  MUST(npuseg_release(model));
}

static void test_thresholds_and_counts(void **state) {
  npuseg_sam3 *model = load_demo();
  npuseg_image *image = open_sample(SAMPLE("a.png"));
  npuseg_result *result = NULL;
  npuseg_result_data info;
  npuseg_instance found[24];
  size_t i, count = 24;
  SIZED(npuseg_segment_options, options);
  (void)state;
  options.threshold = -1.0f;
  MUST(npuseg_segment(model, image, "shapes", &options, &result));
  info_of(result, &info);
  assert_int_equal(info.instances, 24);
  MUST(npuseg_result_instances(result, found, sizeof found[0], &count));
  for (i = 1; i < count; ++i) {
    assert_true(found[i - 1].score > found[i].score ||
                (found[i - 1].score == found[i].score && found[i - 1].query < found[i].query));
  }
  MUST(npuseg_release(result));
  options.max_instances = 2;
  MUST(npuseg_segment(model, image, "shapes", &options, &result));
  info_of(result, &info);
  assert_int_equal(info.instances, 2);
  MUST(npuseg_release(result));
  options.threshold = 1.0f;
  MUST(npuseg_segment(model, image, "shapes", &options, &result));
  info_of(result, &info);
  assert_int_equal(info.instances, 0);
  count = 0;
  MUST(npuseg_result_instances(result, NULL, sizeof found[0], &count));
  assert_int_equal(count, 0);
  assert_int_not_equal(npuseg_result_mask(result, 0, NPUSEG_MASK_BYTES, NULL, 0, 0, &count),
                       NPUSEG_OK);
  MUST(npuseg_release(result));
  MUST(npuseg_release(image));
  MUST(npuseg_release(model));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_features_are_computed_once),
      cmocka_unit_test(test_feature_budgets),
      cmocka_unit_test(test_kept_features_give_way),
      cmocka_unit_test(test_cancel_from_the_progress_callback),
      cmocka_unit_test(test_progress_names_stages_and_ends_with_the_call),
      cmocka_unit_test(test_deadline),
      cmocka_unit_test(test_long_prompts),
      cmocka_unit_test(test_thresholds_and_counts),
  };
  return cmocka_run_group_tests_name("api.stages", tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* NULL everywhere, structs of other sizes, short buffers, names. */
#include "support.h"

static npuseg_sam3 *model;
static npuseg_image *image;
static npuseg_result *result;

static int set_up(void **state) {
  SIZED(npuseg_segment_options, options);
  (void)state;
  options.flags = NPUSEG_SEGMENT_SEMANTIC;
  model = load_demo();
  image = open_sample(SAMPLE("a.png"));
  MUST(npuseg_segment(model, image, "shapes", &options, &result));
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  MUST(npuseg_release(model));
  MUST(npuseg_release(image));
  MUST(npuseg_release(result));
  return 0;
}

static void test_null_everywhere(void **state) {
  npuseg_sam3 *new_model = NULL;
  npuseg_image *new_image = NULL;
  npuseg_result *new_result = NULL;
  unsigned char byte = 0;
  size_t count = 1;
  (void)state;
  REFUSED(npuseg_last_error_info(NULL) == NPUSEG_OK ? NPUSEG_OK : NPUSEG_INVALID_ARGUMENT,
          NPUSEG_INVALID_ARGUMENT);
  REFUSED(npuseg_device_count(NULL), NPUSEG_INVALID_ARGUMENT);
  REFUSED(npuseg_device_at(0, NULL), NPUSEG_INVALID_ARGUMENT);
  REFUSED(npuseg_sam3_load(NULL, NULL, &new_model), NPUSEG_INVALID_ARGUMENT);
  REFUSED(npuseg_sam3_load(NPUSEG_DEMO_DIR, NULL, NULL), NPUSEG_INVALID_ARGUMENT);
  REFUSED(npuseg_sam3_probe(NULL, NULL), NPUSEG_INVALID_ARGUMENT);
  REFUSED(npuseg_sam3_info(NULL, NULL), NPUSEG_INVALID_ARGUMENT);
  REFUSED(npuseg_sam3_info(model, NULL), NPUSEG_INVALID_ARGUMENT);
  REFUSED(npuseg_sam3_counters(model, NULL), NPUSEG_INVALID_ARGUMENT);
  REFUSED(npuseg_image_open(NULL, NULL, &new_image), NPUSEG_INVALID_ARGUMENT);
  REFUSED(npuseg_image_open("", NULL, &new_image), NPUSEG_INVALID_ARGUMENT);
  REFUSED(npuseg_sam3_load("", NULL, &new_model), NPUSEG_INVALID_ARGUMENT);
  REFUSED(npuseg_image_open(SAMPLE("a.png"), NULL, NULL), NPUSEG_INVALID_ARGUMENT);
  REFUSED(npuseg_image_from_memory(NULL, 4, NULL, &new_image), NPUSEG_INVALID_ARGUMENT);
  REFUSED(npuseg_image_from_pixels(NULL, NULL, &new_image), NPUSEG_INVALID_ARGUMENT);
  REFUSED(npuseg_image_info(image, NULL), NPUSEG_INVALID_ARGUMENT);
  REFUSED(npuseg_image_pixels(NULL, &byte, 0, 1, NULL), NPUSEG_INVALID_ARGUMENT);
  REFUSED(npuseg_image_prepare(NULL, model, NULL), NPUSEG_INVALID_ARGUMENT);
  REFUSED(npuseg_image_prepare(image, NULL, NULL), NPUSEG_INVALID_ARGUMENT);
  REFUSED(npuseg_image_forget(NULL), NPUSEG_INVALID_ARGUMENT);
  REFUSED(npuseg_segment(NULL, image, "cat", NULL, &new_result), NPUSEG_INVALID_ARGUMENT);
  REFUSED(npuseg_segment(model, NULL, "cat", NULL, &new_result), NPUSEG_INVALID_ARGUMENT);
  REFUSED(npuseg_segment(model, image, NULL, NULL, &new_result), NPUSEG_INVALID_ARGUMENT);
  REFUSED(npuseg_segment(model, image, "cat", NULL, NULL), NPUSEG_INVALID_ARGUMENT);
  REFUSED(npuseg_result_info(result, NULL), NPUSEG_INVALID_ARGUMENT);
  REFUSED(npuseg_result_instances(result, NULL, sizeof(npuseg_instance), NULL),
          NPUSEG_INVALID_ARGUMENT);
  REFUSED(npuseg_result_instances(NULL, NULL, sizeof(npuseg_instance), &count),
          NPUSEG_INVALID_ARGUMENT);
  REFUSED(npuseg_result_draw(result, NULL, 0, NULL, 0, 0), NPUSEG_INVALID_ARGUMENT);
  REFUSED(npuseg_write_png(NULL, NPUSEG_FORMAT_GREY, 1, 1, &byte, 0, 1), NPUSEG_INVALID_ARGUMENT);
  assert_null(new_model);
  assert_null(new_image);
  assert_null(new_result);
}

struct long_options {
  npuseg_segment_options known;
  unsigned char unknown[16];
};

static void test_structs_of_other_sizes(void **state) {
  npuseg_result *answer = NULL;
  struct long_options grown;
  struct {
    npuseg_result_data known;
    unsigned char unknown[16];
  } out;
  (void)state;
  /* A newer program: fine while the unknown part is zero. */
  memset(&grown, 0, sizeof grown);
  grown.known.struct_size = (uint32_t)sizeof grown;
  MUST(npuseg_segment(model, image, "shapes", &grown.known, &answer));
  MUST(npuseg_release(answer));
  answer = NULL;
  grown.unknown[15] = 1;
  REFUSED(npuseg_segment(model, image, "shapes", &grown.known, &answer), NPUSEG_UNSUPPORTED);
  assert_null(answer);
  /* Output: at most the caller's size is written, unknown parts become zero. */
  memset(&out, 0xff, sizeof out);
  out.known.struct_size = (uint32_t)sizeof out;
  MUST(npuseg_result_info(result, &out.known));
  assert_int_equal(out.unknown[0] | out.unknown[15], 0);
}

static void test_short_buffers_write_nothing(void **state) {
  static const uint32_t kinds[] = {NPUSEG_MASK_BYTES, NPUSEG_MASK_PROBABILITIES,
                                   NPUSEG_MASK_RLE_STRING, NPUSEG_MASK_RLE_COUNTS,
                                   NPUSEG_MASK_POLYGONS};
  npuseg_instance one[1];
  size_t i, k, count = 0, need = 0;
  unsigned char *buffer;
  (void)state;
  MUST(npuseg_result_instances(result, NULL, sizeof one[0], &count));
  assert_true(count >= 2);
  memset(one, 0x5a, sizeof one);
  k = 1;
  assert_int_equal(npuseg_result_instances(result, one, sizeof one[0], &k),
                   NPUSEG_BUFFER_TOO_SMALL);
  assert_int_equal(k, count);
  assert_int_equal(one[0].query, 0x5a5a5a5a);
  for (i = 0; i < sizeof kinds / sizeof kinds[0]; ++i) {
    MUST(npuseg_result_mask(result, 0, kinds[i], NULL, 0, 0, &need));
    assert_true(need > 4);
    buffer = malloc(need);
    memset(buffer, 0x5a, need);
    assert_int_equal(npuseg_result_mask(result, 0, kinds[i], buffer, 0, need - 1, NULL),
                     NPUSEG_BUFFER_TOO_SMALL);
    for (k = 0; k < need; ++k) assert_int_equal(buffer[k], 0x5a);
    MUST(npuseg_result_mask(result, 0, kinds[i], buffer, 0, need, NULL));
    MUST(npuseg_result_semantic(result, 0, kinds[i], NULL, 0, 0, &need));
    free(buffer);
  }
  assert_int_not_equal(npuseg_result_mask(result, count, NPUSEG_MASK_BYTES, NULL, 0, 0, &need),
                       NPUSEG_OK);
  REFUSED(npuseg_result_mask(result, 0, 99, NULL, 0, 0, &need), NPUSEG_INVALID_ARGUMENT);
  REFUSED(npuseg_result_mask(result, 0, NPUSEG_MASK_BYTES, NULL, 319, 0, &need),
          NPUSEG_INVALID_ARGUMENT);
}

static void test_raw_values(void **state) {
  uint64_t shape[4];
  size_t need = 0;
  npuseg_result *plain = NULL;
  int64_t *ids;
  float *semantic;
  npuseg_result_data info;
  (void)state;
  info_of(result, &info);
  MUST(npuseg_result_raw(result, NPUSEG_RAW_PRED_BOXES, NULL, 0, &need, shape));
  assert_int_equal(need, info.queries * 4 * sizeof(float));
  assert_int_equal(shape[0], info.queries);
  assert_int_equal(shape[1], 4);
  assert_int_equal(shape[2], 0);
  MUST(npuseg_result_raw(result, NPUSEG_RAW_INPUT_IDS, NULL, 0, &need, shape));
  assert_int_equal(need, 32 * sizeof(int64_t));
  ids = malloc(need);
  MUST(npuseg_result_raw(result, NPUSEG_RAW_INPUT_IDS, ids, need, NULL, NULL));
  assert_int_equal(ids[0], 605);  /* begin mark of the demo's vocabulary */
  assert_int_equal(ids[31], 606); /* padding */
  free(ids);
  REFUSED(npuseg_result_raw(result, NPUSEG_RAW_PRED_MASKS, NULL, 0, &need, NULL),
          NPUSEG_WRONG_STATE);
  MUST(npuseg_result_raw(result, NPUSEG_RAW_SEMANTIC_SEG, NULL, 0, &need, shape));
  assert_int_equal(need, (size_t)info.mask_side * info.mask_side * sizeof(float));
  semantic = malloc(need);
  MUST(npuseg_result_raw(result, NPUSEG_RAW_SEMANTIC_SEG, semantic, need, NULL, NULL));
  free(semantic);
  MUST(npuseg_segment(model, image, "shapes", NULL, &plain));
  REFUSED(npuseg_result_raw(plain, NPUSEG_RAW_SEMANTIC_SEG, NULL, 0, &need, NULL),
          NPUSEG_WRONG_STATE);
  REFUSED(npuseg_result_semantic(plain, 0, NPUSEG_MASK_BYTES, NULL, 0, 0, &need),
          NPUSEG_WRONG_STATE);
  MUST(npuseg_release(plain));
}

static void test_names_and_devices(void **state) {
  uint32_t count = 0, i;
  npuseg_sam3 *none = NULL;
  static const char *const npus[] = {"soft", "soft:faithful", "xrt", "xrt:0", "amdxdna:1"};
  SIZED(npuseg_model_options, options);
  (void)state;
  assert_string_equal(npuseg_version_string(), "0.1.0");
  assert_int_equal(npuseg_version(), 1 << 8);
  assert_string_equal(npuseg_status_name(NPUSEG_NOT_FOUND), "NOT_FOUND");
  assert_string_equal(npuseg_status_name(-7), "UNKNOWN");
  assert_true(strlen(npuseg_build_info()) > 4);
  MUST(npuseg_device_count(&count));
  assert_true(count >= 1);
  for (i = 0; i < count; ++i) {
    SIZED(npuseg_device_info, device);
    MUST(npuseg_device_at(i, &device));
    assert_true(strlen(device.name) > 0);
    assert_true(strlen(device.reason) > 0);
    /* The software NPU needs no hardware either. */
    assert_int_equal(device.usable,
                     strcmp(device.name, "cpu") == 0 || strcmp(device.name, "soft") == 0);
    assert_int_equal(strlen(device.remedy) == 0, device.usable);
  }
  for (i = 0; i < sizeof npus / sizeof *npus; ++i) {
    options.device = npus[i];
    REFUSED(npuseg_sam3_load(NPUSEG_DEMO_DIR, &options, &none), NPUSEG_DEVICE_UNAVAILABLE);
  }
  options.device = "gpu";
  assert_int_not_equal(npuseg_sam3_load(NPUSEG_DEMO_DIR, &options, &none), NPUSEG_OK);
  options.device = "cpu";
  for (i = NPUSEG_PRECISION_BF16; i <= NPUSEG_PRECISION_INT8; ++i) {
    options.precision = i;
    REFUSED(npuseg_sam3_load(NPUSEG_DEMO_DIR, &options, &none), NPUSEG_UNSUPPORTED);
    assert_non_null(strstr(npuseg_last_error(), i == NPUSEG_PRECISION_BF16 ? "bf16" : "int8"));
    assert_non_null(strstr(npuseg_last_error(), "cpu"));
    /* What the directory lacks comes first. */
    REFUSED(npuseg_sam3_load("/nonexistent", &options, &none), NPUSEG_NOT_FOUND);
  }
  options.precision = NPUSEG_PRECISION_INT8 + 1;
  REFUSED(npuseg_sam3_load(NPUSEG_DEMO_DIR, &options, &none), NPUSEG_INVALID_ARGUMENT);
  REFUSED(npuseg_sam3_load("/nonexistent", NULL, &none), NPUSEG_NOT_FOUND);
  assert_null(none);
}

static void test_text_that_is_no_utf8(void **state) {
  static const char *const bad[] = {"\xff", "cat\x80", "\xed\xa0\x80", "\xc0\xaf", "a\xe2\x82"};
  static const char *const good[] = {"\xef\xbf\xbd", "cat\xef\xbf\xbd",
                                     "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd",
                                     "\xef\xbf\xbd\xef\xbf\xbd", "a\xef\xbf\xbd"};
  npuseg_result *made = NULL, *expected = NULL;
  int64_t ids[2][32];
  size_t i;
  SIZED(npuseg_segment_options, options);
  (void)state;
  for (i = 0; i < sizeof bad / sizeof bad[0]; ++i) {
    options.flags = 0;
    REFUSED(npuseg_segment(model, image, bad[i], &options, &made), NPUSEG_INVALID_ARGUMENT);
    REFUSED(npuseg_segment_text(model, image, bad[i], strlen(bad[i]), NULL, &made),
            NPUSEG_INVALID_ARGUMENT);
    assert_null(made);
    options.flags = NPUSEG_SEGMENT_REPLACE_INVALID_UTF8;
    MUST(npuseg_segment(model, image, bad[i], &options, &made));
    MUST(npuseg_segment(model, image, good[i], NULL, &expected));
    assert_same_results(made, expected);
    MUST(npuseg_result_raw(made, NPUSEG_RAW_INPUT_IDS, ids[0], sizeof ids[0], NULL, NULL));
    MUST(npuseg_result_raw(expected, NPUSEG_RAW_INPUT_IDS, ids[1], sizeof ids[1], NULL, NULL));
    assert_memory_equal(ids[0], ids[1], sizeof ids[0]);
    MUST(npuseg_release(made));
    MUST(npuseg_release(expected));
    made = NULL;
  }
}

static void test_probe_equals_info(void **state) {
  SIZED(npuseg_model_info, probed);
  SIZED(npuseg_model_info, loaded);
  (void)state;
  MUST(npuseg_sam3_probe(NPUSEG_DEMO_DIR, &probed));
  MUST(npuseg_sam3_info(model, &loaded));
  assert_int_equal(probed.image_side, 168);
  assert_int_equal(probed.mask_side, 48);
  assert_int_equal(probed.queries, 24);
  assert_int_equal(probed.max_tokens, 32);
  assert_int_equal(loaded.image_side, probed.image_side);
  assert_int_equal(loaded.queries, probed.queries);
  assert_string_equal(loaded.kind, "sam3");
  assert_string_equal(loaded.device_used, "cpu");
  assert_true(strlen(loaded.device_why) > 0);
  /* A probe counts every stored tensor, also the few that the model does not use. */
  assert_true(loaded.weight_bytes <= probed.weight_bytes);
  assert_true(loaded.parameters <= probed.parameters);
  assert_true(loaded.parameters > probed.parameters / 10 * 9);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_null_everywhere),
      cmocka_unit_test(test_structs_of_other_sizes),
      cmocka_unit_test(test_short_buffers_write_nothing),
      cmocka_unit_test(test_raw_values),
      cmocka_unit_test(test_names_and_devices),
      cmocka_unit_test(test_text_that_is_no_utf8),
      cmocka_unit_test(test_probe_equals_info),
  };
  return cmocka_run_group_tests_name("api.arguments", tests, set_up, tear_down);
}

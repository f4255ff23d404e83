/* SPDX-License-Identifier: Apache-2.0 */
/* A bundle of SAM 3 through the public API: it opens like a checkpoint, finds what the public
 * program finds, gives the same bytes for any order of prompts and any number of threads, says what
 * a bundle cannot do, and is refused when it is damaged or of another kind. */
#include <math.h>

#include "support.h"

#define BUNDLE(name) NPUSEG_TEST_BUNDLES "/" name
#define QUERIES 20
#define SIDE 32

/* The public program's exponential is another one; a float32 more or less. */
#define LOGIT_BOUND 2e-5
/* Fast mode: rounding to bfloat16 that this random model spreads. */
#define FAST_LOGIT_BOUND 0.02

static unsigned char rgb[120 * 90 * 3];

static void fill_picture(void) {
  size_t i;
  for (i = 0; i < sizeof rgb; ++i) rgb[i] = (unsigned char)((uint32_t)i * 2654435761U >> 24);
}

static npuseg_sam3 *load(const char *directory, const char *device) {
  npuseg_sam3 *model = NULL;
  SIZED(npuseg_model_options, options);
  options.device = device;
  MUST(npuseg_sam3_load(directory, &options, &model));
  assert_non_null(model);
  return model;
}

static npuseg_result *find(const npuseg_sam3 *model, npuseg_image *image, const char *prompt,
                           uint32_t threads) {
  npuseg_result *result = NULL;
  SIZED(npuseg_segment_options, options);
  options.threads = threads;
  options.flags = NPUSEG_SEGMENT_ALL_MASKS | NPUSEG_SEGMENT_SEMANTIC;
  MUST(npuseg_segment(model, image, prompt, &options, &result));
  assert_non_null(result);
  return result;
}

static void test_facts(void **state) {
  npuseg_sam3 *model;
  SIZED(npuseg_model_info, info);
  SIZED(npuseg_model_info, probed);
  (void)state;
  MUST(npuseg_sam3_probe(BUNDLE("sam3"), &probed));
  assert_string_equal(probed.kind, "sam3");
  assert_string_equal(probed.source, "bundle");
  assert_string_equal(probed.dtype, "BFP16");
  assert_string_equal(probed.device_used, "");
  assert_int_equal(probed.npu_contexts, 15);
  assert_int_equal(probed.image_side, 112);
  assert_int_equal(probed.mask_side, SIDE);
  assert_int_equal(probed.queries, QUERIES);
  assert_int_equal(probed.max_tokens, 32);
  assert_int_equal(probed.vision_layers, 3);
  assert_int_equal(probed.text_layers, 2);
  assert_int_equal(probed.hidden_size, 128);
  assert_true(probed.parameters > 1000000);
  assert_true(probed.weight_bytes > 2000000);
  assert_true(probed.memory_estimate > probed.weight_bytes);
  model = load(BUNDLE("sam3"), NULL);
  MUST(npuseg_sam3_info(model, &info));
  assert_string_equal(info.device_asked, "auto");
  assert_string_equal(info.device_used, "soft");
  assert_true(strlen(info.device_why) > 4);
  assert_int_equal(info.parameters, probed.parameters);
  assert_int_equal(info.weight_bytes, probed.weight_bytes);
  assert_int_equal(info.memory_estimate, probed.memory_estimate);
  assert_int_equal(info.npu_contexts, 15);
  MUST(npuseg_release(model));
  MUST(npuseg_sam3_probe(BUNDLE("sam3_host"), &probed));
  assert_int_equal(probed.npu_contexts, 13);
}

static double worst_logit(const npuseg_result *result) {
  float logits[QUERIES], expected[QUERIES];
  FILE *file = fopen(BUNDLE("expected") "/sam3_logits.f32", "rb");
  double worst = 0.0;
  size_t i;
  assert_non_null(file);
  assert_int_equal(fread(expected, 1, sizeof expected, file), sizeof expected);
  fclose(file);
  MUST(npuseg_result_raw(result, NPUSEG_RAW_PRED_LOGITS, logits, sizeof logits, NULL, NULL));
  for (i = 0; i < QUERIES; ++i) worst = fmax(worst, fabs((double)logits[i] - (double)expected[i]));
  return worst;
}

/* What the public program prints for this picture, its prompt and a threshold of 0.9. */
static void test_values(void **state) {
  static const uint64_t areas[] = {1087, 1151, 1443, 1070, 1155, 1435, 935, 1316, 1721, 1494};
  npuseg_sam3 *model = load(BUNDLE("sam3"), "soft:faithful");
  npuseg_image *image = image_of_rgb(rgb, 120, 90);
  npuseg_result *result = NULL;
  npuseg_instance found[QUERIES];
  size_t count = QUERIES, i, j, place;
  SIZED(npuseg_segment_options, options);
  (void)state;
  options.threshold = 0.9F;
  MUST(npuseg_segment(model, image, "cat", &options, &result));
  assert_true(worst_logit(result) <= LOGIT_BOUND);
  MUST(npuseg_result_instances(result, found, sizeof found[0], &count));
  assert_int_equal(count, sizeof areas / sizeof *areas);
  assert_true(fabsf(found[0].score - 0.915F) < 0.0005F);
  assert_true(fabsf(found[0].box[0] + 15.5F) < 0.05F);
  assert_true(fabsf(found[0].box[1] - 20.8F) < 0.05F);
  assert_true(fabsf(found[0].box[2] - 56.0F) < 0.05F);
  assert_true(fabsf(found[0].box[3] - 51.6F) < 0.05F);
  for (i = 0; i < count; ++i) {
    /* Printed in the order of the queries. */
    for (j = 0, place = 0; j < count; ++j) place += found[j].query < found[i].query ? 1 : 0;
    assert_int_equal(found[i].area, areas[place]);
  }
  MUST(npuseg_release(result));
  MUST(npuseg_release(model));
  model = load(BUNDLE("sam3"), "soft");
  result = find(model, image, "cat", 0);
  print_message("fast mode: logits off by %.2g\n", worst_logit(result));
  assert_true(worst_logit(result) <= FAST_LOGIT_BOUND);
  MUST(npuseg_release(result));
  MUST(npuseg_release(model));
  MUST(npuseg_release(image));
}

static void test_raw(void **state) {
  npuseg_sam3 *model = load(BUNDLE("sam3"), NULL);
  npuseg_image *image = image_of_rgb(rgb, 120, 90);
  npuseg_result *result = find(model, image, "cat", 0);
  int64_t ids[32];
  float boxes[QUERIES][4], semantic[SIDE * SIDE], presence;
  float *masks = malloc(sizeof(float) * QUERIES * SIDE * SIDE);
  unsigned char *bytes = malloc(120 * 90);
  uint64_t shape[4];
  size_t need = 0, i;
  (void)state;
  MUST(npuseg_result_raw(result, NPUSEG_RAW_INPUT_IDS, ids, sizeof ids, &need, shape));
  assert_int_equal(shape[0], 32);
  assert_int_equal(ids[0], 537);
  assert_int_equal(ids[1], 513);
  for (i = 2; i < 32; ++i) assert_int_equal(ids[i], 538);
  MUST(npuseg_result_raw(result, NPUSEG_RAW_PRED_BOXES, boxes, sizeof boxes, &need, shape));
  assert_int_equal(shape[0], QUERIES);
  MUST(npuseg_result_raw(result, NPUSEG_RAW_PRESENCE_LOGITS, &presence, sizeof presence, &need,
                         shape));
  assert_true(fabsf(presence - 2.46F) < 0.05F);
  MUST(npuseg_result_raw(result, NPUSEG_RAW_PRED_MASKS, masks,
                         sizeof(float) * QUERIES * SIDE * SIDE, &need, shape));
  assert_int_equal(shape[0], QUERIES);
  assert_int_equal(shape[1], SIDE);
  MUST(npuseg_result_raw(result, NPUSEG_RAW_SEMANTIC_SEG, semantic, sizeof semantic, &need, shape));
  MUST(npuseg_result_semantic(result, 0.0F, NPUSEG_MASK_BYTES, bytes, 0, 120 * 90, &need));
  assert_int_equal(need, 120 * 90);
  free(bytes);
  free(masks);
  MUST(npuseg_release(result));
  MUST(npuseg_release(image));
  MUST(npuseg_release(model));
}

/* In any order, with other pictures and prompts in between, on any number of threads. */
static void test_prompts_and_pictures(void **state) {
  static const char *const prompts[] = {"cat", "dog", "the red car"};
  npuseg_image *images[2];
  npuseg_result *alone[2][3], *result;
  npuseg_result_data info;
  npuseg_sam3 *model;
  unsigned char *turned = malloc(sizeof rgb);
  size_t i, picture, prompt;
  uint32_t threads;
  SIZED(npuseg_counters, counters);
  (void)state;
  for (i = 0; i < sizeof rgb; ++i) turned[i] = rgb[sizeof rgb - 1 - i];
  for (picture = 0; picture < 2; ++picture) {
    for (prompt = 0; prompt < 3; ++prompt) {
      images[picture] = image_of_rgb(picture == 0 ? rgb : turned, 120, 90);
      model = load(BUNDLE("sam3"), NULL);
      alone[picture][prompt] = find(model, images[picture], prompts[prompt], 1);
      MUST(npuseg_release(model));
      MUST(npuseg_release(images[picture]));
    }
  }
  for (threads = 1; threads <= 3; ++threads) {
    images[0] = image_of_rgb(rgb, 120, 90);
    images[1] = image_of_rgb(turned, 120, 90);
    model = load(BUNDLE("sam3"), "soft");
    for (i = 0; i < 12; ++i) {
      picture = i * 5 % 4 / 2;
      prompt = i % 3;
      result = find(model, images[picture], prompts[prompt], threads);
      assert_same_results(result, alone[picture][prompt]);
      info_of(result, &info);
      assert_int_equal(info.stage_runs[NPUSEG_STAGE_TEXT], i < 3 ? 1 : 0);
      assert_int_equal(info.stage_runs[NPUSEG_STAGE_DETR_ENCODER], 1);
      MUST(npuseg_release(result));
    }
    MUST(npuseg_sam3_counters(model, &counters));
    assert_int_equal(counters.runs[NPUSEG_STAGE_VIT], 2);
    assert_int_equal(counters.runs[NPUSEG_STAGE_TEXT], 3);
    assert_true(counters.prompt_cache_bytes > 3 * 6 * 5000);
    MUST(npuseg_release(images[0]));
    MUST(npuseg_release(images[1]));
    MUST(npuseg_release(model));
  }
  for (i = 0; i < 6; ++i) MUST(npuseg_release(alone[i / 3][i % 3]));
  free(turned);
}

static void test_older_bundles(void **state) {
  static const char *const names[] = {BUNDLE("sam3_host"), BUNDLE("sam3_format1")};
  npuseg_image *image = image_of_rgb(rgb, 120, 90);
  npuseg_result *result;
  npuseg_result_data info;
  npuseg_sam3 *model;
  float logits[QUERIES];
  double sum;
  size_t i, q;
  (void)state;
  for (i = 0; i < 2; ++i) {
    model = load(names[i], NULL);
    result = find(model, image, "cat", 0);
    info_of(result, &info);
    assert_int_equal(info.width, 120);
    MUST(npuseg_result_raw(result, NPUSEG_RAW_PRED_LOGITS, logits, sizeof logits, NULL, NULL));
    for (q = 0, sum = 0.0; q < QUERIES; ++q) sum += (double)logits[q];
    /* The public program's, for this prompt and picture. */
    assert_true(fabs(sum - (i == 0 ? -39.649069 : 70.349787)) < QUERIES * FAST_LOGIT_BOUND);
    MUST(npuseg_release(result));
    MUST(npuseg_release(model));
  }
  MUST(npuseg_release(image));
}

static void test_boxes_are_unsupported(void **state) {
  npuseg_sam3 *model = load(BUNDLE("sam3"), NULL);
  npuseg_image *image = image_of_rgb(rgb, 120, 90);
  npuseg_result *result = NULL;
  npuseg_box box = {10.0F, 10.0F, 50.0F, 60.0F, 1};
  SIZED(npuseg_segment_options, options);
  SIZED(npuseg_counters, counters);
  (void)state;
  options.boxes = &box;
  options.box_count = 1;
  REFUSED(npuseg_segment(model, image, NULL, &options, &result), NPUSEG_UNSUPPORTED);
  REFUSED(npuseg_segment(model, image, "cat", &options, &result), NPUSEG_UNSUPPORTED);
  assert_null(result);
  assert_non_null(strstr(npuseg_last_error(), "boxes"));
  /* Before anything was computed. */
  MUST(npuseg_sam3_counters(model, &counters));
  assert_int_equal(counters.runs[NPUSEG_STAGE_VIT], 0);
  MUST(npuseg_release(image));
  MUST(npuseg_release(model));
}

static int32_t stop(void *user, uint32_t stage, uint64_t done, uint64_t total) {
  (void)user;
  (void)done;
  (void)total;
  return stage == NPUSEG_STAGE_MASK_DECODER ? 1 : 0;
}

static void test_stopped_and_short_of_memory(void **state) {
  npuseg_sam3 *model = load(BUNDLE("sam3"), NULL), *other = load(BUNDLE("sam3"), NULL);
  npuseg_image *image = image_of_rgb(rgb, 120, 90);
  npuseg_result *result = NULL, *expected = find(other, image, "cat", 0);
  SIZED(npuseg_segment_options, options);
  SIZED(npuseg_model_options, tight);
  (void)state;
  options.progress = stop;
  REFUSED(npuseg_segment(model, image, "cat", &options, &result), NPUSEG_CANCELLED);
  assert_null(result);
  result = find(model, image, "cat", 0);
  assert_same_results(result, expected);
  MUST(npuseg_release(result));
  MUST(npuseg_release(model));
  result = NULL;
  tight.memory_limit = 100000;
  MUST(npuseg_sam3_load(BUNDLE("sam3"), &tight, &model));
  REFUSED(npuseg_segment(model, image, "cat", NULL, &result), NPUSEG_LIMIT_EXCEEDED);
  assert_null(result);
  MUST(npuseg_release(model));
  MUST(npuseg_release(expected));
  MUST(npuseg_release(image));
  MUST(npuseg_release(other));
}

static void test_refusals(void **state) {
  static const struct {
    const char *directory;
    npuseg_status status;
    const char *part;
  } cases[] = {{BUNDLE("gemma"), NPUSEG_UNSUPPORTED, "npuseg_embeddinggemma2_load"},
               {BUNDLE("none"), NPUSEG_NOT_FOUND, "none"},
               {BUNDLE("sam3_cut"), NPUSEG_CORRUPT_DATA, "tensors.txt"},
               {BUNDLE("sam3_lacking"), NPUSEG_CORRUPT_DATA, "d.1.o"},
               {BUNDLE("sam3_nowhere"), NPUSEG_NOT_FOUND, "rope"},
               {BUNDLE("sam3_wordless"), NPUSEG_NOT_FOUND, "vocab.json"},
               {BUNDLE("sam3_bos"), NPUSEG_CORRUPT_DATA, "vocab.json"},
               {BUNDLE("sam3_nan"), NPUSEG_CORRUPT_DATA, "n.conv1.b"}};
  npuseg_sam3 *model = NULL;
  size_t i;
  SIZED(npuseg_model_options, options);
  (void)state;
  for (i = 0; i < sizeof cases / sizeof *cases; ++i) {
    REFUSED(npuseg_sam3_load(cases[i].directory, NULL, &model), cases[i].status);
    assert_null(model);
    if (strstr(npuseg_last_error(), cases[i].part) == NULL) {
      print_error("%s: %s\n", cases[i].directory, npuseg_last_error());
    }
    assert_non_null(strstr(npuseg_last_error(), cases[i].part));
  }
  options.device = "xrt:0";
  REFUSED(npuseg_sam3_load(BUNDLE("sam3"), &options, &model), NPUSEG_DEVICE_UNAVAILABLE);
  options.device = "soft";
  options.precision = NPUSEG_PRECISION_F32;
  REFUSED(npuseg_sam3_load(BUNDLE("sam3"), &options, &model), NPUSEG_UNSUPPORTED);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_facts),
      cmocka_unit_test(test_values),
      cmocka_unit_test(test_raw),
      cmocka_unit_test(test_prompts_and_pictures),
      cmocka_unit_test(test_older_bundles),
      cmocka_unit_test(test_boxes_are_unsupported),
      cmocka_unit_test(test_stopped_and_short_of_memory),
      cmocka_unit_test(test_refusals),
  };
  fill_picture();
  return cmocka_run_group_tests_name("sam3 bundles", tests, NULL, NULL);
}

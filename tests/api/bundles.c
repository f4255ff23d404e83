/* SPDX-License-Identifier: Apache-2.0 */
/* A bundle of EmbeddingGemma 2 through the public API: it opens like a checkpoint, gives the values
 * of the public program, the same bytes alone, in batches and on any number of threads, and is
 * refused when it is damaged or of another kind. */
#include <math.h>

#include "support.h"

#define BUNDLE(name) NPUSEG_TEST_BUNDLES "/" name
#define DIMS 48
#define TEXTS 4
#define PICTURE_TOKENS 10 /* six soft tokens and four around them */

/* As in the unit test of the graph: faithful mode differs by an exponential, fast mode by rounding
 * that this random model spreads. */
#define FAITHFUL_COSINE 0.9997
#define CHECK_COSINE 0.999

static const struct {
  const char *task;
  const char *text;
  size_t tokens;
} texts[TEXTS] = {{"none", "the cat", 6},
                  {"SearchQuery", "the cat", 31},
                  {"none", "hello aaaa <mask> x\xc3\xa9\xf0\x9f\x8e\x89 \n\n  aaaaaaa", 24},
                  {"Document", "", 20}};

static unsigned char rgb[120 * 90 * 3];

static void fill_picture(void) {
  size_t i;
  for (i = 0; i < sizeof rgb; ++i) rgb[i] = (unsigned char)((uint32_t)i * 2654435761U >> 24);
}

static npuseg_embeddinggemma2 *load(const char *directory, const char *device) {
  npuseg_embeddinggemma2 *model = NULL;
  SIZED(npuseg_model_options, options);
  options.device = device;
  MUST(npuseg_embeddinggemma2_load(directory, &options, &model));
  assert_non_null(model);
  return model;
}

static void read_expected(const char *name, void *values, size_t bytes) {
  char path[4096];
  FILE *file;
  snprintf(path, sizeof path, "%s/%s", BUNDLE("expected"), name);
  file = fopen(path, "rb");
  assert_non_null(file);
  assert_int_equal(fread(values, 1, bytes, file), bytes);
  fclose(file);
}

static double cosine(const float *a, const float *b) {
  double product = 0.0, squares_a = 0.0, squares_b = 0.0;
  size_t i;
  for (i = 0; i < DIMS; ++i) {
    product += (double)a[i] * (double)b[i];
    squares_a += (double)a[i] * (double)a[i];
    squares_b += (double)b[i] * (double)b[i];
  }
  return product / sqrt(squares_a * squares_b);
}

static void embed_text(const npuseg_embeddinggemma2 *model, size_t index, float *vector) {
  SIZED(npuseg_embed_options, options);
  options.task = texts[index].task;
  MUST(npuseg_embed_text(model, texts[index].text, NPUSEG_NUL_TERMINATED, &options, vector, DIMS));
}

static npuseg_embed_part text_part(const char *text) {
  npuseg_embed_part part = {NULL, NULL, UINT64_MAX};
  part.text = text;
  return part;
}

static npuseg_embed_input input_of(const npuseg_embed_part *parts, uint32_t count,
                                   const char *task) {
  npuseg_embed_input input;
  memset(&input, 0, sizeof input);
  input.parts = parts;
  input.part_count = count;
  input.part_bytes = (uint32_t)sizeof *parts;
  input.task = task;
  return input;
}

static void test_facts(void **state) {
  npuseg_embeddinggemma2 *model;
  uint32_t dims[4] = {0}, count = 0;
  size_t room = 4;
  const char *name = NULL, *prompt = NULL;
  SIZED(npuseg_model_info, info);
  SIZED(npuseg_model_info, probed);
  (void)state;
  MUST(npuseg_embeddinggemma2_probe(BUNDLE("gemma"), &probed));
  assert_string_equal(probed.kind, "embeddinggemma2");
  assert_string_equal(probed.source, "bundle");
  assert_string_equal(probed.dtype, "BFP16");
  assert_string_equal(probed.device_used, "");
  assert_int_equal(probed.npu_contexts, 3);
  assert_int_equal(probed.embedding_dim, DIMS);
  assert_int_equal(probed.soft_tokens, 10);
  assert_int_equal(probed.max_tokens, 48);
  assert_int_equal(probed.vision_layers, 2);
  assert_int_equal(probed.text_layers, 6);
  assert_int_equal(probed.hidden_size, 192);
  assert_true(probed.memory_estimate > probed.weight_bytes);
  assert_true(probed.weight_bytes > 1000000);

  model = load(BUNDLE("gemma"), NULL);
  MUST(npuseg_embeddinggemma2_info(model, &info));
  assert_string_equal(info.device_asked, "auto");
  assert_string_equal(info.device_used, "soft");
  assert_true(strlen(info.device_why) > 4);
  assert_int_equal(info.parameters, probed.parameters);
  assert_int_equal(info.weight_bytes, probed.weight_bytes);
  MUST(npuseg_embeddinggemma2_dims(model, dims, &room));
  assert_int_equal(room, 1);
  assert_int_equal(dims[0], DIMS);
  MUST(npuseg_embeddinggemma2_task_count(model, &count));
  assert_int_equal(count, 3);
  MUST(npuseg_embeddinggemma2_task_at(model, 0, &name, &prompt));
  assert_string_equal(name, "SearchQuery");
  assert_string_equal(prompt, "task: search result | query: ");
  MUST(npuseg_release(model));

  model = load(BUNDLE("gemma"), "cpu");
  MUST(npuseg_embeddinggemma2_info(model, &info));
  assert_string_equal(info.device_used, "soft");
  MUST(npuseg_release(model));
}

static void check_values(const char *device, double least) {
  npuseg_embeddinggemma2 *model = load(BUNDLE("gemma"), device);
  float vector[DIMS], expected[DIMS];
  char name[32];
  size_t i;
  MUST(npuseg_embed_rgb(model, rgb, 120, 90, 0, NULL, vector, DIMS));
  read_expected("picture.f32", expected, sizeof expected);
  assert_true(cosine(vector, expected) >= least);
  for (i = 0; i < TEXTS; ++i) {
    embed_text(model, i, vector);
    snprintf(name, sizeof name, "text.%u.f32", (unsigned)i);
    read_expected(name, expected, sizeof expected);
    assert_true(cosine(vector, expected) >= least);
  }
  MUST(npuseg_release(model));
}

static void test_values(void **state) {
  (void)state;
  check_values("soft", CHECK_COSINE);
  check_values("soft:faithful", FAITHFUL_COSINE);
}

static void test_model_input(void **state) {
  npuseg_embeddinggemma2 *model = load(BUNDLE("gemma"), NULL);
  npuseg_image *image = image_of_rgb(rgb, 120, 90);
  npuseg_embed_part part;
  npuseg_embed_input input;
  int64_t ids[64], expected[64];
  float *pixels = malloc(54 * 192 * sizeof(float)), *wanted = malloc(54 * 192 * sizeof(float));
  uint64_t shape[2];
  size_t need = 0, tokens = 0, i;
  char name[32];
  SIZED(npuseg_embed_options, options);
  (void)state;
  for (i = 0; i < TEXTS; ++i) {
    part = text_part(texts[i].text);
    input = input_of(&part, 1, texts[i].task);
    MUST(npuseg_embed_tokens(model, &input, &options, &tokens, NULL));
    assert_int_equal(tokens, texts[i].tokens);
    MUST(npuseg_embed_model_input(model, &input, &options, NPUSEG_EMBED_RAW_INPUT_IDS, 0, ids,
                                  sizeof ids, &need, shape));
    assert_int_equal(shape[0], texts[i].tokens);
    snprintf(name, sizeof name, "text.%u.i64", (unsigned)i);
    read_expected(name, expected, need);
    assert_memory_equal(ids, expected, need);
  }
  memset(&part, 0, sizeof part);
  part.image = image;
  input = input_of(&part, 1, NULL);
  MUST(npuseg_embed_model_input(model, &input, &options, NPUSEG_EMBED_RAW_PIXEL_VALUES, 0, pixels,
                                54 * 192 * sizeof(float), &need, shape));
  assert_int_equal(shape[0], 54);
  assert_int_equal(shape[1], 192);
  read_expected("pixels.f32", wanted, need);
  assert_memory_equal(pixels, wanted, need);
  MUST(npuseg_embed_model_input(model, &input, &options, NPUSEG_EMBED_RAW_INPUT_IDS, 0, ids,
                                sizeof ids, &need, shape));
  assert_int_equal(shape[0], PICTURE_TOKENS);
  assert_int_equal(ids[0], 2);
  assert_int_equal(ids[1], 376);
  assert_int_equal(ids[2], 375);
  assert_int_equal(ids[8], 377);
  assert_int_equal(ids[9], 1);
  free(pixels);
  free(wanted);
  MUST(npuseg_release(image));
  MUST(npuseg_release(model));
}

/* Also with other inputs between, whose rows stay behind in the device's buffers. */
static void test_batches_and_threads(void **state) {
  npuseg_embeddinggemma2 *model = load(BUNDLE("gemma"), NULL), *other;
  npuseg_image *image = image_of_rgb(rgb, 120, 90);
  npuseg_embed_part parts[TEXTS + 3];
  npuseg_embed_input inputs[TEXTS + 2];
  float alone[TEXTS + 2][DIMS], together[TEXTS + 2][DIMS];
  uint32_t threads;
  size_t i;
  SIZED(npuseg_embed_options, options);
  (void)state;
  for (i = 0; i < TEXTS; ++i) {
    embed_text(model, i, alone[i]);
    parts[i] = text_part(texts[i].text);
    inputs[i] = input_of(&parts[i], 1, texts[i].task);
  }
  memset(&parts[TEXTS], 0, sizeof parts[TEXTS]);
  parts[TEXTS].image = image;
  inputs[TEXTS] = input_of(&parts[TEXTS], 1, NULL);
  MUST(npuseg_embed_rgb(model, rgb, 120, 90, 0, NULL, alone[TEXTS], DIMS));
  parts[TEXTS + 1] = parts[TEXTS];
  parts[TEXTS + 2] = text_part("caterring on");
  inputs[TEXTS + 1] = input_of(&parts[TEXTS + 1], 2, NULL);
  MUST(npuseg_embed_image_text(model, image, "caterring on", NPUSEG_NUL_TERMINATED, NULL,
                               alone[TEXTS + 1], DIMS));
  for (threads = 1; threads <= 3; ++threads) {
    options.threads = threads;
    memset(together, 0, sizeof together);
    MUST(npuseg_embed_batch(model, inputs, sizeof inputs[0], TEXTS + 2, &options, together[0], 0,
                            (TEXTS + 2) * DIMS));
    assert_memory_equal(alone, together, sizeof together);
    other = load(BUNDLE("gemma"), "soft");
    MUST(npuseg_embed_batch(other, inputs + 1, sizeof inputs[0], TEXTS + 1, &options, together[0],
                            0, (TEXTS + 1) * DIMS));
    assert_memory_equal(alone[1], together, (TEXTS + 1) * sizeof together[0]);
    MUST(npuseg_release(other));
  }
  MUST(npuseg_release(image));
  MUST(npuseg_release(model));
}

static void test_limits(void **state) {
  npuseg_embeddinggemma2 *model = load(BUNDLE("gemma"), NULL);
  npuseg_embed_part part;
  npuseg_embed_input input;
  float vector[DIMS];
  char text[64];
  size_t tokens = 0, dropped = 0;
  SIZED(npuseg_embed_options, options);
  (void)state;
  memset(text, 'x', 46);
  text[46] = '\0';
  MUST(npuseg_embed_text(model, text, NPUSEG_NUL_TERMINATED, NULL, vector, DIMS));
  text[46] = 'x';
  text[47] = '\0';
  REFUSED(npuseg_embed_text(model, text, NPUSEG_NUL_TERMINATED, NULL, vector, DIMS),
          NPUSEG_LIMIT_EXCEEDED);
  assert_non_null(strstr(npuseg_last_error(), "49"));
  assert_non_null(strstr(npuseg_last_error(), "48"));
  options.flags = NPUSEG_EMBED_TRUNCATE_TEXT;
  MUST(npuseg_embed_text(model, text, NPUSEG_NUL_TERMINATED, &options, vector, DIMS));
  part = text_part(text);
  input = input_of(&part, 1, NULL);
  MUST(npuseg_embed_tokens(model, &input, &options, &tokens, &dropped));
  assert_int_equal(tokens, 48);
  assert_int_equal(dropped, 1);
  options.flags = 0;
  options.dims = 24;
  REFUSED(npuseg_embed_text(model, "x", 1, &options, vector, DIMS), NPUSEG_INVALID_ARGUMENT);
  options.dims = DIMS;
  MUST(npuseg_embed_text(model, "x", 1, &options, vector, DIMS));
  options.task = "query";
  REFUSED(npuseg_embed_text(model, "x", 1, &options, vector, DIMS), NPUSEG_INVALID_ARGUMENT);
  assert_non_null(strstr(npuseg_last_error(), "SearchQuery"));
  MUST(npuseg_release(model));
}

static void test_pictures_alone(void **state) {
  npuseg_embeddinggemma2 *model = load(BUNDLE("gemma_pictures"), NULL);
  npuseg_image *image = image_of_rgb(rgb, 120, 90);
  npuseg_embed_part parts[2];
  npuseg_embed_input input;
  float vector[DIMS];
  size_t tokens = 0;
  (void)state;
  MUST(npuseg_embed_rgb(model, rgb, 120, 90, 0, NULL, vector, DIMS));
  assert_true(fabs(cosine(vector, vector) - 1.0) < 1e-6);
  REFUSED(npuseg_embed_text(model, "cat", 3, NULL, vector, DIMS), NPUSEG_UNSUPPORTED);
  assert_non_null(strstr(npuseg_last_error(), "no text path"));
  REFUSED(npuseg_embed_image_text(model, image, "cat", 3, NULL, vector, DIMS), NPUSEG_UNSUPPORTED);
  memset(parts, 0, sizeof parts);
  parts[0].image = parts[1].image = image;
  input = input_of(parts, 1, NULL);
  MUST(npuseg_embed_tokens(model, &input, NULL, &tokens, NULL));
  assert_int_equal(tokens, PICTURE_TOKENS);
  input = input_of(parts, 2, NULL);
  MUST(npuseg_embed_tokens(model, &input, NULL, &tokens, NULL));
  assert_int_equal(tokens, 2 * PICTURE_TOKENS - 2);
  MUST(npuseg_embed_batch(model, &input, sizeof input, 1, NULL, vector, 0, DIMS));
  MUST(npuseg_release(image));
  MUST(npuseg_release(model));
}

static int32_t stop(void *user, uint32_t stage, uint64_t done, uint64_t total) {
  (void)user;
  (void)stage;
  (void)done;
  (void)total;
  return 1;
}

static void test_stopped_and_short_of_memory(void **state) {
  npuseg_embeddinggemma2 *model = load(BUNDLE("gemma"), NULL);
  float vector[DIMS];
  size_t i;
  SIZED(npuseg_embed_options, options);
  SIZED(npuseg_model_options, tight);
  (void)state;
  for (i = 0; i < DIMS; ++i) vector[i] = 42.0F;
  options.progress = stop;
  REFUSED(npuseg_embed_rgb(model, rgb, 120, 90, 0, &options, vector, DIMS), NPUSEG_CANCELLED);
  for (i = 0; i < DIMS; ++i) assert_true(vector[i] == 42.0F);
  options.progress = NULL;
  MUST(npuseg_embed_rgb(model, rgb, 120, 90, 0, &options, vector, DIMS));
  MUST(npuseg_release(model));
  model = NULL;
  tight.memory_limit = 10000;
  REFUSED(npuseg_embeddinggemma2_load(BUNDLE("gemma"), &tight, &model), NPUSEG_LIMIT_EXCEEDED);
  assert_null(model);
}

static void test_refusals(void **state) {
  npuseg_embeddinggemma2 *model = NULL;
  npuseg_sam3 *sam3 = NULL;
  static const char *const npus[] = {"xrt", "xrt:0", "amdxdna:1"};
  uint32_t i;
  SIZED(npuseg_model_options, options);
  SIZED(npuseg_model_info, info);
  (void)state;
  REFUSED(npuseg_embeddinggemma2_load(BUNDLE("none"), NULL, &model), NPUSEG_NOT_FOUND);
  REFUSED(npuseg_embeddinggemma2_load(BUNDLE("cut"), NULL, &model), NPUSEG_CORRUPT_DATA);
  assert_non_null(strstr(npuseg_last_error(), "tensors.txt"));
  REFUSED(npuseg_embeddinggemma2_probe(BUNDLE("cut"), &info), NPUSEG_CORRUPT_DATA);
  REFUSED(npuseg_embeddinggemma2_load(BUNDLE("lacking"), NULL, &model), NPUSEG_CORRUPT_DATA);
  assert_non_null(strstr(npuseg_last_error(), "t1.plep"));
  REFUSED(npuseg_embeddinggemma2_load(BUNDLE("nowhere"), NULL, &model), NPUSEG_NOT_FOUND);
  assert_non_null(strstr(npuseg_last_error(), "t_o_x2"));
  REFUSED(npuseg_embeddinggemma2_load(BUNDLE("sam3"), NULL, &model), NPUSEG_UNSUPPORTED);
  assert_non_null(strstr(npuseg_last_error(), "npuseg_sam3_load"));
  REFUSED(npuseg_sam3_load(BUNDLE("gemma"), NULL, &sam3), NPUSEG_UNSUPPORTED);
  assert_non_null(strstr(npuseg_last_error(), "npuseg_embeddinggemma2_load"));
  for (i = 0; i < sizeof npus / sizeof *npus; ++i) {
    options.device = npus[i];
    REFUSED(npuseg_embeddinggemma2_load(BUNDLE("gemma"), &options, &model),
            NPUSEG_DEVICE_UNAVAILABLE);
    assert_non_null(strstr(npuseg_last_error(), "soft"));
  }
  options.device = "soft:exact";
  REFUSED(npuseg_embeddinggemma2_load(BUNDLE("gemma"), &options, &model), NPUSEG_INVALID_ARGUMENT);
  options.device = "soft";
  for (i = NPUSEG_PRECISION_F32; i <= NPUSEG_PRECISION_INT8; ++i) {
    options.precision = i;
    REFUSED(npuseg_embeddinggemma2_load(BUNDLE("gemma"), &options, &model), NPUSEG_UNSUPPORTED);
  }
  assert_null(model);
  assert_null(sam3);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_facts),
      cmocka_unit_test(test_values),
      cmocka_unit_test(test_model_input),
      cmocka_unit_test(test_batches_and_threads),
      cmocka_unit_test(test_limits),
      cmocka_unit_test(test_pictures_alone),
      cmocka_unit_test(test_stopped_and_short_of_memory),
      cmocka_unit_test(test_refusals),
  };
  fill_picture();
  return cmocka_run_group_tests_name("bundles", tests, NULL, NULL);
}

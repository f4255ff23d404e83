/* SPDX-License-Identifier: Apache-2.0 */
/* The demo embedder's vectors: equal to the reference implementation's (demo_embeddings.h), and the
 * same bytes alone, in any batch and on any number of threads.
 *
 * Bound: the goldens are float32; the rest is float32 arithmetic in another order of summation on
 * entries below 0.4 (measured 2.1e-7 at most). */
#include <pthread.h>

#include "embed_support.h"

#define VECTOR_BOUND 2e-6F

static void test_reference(void **state) {
  npuseg_embeddinggemma2 *model = load_embedder(NULL);
  float vector[DIMS], again[DIMS], worst = 0.0F;
  size_t i, k;
  (void)state;
  for (i = 0; i < EXPECTED_PICTURES; ++i) {
    const struct expected_embedding *want = &expected_pictures[i];
    npuseg_image *image = open_expected(i);
    const npuseg_embed_part part = image_part(image);
    size_t bytes = 0;
    unsigned char *pixels;
    SIZED(npuseg_image_data, data);
    assert_int_equal(tokens_of(model, &part, 1), want->tokens);
    MUST(npuseg_embed_image(model, image, NULL, vector, DIMS));
    worst = fmaxf(worst, largest_difference(vector, want->vector, DIMS));
    /* The same pixels without a handle, tight and with a stride. */
    MUST(npuseg_image_info(image, &data));
    MUST(npuseg_image_pixels(image, NULL, 0, 0, &bytes));
    pixels = malloc(bytes);
    MUST(npuseg_image_pixels(image, pixels, 0, bytes, NULL));
    MUST(npuseg_embed_rgb(model, pixels, data.width, data.height, 0, NULL, again, DIMS));
    assert_memory_equal(vector, again, sizeof vector);
    free(pixels);
    pixels = malloc((size_t)(3 * data.width + 5) * data.height);
    MUST(npuseg_image_pixels(image, pixels, 3 * data.width + 5,
                             (size_t)(3 * data.width + 5) * data.height, NULL));
    MUST(npuseg_embed_rgb(model, pixels, data.width, data.height, 3 * data.width + 5, NULL, again,
                          DIMS));
    assert_memory_equal(vector, again, sizeof vector);
    free(pixels);
    MUST(npuseg_release(image));
  }
  for (i = 0; i < EXPECTED_TEXTS; ++i) {
    const struct expected_embedding *want = &expected_texts[i];
    int64_t ids[64] = {0};
    uint64_t shape[2] = {9, 9};
    size_t bytes = 0;
    const npuseg_embed_part part = text_part(want->name);
    npuseg_embed_input input = input_of(&part, 1);
    SIZED(npuseg_embed_options, options);
    options.task = want->task;
    MUST(npuseg_embed_text(model, want->name, NPUSEG_NUL_TERMINATED, &options, vector, DIMS));
    worst = fmaxf(worst, largest_difference(vector, want->vector, DIMS));
    MUST(npuseg_embed_model_input(model, &input, &options, NPUSEG_EMBED_RAW_INPUT_IDS, 0, ids,
                                  sizeof ids, &bytes, shape));
    assert_int_equal(bytes, want->tokens * sizeof ids[0]);
    assert_int_equal(shape[0], want->tokens);
    assert_int_equal(shape[1], 0);
    for (k = 0; k < want->tokens; ++k) assert_int_equal(ids[k], want->ids[k]);
  }
  print_message("largest difference of an entry: %.2g\n", (double)worst);
  assert_true(worst <= VECTOR_BOUND);
  MUST(npuseg_release(model));
}

enum { INPUTS = 9 };

/* Pictures, texts of several lengths, both, and several pictures. */
static void fill_inputs(npuseg_image *a, npuseg_image *b, npuseg_embed_part parts[INPUTS][4],
                        npuseg_embed_input inputs[INPUTS]) {
  static char longer[3000];
  size_t i;
  for (i = 0; i + 10 < sizeof longer; i += 9) memcpy(longer + i, "red star ", 9);
  parts[0][0] = image_part(a);
  parts[1][0] = text_part("a red circle");
  parts[2][0] = image_part(b);
  parts[2][1] = text_part("on grey");
  parts[3][0] = text_part("");
  parts[4][0] = text_part("before ");
  parts[4][1] = image_part(b);
  parts[4][2] = text_part(" between ");
  parts[4][3] = image_part(a);
  parts[5][0] = text_part(longer);
  parts[6][0] = image_part(b);
  parts[7][0] = text_part("a red circle");
  parts[8][0] = image_part(a);
  for (i = 0; i < INPUTS; ++i) inputs[i] = input_of(parts[i], i == 2 ? 2 : i == 4 ? 4 : 1);
  inputs[7].task = "query";
  inputs[8].task = "document";
}

static void test_alone_and_together(void **state) {
  npuseg_image *a = open_expected(0), *b = open_expected(3);
  npuseg_embeddinggemma2 *model = load_embedder(NULL);
  npuseg_embed_part parts[INPUTS][4];
  npuseg_embed_input inputs[INPUTS], turned[INPUTS];
  float together[INPUTS][DIMS], rows[INPUTS * (DIMS + 7)], vector[DIMS];
  uint32_t threads;
  size_t i, k;
  (void)state;
  fill_inputs(a, b, parts, inputs);
  MUST(npuseg_embed_batch(model, inputs, sizeof inputs[0], INPUTS, NULL, together[0], 0,
                          INPUTS * DIMS));
  for (i = 0; i < INPUTS; ++i) {
    assert_true(fabs(norm_of(together[i], DIMS) - 1.0) < 1e-6);
    for (threads = 1; threads <= 3; ++threads) {
      SIZED(npuseg_embed_options, options);
      options.threads = threads;
      MUST(npuseg_image_forget(a));
      MUST(npuseg_image_forget(b));
      MUST(npuseg_embed_batch(model, &inputs[i], sizeof inputs[0], 1, &options, vector, 0, DIMS));
      assert_memory_equal(vector, together[i], sizeof vector);
    }
    turned[i] = inputs[INPUTS - 1 - i];
  }
  /* Another order, rows further apart; what is between them is not written. */
  for (i = 0; i < INPUTS * (DIMS + 7); ++i) rows[i] = 42.0F;
  MUST(npuseg_embed_batch(model, turned, sizeof turned[0], INPUTS, NULL, rows, DIMS + 7,
                          INPUTS * (DIMS + 7) - 7));
  for (i = 0; i < INPUTS; ++i) {
    assert_memory_equal(rows + i * (DIMS + 7), together[INPUTS - 1 - i], sizeof vector);
    for (k = DIMS; k < DIMS + 7; ++k) assert_true(rows[i * (DIMS + 7) + k] == 42.0F);
  }
  /* The short forms. */
  MUST(npuseg_embed_image(model, a, NULL, vector, DIMS));
  assert_memory_equal(vector, together[0], sizeof vector);
  MUST(npuseg_embed_text(model, "a red circle..", 12, NULL, vector, DIMS));
  assert_memory_equal(vector, together[1], sizeof vector);
  MUST(npuseg_embed_image_text(model, b, "on grey", NPUSEG_NUL_TERMINATED, NULL, vector, DIMS));
  assert_memory_equal(vector, together[2], sizeof vector);
  MUST(npuseg_embed_text(model, "", 0, NULL, vector, DIMS));
  assert_memory_equal(vector, together[3], sizeof vector);
  /* Tasks of an input go before those of the call. */
  {
    SIZED(npuseg_embed_options, options);
    options.task = "document";
    MUST(npuseg_embed_batch(model, &inputs[7], sizeof inputs[0], 1, &options, vector, 0, DIMS));
    assert_memory_equal(vector, together[7], sizeof vector);
    MUST(npuseg_embed_image(model, a, &options, vector, DIMS));
    assert_memory_equal(vector, together[8], sizeof vector);
    options.task = "none";
    MUST(npuseg_embed_image(model, a, &options, vector, DIMS));
    assert_memory_equal(vector, together[0], sizeof vector);
  }
  assert_true(largest_difference(together[1], together[7], DIMS) > 1e-3F);
  assert_true(largest_difference(together[0], together[8], DIMS) > 1e-3F);
  MUST(npuseg_release(a));
  MUST(npuseg_release(b));
  MUST(npuseg_release(model));
}

/* More inputs than run together inside: order and count stay. */
static void test_many(void **state) {
  enum { MANY = 1000 };
  npuseg_embeddinggemma2 *model = load_embedder(NULL);
  static char texts[MANY][40];
  static npuseg_embed_part parts[MANY];
  static npuseg_embed_input inputs[MANY];
  float *matrix = malloc(sizeof(float) * MANY * 32), vector[32];
  size_t i;
  SIZED(npuseg_embed_options, options);
  (void)state;
  options.dims = 32;
  for (i = 0; i < MANY; ++i) {
    snprintf(texts[i], sizeof texts[i], "%zu %.*s", i, (int)(i % 17), "stars and circles and");
    parts[i] = text_part(texts[i]);
    inputs[i] = input_of(&parts[i], 1);
  }
  MUST(npuseg_embed_batch(model, inputs, sizeof inputs[0], MANY, &options, matrix, 0, MANY * 32));
  for (i = 0; i < MANY; i += 37) {
    MUST(npuseg_embed_text(model, texts[i], SIZE_MAX, &options, vector, 32));
    assert_memory_equal(vector, matrix + i * 32, sizeof vector);
  }
  free(matrix);
  MUST(npuseg_release(model));
}

static void test_dims(void **state) {
  npuseg_embeddinggemma2 *model = load_embedder(NULL);
  uint32_t offered[8] = {0};
  size_t count = 2, d, k;
  float whole[DIMS], vector[DIMS + 1];
  SIZED(npuseg_embed_options, options);
  (void)state;
  REFUSED(npuseg_embeddinggemma2_dims(model, offered, &count), NPUSEG_BUFFER_TOO_SMALL);
  assert_int_equal(count, 3);
  assert_int_equal(offered[0], 0);
  MUST(npuseg_embeddinggemma2_dims(model, NULL, &count));
  MUST(npuseg_embeddinggemma2_dims(model, offered, &count));
  assert_int_equal(count, 3);
  assert_int_equal(offered[0], 128);
  assert_int_equal(offered[1], 64);
  assert_int_equal(offered[2], 32);
  MUST(npuseg_embed_text(model, "a ring", SIZE_MAX, NULL, whole, DIMS));
  for (d = 0; d < count; ++d) {
    const double norm = norm_of(whole, offered[d]);
    options.dims = offered[d];
    vector[offered[d]] = 42.0F;
    MUST(npuseg_embed_text(model, "a ring", SIZE_MAX, &options, vector, offered[d]));
    assert_true(vector[offered[d]] == 42.0F);
    assert_true(fabs(norm_of(vector, offered[d]) - 1.0) < 1e-6);
    for (k = 0; k < offered[d]; ++k) {
      assert_true(fabs((double)vector[k] - (double)whole[k] / norm) < 2e-7);
    }
  }
  options.dims = 300;
  REFUSED(npuseg_embed_text(model, "a ring", SIZE_MAX, &options, vector, DIMS),
          NPUSEG_INVALID_ARGUMENT);
  assert_non_null(strstr(npuseg_last_error(), "128, 64, 32"));
  MUST(npuseg_release(model));
}

static void test_tasks(void **state) {
  npuseg_embeddinggemma2 *model = load_embedder(NULL);
  uint32_t count = 0, i, found = 0;
  float vector[DIMS], by_hand[DIMS];
  char text[200];
  SIZED(npuseg_embed_options, options);
  (void)state;
  MUST(npuseg_embeddinggemma2_task_count(model, &count));
  assert_int_equal(count, 20);
  for (i = 0; i < count; ++i) {
    const char *name = NULL, *prompt = NULL;
    MUST(npuseg_embeddinggemma2_task_at(model, i, &name, &prompt));
    MUST(npuseg_embeddinggemma2_task_at(model, i, NULL, NULL));
    options.task = name;
    MUST(npuseg_embed_text(model, "cross", SIZE_MAX, &options, vector, DIMS));
    snprintf(text, sizeof text, "%scross", prompt);
    MUST(npuseg_embed_text(model, text, SIZE_MAX, NULL, by_hand, DIMS));
    assert_memory_equal(vector, by_hand, sizeof vector);
    if (strcmp(name, "query") == 0 || strcmp(name, "STS") == 0) ++found;
  }
  assert_int_equal(found, 2);
  REFUSED(npuseg_embeddinggemma2_task_at(model, count, NULL, NULL), NPUSEG_INVALID_ARGUMENT);
  REFUSED(npuseg_embeddinggemma2_task_count(model, NULL), NPUSEG_INVALID_ARGUMENT);
  options.task = "Quer\xff";
  REFUSED(npuseg_embed_text(model, "x", 1, &options, vector, DIMS), NPUSEG_INVALID_ARGUMENT);
  assert_non_null(strstr(npuseg_last_error(), "SearchQuery"));
  options.task = "";
  REFUSED(npuseg_embed_text(model, "x", 1, &options, vector, DIMS), NPUSEG_INVALID_ARGUMENT);
  options.task = "none";
  MUST(npuseg_embed_text(model, "x", 1, &options, vector, DIMS));
  MUST(npuseg_embed_text(model, "x", 1, NULL, by_hand, DIMS));
  assert_memory_equal(vector, by_hand, sizeof vector);
  MUST(npuseg_release(model));
}

static void test_features_are_kept(void **state) {
  npuseg_embeddinggemma2 *model = load_embedder(NULL);
  npuseg_image *image = open_expected(0);
  float vector[DIMS];
  SIZED(npuseg_counters, counters);
  SIZED(npuseg_image_data, data);
  (void)state;
  MUST(npuseg_embed_image(model, image, NULL, vector, DIMS));
  MUST(npuseg_embed_image(model, image, NULL, vector, DIMS));
  MUST(npuseg_embed_image_text(model, image, "x", 1, NULL, vector, DIMS));
  MUST(npuseg_embeddinggemma2_counters(model, &counters));
  assert_int_equal(counters.runs[NPUSEG_STAGE_PREPROCESS], 1);
  assert_int_equal(counters.runs[NPUSEG_STAGE_VIT], 1);
  assert_int_equal(counters.runs[NPUSEG_STAGE_TEXT], 3);
  assert_int_equal(counters.runs[NPUSEG_STAGE_DETR_DECODER], 0);
  assert_true(counters.nanoseconds[NPUSEG_STAGE_VIT] > 0);
  assert_true(counters.image_cache_bytes > 0);
  MUST(npuseg_image_info(image, &data));
  assert_int_equal(data.feature_bytes, counters.image_cache_bytes);
  MUST(npuseg_image_forget(image));
  MUST(npuseg_embed_image(model, image, NULL, vector, DIMS));
  MUST(npuseg_embeddinggemma2_counters(model, &counters));
  assert_int_equal(counters.runs[NPUSEG_STAGE_VIT], 2);
  MUST(npuseg_release(image));
  MUST(npuseg_embeddinggemma2_counters(model, &counters));
  assert_int_equal(counters.image_cache_bytes, 0);
  MUST(npuseg_release(model));
}

struct together {
  npuseg_embeddinggemma2 *model;
  npuseg_image *image;
  float want[DIMS];
  float want_text[DIMS];
  int number;
  int wrong;
};

static void *ask_often(void *user) {
  struct together *with = user;
  float vector[DIMS];
  int i;
  for (i = 0; i < 6; ++i) {
    if (i % 3 == with->number && npuseg_image_forget(with->image) != NPUSEG_OK) ++with->wrong;
    if (npuseg_embed_image(with->model, with->image, NULL, vector, DIMS) != NPUSEG_OK ||
        memcmp(vector, with->want, sizeof vector) != 0) {
      ++with->wrong;
    }
    if (npuseg_embed_text(with->model, "an orange star", SIZE_MAX, NULL, vector, DIMS) !=
            NPUSEG_OK ||
        memcmp(vector, with->want_text, sizeof vector) != 0) {
      ++with->wrong;
    }
  }
  return NULL;
}

/* Threads that share model and picture, and forget its features under each other's hands. */
static void test_threads(void **state) {
  struct together with[3];
  pthread_t threads[3];
  int i;
  (void)state;
  with[0].model = load_embedder(NULL);
  with[0].image = open_expected(0);
  with[0].wrong = 0;
  MUST(npuseg_embed_image(with[0].model, with[0].image, NULL, with[0].want, DIMS));
  MUST(npuseg_embed_text(with[0].model, "an orange star", SIZE_MAX, NULL, with[0].want_text, DIMS));
  for (i = 0; i < 3; ++i) {
    if (i != 0) with[i] = with[0];
    with[i].number = i;
  }
  for (i = 0; i < 3; ++i) {
    assert_int_equal(pthread_create(&threads[i], NULL, ask_often, &with[i]), 0);
  }
  for (i = 0; i < 3; ++i) {
    pthread_join(threads[i], NULL);
    assert_int_equal(with[i].wrong, 0);
  }
  MUST(npuseg_release(with[0].image));
  MUST(npuseg_release(with[0].model));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_reference), cmocka_unit_test(test_alone_and_together),
      cmocka_unit_test(test_many),      cmocka_unit_test(test_dims),
      cmocka_unit_test(test_tasks),     cmocka_unit_test(test_features_are_kept),
      cmocka_unit_test(test_threads),
  };
  return cmocka_run_group_tests_name("api.embed", tests, NULL, NULL);
}

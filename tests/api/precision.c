/* SPDX-License-Identifier: Apache-2.0 */
/* The precision option of EmbeddingGemma 2: close vectors, honest sizes, limits that count. */
#include "embed_support.h"

#define SIDE 48

static char last_log[4096];

static void keep_log(void *user, uint32_t level, const char *component, const char *message) {
  (void)user;
  (void)level;
  if (strcmp(component, "model.embeddinggemma2") != 0) return;
  snprintf(last_log, sizeof last_log, "%s", message);
}

struct loaded {
  npuseg_embeddinggemma2 *model;
  npuseg_model_info info;
  npuseg_counters counters;
  float vectors[3][DIMS]; /* of a text, a picture, and both */
};

static void load(uint32_t precision, struct loaded *out) {
  uint8_t rgb[3 * SIDE * SIDE];
  npuseg_image *image = NULL;
  npuseg_embed_part parts[2];
  size_t i;
  SIZED(npuseg_model_options, options);
  SIZED(npuseg_pixels, pixels);
  memset(out, 0, sizeof *out);
  options.precision = precision;
  options.log_level = NPUSEG_LOG_INFO;
  options.log = keep_log;
  MUST(npuseg_embeddinggemma2_load(NPUSEG_DEMO_EMBEDDER, &options, &out->model));
  out->info.struct_size = (uint32_t)sizeof out->info;
  MUST(npuseg_embeddinggemma2_info(out->model, &out->info));
  assert_int_equal(out->info.embedding_dim, DIMS);
  out->counters.struct_size = (uint32_t)sizeof out->counters;
  MUST(npuseg_embeddinggemma2_counters(out->model, &out->counters));
  for (i = 0; i < sizeof rgb; ++i) rgb[i] = (uint8_t)(i % 3 == 0 ? i / 40 : i * 3 / 50);
  MUST(npuseg_embed_text(out->model, "a red circle", NPUSEG_NUL_TERMINATED, NULL, out->vectors[0],
                         DIMS));
  MUST(npuseg_embed_rgb(out->model, rgb, SIDE, SIDE, 0, NULL, out->vectors[1], DIMS));
  pixels.data = rgb;
  pixels.format = NPUSEG_FORMAT_RGB;
  pixels.width = SIDE;
  pixels.height = SIDE;
  MUST(npuseg_image_from_pixels(&pixels, NULL, &image));
  parts[0] = image_part(image);
  parts[1] = text_part("a red circle");
  MUST(embed_parts(out->model, parts, 2, out->vectors[2]));
  MUST(npuseg_release(image));
}

static double cosine(const float *a, const float *b) {
  double sum = 0;
  int i;
  for (i = 0; i < DIMS; ++i) sum += (double)a[i] * (double)b[i];
  return sum;
}

static void test_precisions(void **state) {
  static const double bounds[] = {1, 1, 0.9999, 0.999};
  struct loaded plain, other;
  uint32_t precision;
  int i;
  (void)state;
  load(NPUSEG_PRECISION_AUTO, &plain);
  assert_int_equal(plain.counters.memory_used, 0);
  for (precision = NPUSEG_PRECISION_F32; precision <= NPUSEG_PRECISION_INT8; ++precision) {
    load(precision, &other);
    for (i = 0; i < 3; ++i) {
      if (precision == NPUSEG_PRECISION_F32) {
        assert_memory_equal(plain.vectors[i], other.vectors[i], sizeof plain.vectors[i]);
      } else {
        assert_true(cosine(plain.vectors[i], other.vectors[i]) >= bounds[precision]);
      }
    }
    assert_int_equal(other.info.parameters, plain.info.parameters);
    assert_int_equal(other.info.memory_estimate - other.info.weight_bytes,
                     plain.info.memory_estimate - plain.info.weight_bytes);
    if (precision == NPUSEG_PRECISION_INT8) {
      assert_string_equal(other.info.dtype, "I8");
      assert_true(other.info.weight_bytes < plain.info.weight_bytes);
      assert_true(other.counters.memory_used > other.info.parameters / 4);
      assert_true(other.counters.memory_used <= other.info.weight_bytes);
      assert_non_null(strstr(last_log, "linear layers in I8"));
    } else if (precision == NPUSEG_PRECISION_BF16) {
      assert_string_equal(other.info.dtype, "BF16");
      assert_true(other.info.weight_bytes <= plain.info.weight_bytes);
      assert_non_null(strstr(last_log, "linear layers in BF16"));
    } else {
      assert_string_equal(other.info.dtype, plain.info.dtype);
      assert_int_equal(other.info.weight_bytes, plain.info.weight_bytes);
      assert_null(strstr(last_log, "linear layers in"));
    }
    MUST(npuseg_release(other.model));
  }
  MUST(npuseg_release(plain.model));
}

static void test_copies_count(void **state) {
  npuseg_embeddinggemma2 *model = NULL;
  (void)state;
  {
    SIZED(npuseg_model_options, options);
    options.precision = NPUSEG_PRECISION_INT8;
    options.memory_limit = 100000;
    REFUSED(npuseg_embeddinggemma2_load(NPUSEG_DEMO_EMBEDDER, &options, &model),
            NPUSEG_LIMIT_EXCEEDED);
    assert_null(model);
    assert_non_null(strstr(npuseg_last_error(), "weights in I8"));
    options.precision = NPUSEG_PRECISION_INT8 + 1;
    REFUSED(npuseg_embeddinggemma2_load(NPUSEG_DEMO_EMBEDDER, &options, &model),
            NPUSEG_INVALID_ARGUMENT);
    options.precision = NPUSEG_PRECISION_AUTO;
    MUST(npuseg_embeddinggemma2_load(NPUSEG_DEMO_EMBEDDER, &options, &model));
    MUST(npuseg_release(model));
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_precisions),
      cmocka_unit_test(test_copies_count),
  };
  return cmocka_run_group_tests_name("api.precision", tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* What the embedding tests share: the demo model, its samples, inputs in short. */
#ifndef NPUSEG_TEST_EMBED_SUPPORT_H
#define NPUSEG_TEST_EMBED_SUPPORT_H

#include <math.h>

#include "demo_embeddings.h"
#include "support.h"

#define DIMS EXPECTED_DIMS

static inline npuseg_embeddinggemma2 *load_embedder(const npuseg_model_options *options) {
  npuseg_embeddinggemma2 *model = NULL;
  MUST(npuseg_embeddinggemma2_load(NPUSEG_DEMO_EMBEDDER, options, &model));
  assert_non_null(model);
  return model;
}

/* A sample by its place in expected_pictures. */
static inline npuseg_image *open_expected(size_t index) {
  char path[4096];
  snprintf(path, sizeof path, "%s/samples/%s", NPUSEG_DEMO_EMBEDDER, expected_pictures[index].name);
  return open_sample(path);
}

static inline npuseg_embed_part text_part(const char *text) {
  npuseg_embed_part part = {NULL, NULL, UINT64_MAX};
  part.text = text;
  return part;
}

static inline npuseg_embed_part image_part(npuseg_image *image) {
  npuseg_embed_part part = {NULL, NULL, 0};
  part.image = image;
  return part;
}

static inline npuseg_embed_input input_of(const npuseg_embed_part *parts, uint32_t count) {
  npuseg_embed_input input;
  memset(&input, 0, sizeof input);
  input.parts = parts;
  input.part_count = count;
  input.part_bytes = (uint32_t)sizeof *parts;
  return input;
}

static inline npuseg_status embed_parts(const npuseg_embeddinggemma2 *model,
                                        const npuseg_embed_part *parts, uint32_t count,
                                        float *vector) {
  const npuseg_embed_input input = input_of(parts, count);
  return npuseg_embed_batch(model, &input, sizeof input, 1, NULL, vector, 0, DIMS);
}

static inline size_t tokens_of(const npuseg_embeddinggemma2 *model, const npuseg_embed_part *parts,
                               uint32_t count) {
  const npuseg_embed_input input = input_of(parts, count);
  size_t tokens = 0, dropped = 1;
  MUST(npuseg_embed_tokens(model, &input, NULL, &tokens, &dropped));
  assert_int_equal(dropped, 0);
  return tokens;
}

static inline float largest_difference(const float *a, const float *b, size_t count) {
  float worst = 0.0F;
  size_t i;
  for (i = 0; i < count; ++i) worst = fmaxf(worst, fabsf(a[i] - b[i]));
  return worst;
}

static inline double norm_of(const float *v, size_t count) {
  double sum = 0.0;
  size_t i;
  for (i = 0; i < count; ++i) sum += (double)v[i] * (double)v[i];
  return sqrt(sum);
}

#endif

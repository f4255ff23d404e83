/* SPDX-License-Identifier: Apache-2.0 */
/* What the embedder refuses, and that nothing is written then: short buffers, NULLs, foreign
 * handles, texts that are too long or no UTF-8, placeholders, stopped calls, little memory. */
#define _POSIX_C_SOURCE 200809L /* mkdtemp, symlink */
#include <unistd.h>

#include "embed_support.h"

#define IMAGE "<|image|>"
#define AUDIO "<|audio|>"
#define VIDEO "<|video|>"

static void test_short_buffers(void **state) {
  npuseg_embeddinggemma2 *model = load_embedder(NULL);
  npuseg_image *image = open_expected(0);
  npuseg_embed_part parts[2];
  npuseg_embed_input inputs[2];
  float room[3 * DIMS];
  size_t i;
  SIZED(npuseg_counters, counters);
  (void)state;
  parts[0] = image_part(image);
  parts[1] = text_part("x");
  inputs[0] = input_of(&parts[0], 1);
  inputs[1] = input_of(&parts[1], 1);
  for (i = 0; i < 3 * DIMS; ++i) room[i] = 42.0F;
  REFUSED(npuseg_embed_text(model, "x", 1, NULL, room, DIMS - 1), NPUSEG_BUFFER_TOO_SMALL);
  REFUSED(npuseg_embed_image(model, image, NULL, room, DIMS - 1), NPUSEG_BUFFER_TOO_SMALL);
  REFUSED(npuseg_embed_rgb(model, "abc", 1, 1, 0, NULL, room, 0), NPUSEG_BUFFER_TOO_SMALL);
  REFUSED(npuseg_embed_image_text(model, image, "x", 1, NULL, room, 1), NPUSEG_BUFFER_TOO_SMALL);
  REFUSED(npuseg_embed_batch(model, inputs, sizeof inputs[0], 2, NULL, room, 0, 2 * DIMS - 1),
          NPUSEG_BUFFER_TOO_SMALL);
  REFUSED(
      npuseg_embed_batch(model, inputs, sizeof inputs[0], 2, NULL, room, 2 * DIMS, 3 * DIMS - 1),
      NPUSEG_BUFFER_TOO_SMALL);
  REFUSED(npuseg_embed_batch(model, inputs, sizeof inputs[0], 2, NULL, room, SIZE_MAX, SIZE_MAX),
          NPUSEG_INVALID_ARGUMENT);
  REFUSED(npuseg_embed_batch(model, inputs, sizeof inputs[0], 2, NULL, room, DIMS - 1, 3 * DIMS),
          NPUSEG_INVALID_ARGUMENT);
  REFUSED(npuseg_embed_batch(model, inputs, sizeof inputs[0], 2, NULL, NULL, 0, 0),
          NPUSEG_INVALID_ARGUMENT);
  /* One bad input of several. */
  inputs[1].task = "nope";
  REFUSED(npuseg_embed_batch(model, inputs, sizeof inputs[0], 2, NULL, room, 0, 3 * DIMS),
          NPUSEG_INVALID_ARGUMENT);
  assert_non_null(strstr(npuseg_last_error(), "input 1"));
  for (i = 0; i < 3 * DIMS; ++i) assert_true(room[i] == 42.0F);
  MUST(npuseg_embeddinggemma2_counters(model, &counters));
  assert_int_equal(counters.runs[NPUSEG_STAGE_VIT], 0);
  /* Nothing asked, nothing needed. */
  MUST(npuseg_embed_batch(model, NULL, sizeof inputs[0], 0, NULL, NULL, 0, 0));
  MUST(npuseg_release(image));
  MUST(npuseg_release(model));
}

static void test_arguments(void **state) {
  npuseg_embeddinggemma2 *model = load_embedder(NULL), *none = NULL;
  npuseg_sam3 *sam3 = load_demo();
  npuseg_image *image = open_expected(0);
  npuseg_embed_part part = text_part("x");
  npuseg_embed_input input = input_of(&part, 1);
  float v[DIMS];
  const int foreign = 0;
  size_t tokens = 0;
  SIZED(npuseg_model_info, info);
  SIZED(npuseg_counters, counters);
  SIZED(npuseg_embed_options, options);
  (void)state;
  /* Handles. */
  REFUSED(npuseg_embed_text(NULL, "x", 1, NULL, v, DIMS), NPUSEG_INVALID_ARGUMENT);
  REFUSED(npuseg_embed_text((npuseg_embeddinggemma2 *)(void *)sam3, "x", 1, NULL, v, DIMS),
          NPUSEG_INVALID_ARGUMENT);
  REFUSED(npuseg_embed_text((const npuseg_embeddinggemma2 *)(const void *)&foreign, "x", 1, NULL, v,
                            DIMS),
          NPUSEG_INVALID_ARGUMENT);
  REFUSED(npuseg_embed_image(model, (npuseg_image *)(void *)model, NULL, v, DIMS),
          NPUSEG_INVALID_ARGUMENT);
  REFUSED(npuseg_embed_image(model, NULL, NULL, v, DIMS), NPUSEG_INVALID_ARGUMENT);
  REFUSED(npuseg_image_prepare(image, (npuseg_sam3 *)(void *)model, NULL), NPUSEG_INVALID_ARGUMENT);
  REFUSED(npuseg_sam3_counters((npuseg_sam3 *)(void *)model, &counters), NPUSEG_INVALID_ARGUMENT);
  REFUSED(npuseg_embeddinggemma2_info((npuseg_embeddinggemma2 *)(void *)image, &info),
          NPUSEG_INVALID_ARGUMENT);
  /* Models. */
  REFUSED(npuseg_embeddinggemma2_load(NPUSEG_DEMO_DIR, NULL, &none), NPUSEG_UNSUPPORTED);
  assert_null(none);
  REFUSED(npuseg_embeddinggemma2_load(NULL, NULL, &none), NPUSEG_INVALID_ARGUMENT);
  REFUSED(npuseg_embeddinggemma2_load("", NULL, &none), NPUSEG_INVALID_ARGUMENT);
  REFUSED(npuseg_embeddinggemma2_load(NPUSEG_DEMO_EMBEDDER "/none", NULL, &none), NPUSEG_NOT_FOUND);
  REFUSED(npuseg_embeddinggemma2_load(NPUSEG_DEMO_EMBEDDER, NULL, NULL), NPUSEG_INVALID_ARGUMENT);
  REFUSED(npuseg_embeddinggemma2_probe(NPUSEG_DEMO_DIR, &info), NPUSEG_UNSUPPORTED);
  REFUSED(npuseg_embeddinggemma2_probe(NPUSEG_DEMO_EMBEDDER, NULL), NPUSEG_INVALID_ARGUMENT);
  MUST(npuseg_embeddinggemma2_probe(NPUSEG_DEMO_EMBEDDER, &info));
  assert_string_equal(info.kind, "embeddinggemma2");
  assert_int_equal(info.embedding_dim, DIMS);
  assert_int_equal(info.soft_tokens, 70);
  assert_int_equal(info.max_tokens, 8192);
  /* NULLs. */
  REFUSED(npuseg_embed_text(model, NULL, 0, NULL, v, DIMS), NPUSEG_INVALID_ARGUMENT);
  REFUSED(npuseg_embed_text(model, "x", 1, NULL, NULL, DIMS), NPUSEG_INVALID_ARGUMENT);
  REFUSED(npuseg_embed_image_text(model, image, NULL, 0, NULL, v, DIMS), NPUSEG_INVALID_ARGUMENT);
  REFUSED(npuseg_embed_image_text(model, NULL, "x", 1, NULL, v, DIMS), NPUSEG_INVALID_ARGUMENT);
  REFUSED(npuseg_embed_rgb(model, NULL, 1, 1, 0, NULL, v, DIMS), NPUSEG_INVALID_ARGUMENT);
  REFUSED(npuseg_embed_rgb(model, "abc", 0, 1, 0, NULL, v, DIMS), NPUSEG_INVALID_ARGUMENT);
  REFUSED(npuseg_embed_rgb(model, "abc", 1, 0, 0, NULL, v, DIMS), NPUSEG_INVALID_ARGUMENT);
  REFUSED(npuseg_embed_rgb(model, "abc", 1, 1, 2, NULL, v, DIMS), NPUSEG_INVALID_ARGUMENT);
  REFUSED(npuseg_embed_rgb(model, "abc", 1, UINT32_MAX, SIZE_MAX / 2, NULL, v, DIMS),
          NPUSEG_INVALID_ARGUMENT);
  REFUSED(npuseg_embed_rgb(model, "abc", UINT32_MAX, 1, 0, NULL, v, DIMS), NPUSEG_LIMIT_EXCEEDED);
  REFUSED(npuseg_embed_batch(model, NULL, sizeof input, 1, NULL, v, 0, DIMS),
          NPUSEG_INVALID_ARGUMENT);
  REFUSED(npuseg_embed_batch(model, &input, 3, 1, NULL, v, 0, DIMS), NPUSEG_INVALID_ARGUMENT);
  REFUSED(npuseg_embed_batch(model, &input, SIZE_MAX, 1, NULL, v, 0, DIMS),
          NPUSEG_INVALID_ARGUMENT);
  REFUSED(npuseg_embed_batch(model, &input, sizeof input, SIZE_MAX, NULL, v, 0, DIMS),
          NPUSEG_INVALID_ARGUMENT);
  REFUSED(npuseg_embed_tokens(model, NULL, NULL, &tokens, NULL), NPUSEG_INVALID_ARGUMENT);
  MUST(npuseg_embed_tokens(model, &input, NULL, NULL, NULL));
  REFUSED(npuseg_embed_model_input(model, NULL, NULL, 1, 0, NULL, 0, NULL, NULL),
          NPUSEG_INVALID_ARGUMENT);
  REFUSED(npuseg_embed_model_input(model, &input, NULL, 0, 0, NULL, 0, &tokens, NULL),
          NPUSEG_INVALID_ARGUMENT);
  REFUSED(npuseg_embed_model_input(model, &input, NULL, NPUSEG_EMBED_RAW_PIXEL_VALUES, 0, NULL, 0,
                                   &tokens, NULL),
          NPUSEG_INVALID_ARGUMENT);
  /* Parts. */
  input.part_count = 0;
  REFUSED(npuseg_embed_tokens(model, &input, NULL, &tokens, NULL), NPUSEG_INVALID_ARGUMENT);
  input.part_count = 65537;
  REFUSED(npuseg_embed_tokens(model, &input, NULL, &tokens, NULL), NPUSEG_LIMIT_EXCEEDED);
  input.part_count = 1;
  input.part_bytes = 7;
  REFUSED(npuseg_embed_tokens(model, &input, NULL, &tokens, NULL), NPUSEG_INVALID_ARGUMENT);
  input.part_bytes = 0;
  MUST(npuseg_embed_tokens(model, &input, NULL, &tokens, NULL));
  part.image = image;
  REFUSED(npuseg_embed_tokens(model, &input, NULL, &tokens, NULL), NPUSEG_INVALID_ARGUMENT);
  part.image = NULL;
  part.text = NULL;
  REFUSED(npuseg_embed_tokens(model, &input, NULL, &tokens, NULL), NPUSEG_INVALID_ARGUMENT);
  /* A length that no text has is refused before its bytes are read. */
  part.text = "x";
  part.text_bytes = UINT64_MAX - 1;
  REFUSED(npuseg_embed_tokens(model, &input, NULL, &tokens, NULL), NPUSEG_LIMIT_EXCEEDED);
  REFUSED(npuseg_embed_text(model, "x", (size_t)1 << 40, NULL, v, DIMS), NPUSEG_LIMIT_EXCEEDED);
  /* Options. */
  options.flags = 4;
  REFUSED(npuseg_embed_text(model, "x", 1, &options, v, DIMS), NPUSEG_UNSUPPORTED);
  options.flags = 0;
  options.threads = 100000;
  REFUSED(npuseg_embed_text(model, "x", 1, &options, v, DIMS), NPUSEG_INVALID_ARGUMENT);
  options.threads = 0;
  options.struct_size = 0;
  REFUSED(npuseg_embed_text(model, "x", 1, &options, v, DIMS), NPUSEG_INVALID_ARGUMENT);
  MUST(npuseg_release(image));
  MUST(npuseg_release(sam3));
  MUST(npuseg_release(model));
  REFUSED(npuseg_embed_text(model, "x", 1, NULL, v, DIMS), NPUSEG_INVALID_ARGUMENT);
}

static void test_placeholders(void **state) {
  npuseg_embeddinggemma2 *model = load_embedder(NULL);
  npuseg_image *a = open_expected(0), *b = open_expected(3);
  float want[DIMS], got[DIMS];
  npuseg_embed_part p[3];
  size_t i;
  const char *const refused_texts[] = {IMAGE, AUDIO, VIDEO, "a " IMAGE " b", "<bos><|audio|>"};
  const char *const refused_with_picture[] = {IMAGE IMAGE, AUDIO, VIDEO, IMAGE AUDIO, IMAGE VIDEO};
  const char *const plain_texts[] = {"<|image>", "<image|>",   "<|audio>", "<pad>", "<eos>",
                                     "<unk>",    "<|image |>", "|image|",  "<bos>"};
  (void)state;
  for (i = 0; i < sizeof refused_texts / sizeof refused_texts[0]; ++i) {
    REFUSED(npuseg_embed_text(model, refused_texts[i], SIZE_MAX, NULL, got, DIMS),
            NPUSEG_INVALID_ARGUMENT);
    REFUSED(npuseg_embed_image_text(model, a, refused_with_picture[i], SIZE_MAX, NULL, got, DIMS),
            NPUSEG_INVALID_ARGUMENT);
  }
  for (i = 0; i < sizeof plain_texts / sizeof plain_texts[0]; ++i) {
    MUST(npuseg_embed_text(model, plain_texts[i], SIZE_MAX, NULL, got, DIMS));
  }
  /* The picture stands where the text says. */
  MUST(npuseg_embed_image(model, a, NULL, want, DIMS));
  MUST(npuseg_embed_image_text(model, a, IMAGE, SIZE_MAX, NULL, got, DIMS));
  assert_memory_equal(got, want, sizeof want);
  MUST(npuseg_embed_image_text(model, a, "b", 1, NULL, want, DIMS));
  MUST(npuseg_embed_image_text(model, a, IMAGE "b", SIZE_MAX, NULL, got, DIMS));
  assert_memory_equal(got, want, sizeof want);
  p[0] = text_part("a ");
  p[1] = image_part(a);
  p[2] = text_part(" b");
  MUST(embed_parts(model, p, 3, want));
  MUST(npuseg_embed_image_text(model, a, "a " IMAGE " b", SIZE_MAX, NULL, got, DIMS));
  assert_memory_equal(got, want, sizeof want);
  /* Two placeholders, two pictures, in order; split ones count, too. */
  p[0] = image_part(a);
  p[1] = text_part(" or ");
  p[2] = image_part(b);
  MUST(embed_parts(model, p, 3, want));
  p[1] = image_part(b);
  p[2] = text_part(IMAGE " or " IMAGE);
  MUST(embed_parts(model, p, 3, got));
  assert_memory_equal(got, want, sizeof want);
  p[2] = text_part(IMAGE " or");
  REFUSED(embed_parts(model, p, 3, got), NPUSEG_INVALID_ARGUMENT);
  MUST(npuseg_embed_image(model, a, NULL, want, DIMS));
  p[0] = text_part("<|ima");
  p[1] = image_part(a);
  p[2] = text_part("ge|>");
  MUST(embed_parts(model, p, 3, got));
  assert_memory_equal(got, want, sizeof want);
  MUST(npuseg_release(a));
  MUST(npuseg_release(b));
  MUST(npuseg_release(model));
}

static void test_utf8(void **state) {
  npuseg_embeddinggemma2 *model = load_embedder(NULL);
  const char *const bad[] = {"\xff", "a\xed\xa0\x80", "\xc0\x80", "\xf4\x90\x80\x80", "ab\xe2\x82"};
  const char *const replaced[] = {
      "\xef\xbf\xbd", "a\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd", "\xef\xbf\xbd\xef\xbf\xbd",
      "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd", "ab\xef\xbf\xbd"};
  float want[DIMS], got[DIMS];
  size_t i;
  SIZED(npuseg_embed_options, options);
  (void)state;
  options.flags = NPUSEG_EMBED_REPLACE_INVALID_UTF8;
  for (i = 0; i < sizeof bad / sizeof bad[0]; ++i) {
    REFUSED(npuseg_embed_text(model, bad[i], SIZE_MAX, NULL, got, DIMS), NPUSEG_INVALID_ARGUMENT);
    MUST(npuseg_embed_text(model, bad[i], SIZE_MAX, &options, got, DIMS));
    MUST(npuseg_embed_text(model, replaced[i], SIZE_MAX, NULL, want, DIMS));
    assert_memory_equal(got, want, sizeof want);
  }
  /* A counted text may hold NUL, and ends where its length says. */
  MUST(npuseg_embed_text(model, "a\0b", 3, NULL, got, DIMS));
  MUST(npuseg_embed_text(model, "a\0b", SIZE_MAX, NULL, want, DIMS));
  assert_true(largest_difference(got, want, DIMS) > 1e-3F);
  MUST(npuseg_release(model));
}

/* The demo model with another limit of tokens, as links. */
static void make_short_model(char *folder, unsigned limit) {
  static const char *const kFiles[] = {"config.json",
                                       "model.safetensors",
                                       "tokenizer.json",
                                       "tokenizer_config.json",
                                       "processor_config.json",
                                       "modules.json",
                                       "1_Pooling",
                                       "2_Normalize",
                                       "config_sentence_transformers.json"};
  char from[4096], to[4096];
  FILE *file;
  size_t i;
  assert_non_null(mkdtemp(folder));
  for (i = 0; i < sizeof kFiles / sizeof kFiles[0]; ++i) {
    snprintf(from, sizeof from, "%s/%s", NPUSEG_DEMO_EMBEDDER, kFiles[i]);
    snprintf(to, sizeof to, "%s/%s", folder, kFiles[i]);
    assert_int_equal(symlink(from, to), 0);
  }
  snprintf(to, sizeof to, "%s/sentence_bert_config.json", folder);
  file = fopen(to, "w");
  fprintf(file, "{\"max_seq_length\": %u}", limit);
  fclose(file);
}

static void remove_short_model(const char *folder) {
  char command[4200];
  snprintf(command, sizeof command, "rm -r '%s'", folder);
  assert_int_equal(system(command), 0);
}

static void test_too_long(void **state) {
  char folder[] = "/tmp/npuseg-embed-XXXXXX";
  npuseg_embeddinggemma2 *model = NULL;
  npuseg_image *image = open_expected(0); /* 68 tokens with its ends, start and end */
  npuseg_embed_part parts[2];
  npuseg_embed_input input;
  char fits[71], longer[72]; /* every character is a token */
  float want[DIMS], got[DIMS];
  size_t i, tokens = 0, dropped = 9, bytes = 0;
  int64_t ids[72];
  SIZED(npuseg_embed_options, cut);
  SIZED(npuseg_model_info, info);
  (void)state;
  make_short_model(folder, 72);
  MUST(npuseg_embeddinggemma2_load(folder, NULL, &model));
  MUST(npuseg_embeddinggemma2_info(model, &info));
  assert_int_equal(info.max_tokens, 72);
  cut.flags = NPUSEG_EMBED_TRUNCATE_TEXT;
  for (i = 0; i < 70; ++i) fits[i] = "\n7"[i % 2];
  fits[70] = '\0';
  parts[0] = text_part(fits);
  input = input_of(parts, 1);
  MUST(npuseg_embed_tokens(model, &input, NULL, &tokens, &dropped));
  assert_int_equal(tokens, 72);
  assert_int_equal(dropped, 0);
  MUST(npuseg_embed_text(model, fits, SIZE_MAX, NULL, want, DIMS));
  MUST(npuseg_embed_text(model, fits, SIZE_MAX, &cut, got, DIMS));
  assert_memory_equal(got, want, sizeof want);
  /* One more: refused with both numbers, or cut to the very text that fits. */
  snprintf(longer, sizeof longer, "%s\n", fits);
  REFUSED(npuseg_embed_text(model, longer, SIZE_MAX, NULL, got, DIMS), NPUSEG_LIMIT_EXCEEDED);
  assert_non_null(strstr(npuseg_last_error(), "73"));
  assert_non_null(strstr(npuseg_last_error(), "72"));
  parts[0] = text_part(longer);
  REFUSED(npuseg_embed_tokens(model, &input, NULL, &tokens, &dropped), NPUSEG_LIMIT_EXCEEDED);
  MUST(npuseg_embed_tokens(model, &input, &cut, &tokens, &dropped));
  assert_int_equal(tokens, 72);
  assert_int_equal(dropped, 1);
  MUST(npuseg_embed_text(model, longer, SIZE_MAX, &cut, got, DIMS));
  assert_memory_equal(got, want, sizeof want);
  MUST(npuseg_embed_model_input(model, &input, &cut, NPUSEG_EMBED_RAW_INPUT_IDS, 0, ids, sizeof ids,
                                &bytes, NULL));
  assert_int_equal(bytes, sizeof ids);
  assert_int_equal(ids[0], 2);
  assert_int_equal(ids[71], 1);
  /* Behind a picture four tokens are left; a text in front of it cannot be cut. */
  parts[0] = image_part(image);
  parts[1] = text_part(longer);
  input = input_of(parts, 2);
  REFUSED(npuseg_embed_tokens(model, &input, NULL, &tokens, &dropped), NPUSEG_LIMIT_EXCEEDED);
  MUST(npuseg_embed_tokens(model, &input, &cut, &tokens, &dropped));
  assert_int_equal(tokens, 72);
  assert_int_equal(dropped, 73 - 2 - 4);
  parts[0] = text_part(longer);
  parts[1] = image_part(image);
  REFUSED(npuseg_embed_tokens(model, &input, &cut, &tokens, &dropped), NPUSEG_LIMIT_EXCEEDED);
  parts[0] = image_part(image);
  REFUSED(npuseg_embed_tokens(model, &input, &cut, &tokens, &dropped), NPUSEG_LIMIT_EXCEEDED);
  MUST(npuseg_release(image));
  MUST(npuseg_release(model));
  remove_short_model(folder);
}

static void test_limit_of_the_model(void **state) {
  npuseg_embeddinggemma2 *model = load_embedder(NULL);
  const size_t bytes = (size_t)10 << 20;
  char *text = malloc(bytes);
  npuseg_embed_part part = {NULL, NULL, 0};
  npuseg_embed_input input = input_of(&part, 1);
  size_t i, tokens = 0, dropped = 0;
  float v[DIMS];
  SIZED(npuseg_embed_options, cut);
  (void)state;
  for (i = 0; i < bytes; ++i) text[i] = "red \nbox"[i % 8];
  part.text = text;
  part.text_bytes = bytes;
  cut.flags = NPUSEG_EMBED_TRUNCATE_TEXT;
  REFUSED(npuseg_embed_text(model, text, bytes, NULL, v, DIMS), NPUSEG_LIMIT_EXCEEDED);
  assert_non_null(strstr(npuseg_last_error(), "8192"));
  MUST(npuseg_embed_tokens(model, &input, &cut, &tokens, &dropped));
  assert_int_equal(tokens, 8192);
  assert_true(dropped > 1000000);
  free(text);
  MUST(npuseg_release(model));
}

struct watcher {
  int calls;
  int stop_at;
  uint32_t stage;
};
static int32_t watch(void *user, uint32_t stage, uint64_t done, uint64_t total) {
  struct watcher *watcher = user;
  (void)done;
  (void)total;
  watcher->stage = stage;
  return ++watcher->calls == watcher->stop_at ? 7 : 0;
}

static void test_stopped_calls(void **state) {
  npuseg_embeddinggemma2 *model = load_embedder(NULL);
  npuseg_image *image = open_expected(0);
  float want[DIMS], got[DIMS];
  int stop_at, cancelled = 0;
  size_t i;
  SIZED(npuseg_embed_options, options);
  (void)state;
  MUST(npuseg_embed_image_text(model, image, "x", 1, NULL, want, DIMS));
  for (i = 0; i < DIMS; ++i) got[i] = 42.0F;
  for (stop_at = 1; stop_at < 50; ++stop_at) {
    struct watcher watcher = {0, 0, 0};
    npuseg_status status;
    SIZED(npuseg_error_info, error);
    watcher.stop_at = stop_at;
    options.progress = watch;
    options.progress_user = &watcher;
    MUST(npuseg_image_forget(image));
    status = npuseg_embed_image_text(model, image, "x", 1, &options, got, DIMS);
    if (status == NPUSEG_OK) break;
    ++cancelled;
    assert_int_equal(status, NPUSEG_CANCELLED);
    MUST(npuseg_last_error_info(&error));
    assert_int_equal(error.os_error, 7);
    assert_int_equal(watcher.calls, stop_at); /* never called again */
    for (i = 0; i < DIMS; ++i) assert_true(got[i] == 42.0F);
  }
  assert_true(cancelled > 0);
  options.progress = NULL;
  options.deadline_nanoseconds = 1;
  for (i = 0; i < DIMS; ++i) got[i] = 42.0F;
  REFUSED(npuseg_embed_text(model, "x", 1, &options, got, DIMS), NPUSEG_TIMEOUT);
  REFUSED(npuseg_embed_image(model, image, &options, got, DIMS), NPUSEG_TIMEOUT);
  for (i = 0; i < DIMS; ++i) assert_true(got[i] == 42.0F);
  options.deadline_nanoseconds = UINT64_MAX;
  MUST(npuseg_embed_image_text(model, image, "x", 1, &options, got, DIMS));
  assert_memory_equal(got, want, sizeof want);
  MUST(npuseg_release(image));
  MUST(npuseg_release(model));
}

static void test_memory_limit(void **state) {
  npuseg_image *image = open_expected(0);
  uint64_t limit;
  int refused = 0, passed = 0;
  size_t i;
  (void)state;
  for (limit = 4096; limit <= UINT64_C(1) << 30; limit *= 4) {
    npuseg_embeddinggemma2 *model = NULL;
    npuseg_status status;
    float v[DIMS];
    SIZED(npuseg_model_options, options);
    for (i = 0; i < DIMS; ++i) v[i] = 42.0F;
    options.memory_limit = limit;
    status = npuseg_embeddinggemma2_load(NPUSEG_DEMO_EMBEDDER, &options, &model);
    if (status == NPUSEG_OK) {
      SIZED(npuseg_counters, counters);
      status = npuseg_embed_image_text(model, image, "a star", SIZE_MAX, NULL, v, DIMS);
      MUST(npuseg_embeddinggemma2_counters(model, &counters));
      assert_true(counters.memory_peak <= limit);
    }
    if (status == NPUSEG_OK) {
      ++passed;
    } else {
      assert_int_equal(status, NPUSEG_LIMIT_EXCEEDED);
      for (i = 0; i < DIMS; ++i) assert_true(v[i] == 42.0F);
      assert_int_equal(passed, 0);
      ++refused;
    }
    MUST(npuseg_release(model));
  }
  assert_true(refused > 0);
  assert_true(passed > 0);
  MUST(npuseg_release(image));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_short_buffers), cmocka_unit_test(test_arguments),
      cmocka_unit_test(test_placeholders),  cmocka_unit_test(test_utf8),
      cmocka_unit_test(test_too_long),      cmocka_unit_test(test_limit_of_the_model),
      cmocka_unit_test(test_stopped_calls), cmocka_unit_test(test_memory_limit),
  };
  return cmocka_run_group_tests_name("api.embed_errors", tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* A user who does what the documentation forbids or does not mention: callbacks that call back,
 * handles released in the middle of a call, options full of noise, odd bytes in names. */
#define _POSIX_C_SOURCE 200809L /* nanosleep */
#include <pthread.h>
#include <time.h>

#include "support.h"

static double seconds(void) {
  struct timespec now;
  timespec_get(&now, TIME_UTC);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static uint32_t noise_state = 1;
static uint32_t noise(void) {
  noise_state = noise_state * 1664525U + 1013904223U;
  return noise_state >> 8 | noise_state << 24;
}
/* Mostly small or extreme values: those are the interesting ones. */
static uint32_t odd_number(void) {
  static const uint32_t odd[] = {0, 1, 2, 3, 7, 0x7fffffffU, 0x80000000U, UINT32_MAX};
  return noise() % 4 == 0 ? noise() : odd[noise() % 8];
}

struct caller {
  npuseg_sam3 *model;
  npuseg_image *image;
  npuseg_image *other;
  int released;
  int calls;
  int refused;
  int answered;
};

/* Asks for the very thing that is being computed, for another picture, and about everything. */
static int32_t call_back(void *user, uint32_t stage, uint64_t done, uint64_t total) {
  struct caller *caller = user;
  npuseg_result *result = NULL;
  npuseg_status status;
  SIZED(npuseg_counters, counters);
  SIZED(npuseg_image_data, data);
  (void)done;
  (void)total;
  if (caller->calls++ > 20) return 0;
  if (npuseg_sam3_counters(caller->model, &counters) != NPUSEG_OK) return 1;
  if (npuseg_image_info(caller->image, &data) != NPUSEG_OK) return 2;
  status = npuseg_segment(caller->model, caller->image, "circle", NULL, &result);
  if (stage <= NPUSEG_STAGE_NECK) {
    if (status != NPUSEG_WRONG_STATE) return 3;
    caller->refused++;
  } else if (status != NPUSEG_OK) {
    return 4;
  }
  npuseg_release(result);
  result = NULL;
  if (npuseg_segment(caller->model, caller->other, "circle", NULL, &result) != NPUSEG_OK) return 5;
  caller->answered++;
  npuseg_release(result);
  return 0;
}

static void test_progress_callback_calls_back(void **state) {
  struct caller caller = {0};
  npuseg_result *result = NULL, *expected = NULL;
  SIZED(npuseg_segment_options, options);
  (void)state;
  caller.model = load_demo();
  caller.image = open_sample(SAMPLE("a.png"));
  caller.other = open_sample(SAMPLE("b.png"));
  options.progress = call_back;
  options.progress_user = &caller;
  MUST(npuseg_segment(caller.model, caller.image, "shapes", &options, &result));
  MUST(npuseg_segment(caller.model, caller.image, "shapes", NULL, &expected));
  assert_same_results(result, expected);
  assert_true(caller.refused > 0);
  assert_true(caller.answered > 0);
  MUST(npuseg_release(result));
  MUST(npuseg_release(expected));
  MUST(npuseg_release(caller.model));
  MUST(npuseg_release(caller.image));
  MUST(npuseg_release(caller.other));
}

/* Gives up every handle while the call is running. */
static int32_t release_all(void *user, uint32_t stage, uint64_t done, uint64_t total) {
  struct caller *caller = user;
  (void)stage;
  (void)done;
  (void)total;
  if (caller->released++ == 0) {
    if (npuseg_release(caller->model) != NPUSEG_OK) return 1;
    if (npuseg_image_forget(caller->image) != NPUSEG_OK) return 2;
    if (npuseg_release(caller->image) != NPUSEG_OK) return 3;
  }
  return 0;
}

static void test_handles_released_during_their_call(void **state) {
  struct caller caller = {0};
  npuseg_result *result = NULL;
  npuseg_result_data info;
  SIZED(npuseg_segment_options, options);
  (void)state;
  caller.model = load_demo();
  caller.image = open_sample(SAMPLE("a.png"));
  options.progress = release_all;
  options.progress_user = &caller;
  MUST(npuseg_segment(caller.model, caller.image, "shapes", &options, &result));
  info_of(result, &info);
  assert_int_equal(info.width, 320);
  /* A new handle may live where a released one did; then the stale pointer is a live one again. */
  if ((void *)result != (void *)caller.model) {
    REFUSED(npuseg_release(caller.model), NPUSEG_INVALID_ARGUMENT);
  }
  if ((void *)result != (void *)caller.image) {
    REFUSED(npuseg_release(caller.image), NPUSEG_INVALID_ARGUMENT);
  }
  MUST(npuseg_release(result));
}

/* Asks the picture whose pixels come back. */
static npuseg_image *lender;
static int lender_answers;
static void ask_the_picture(void *user) {
  unsigned char copy[12];
  SIZED(npuseg_image_data, data);
  (void)user;
  if (lender == NULL) return;
  if (npuseg_image_info(lender, &data) != NPUSEG_OK || data.width != 2) return;
  if (npuseg_image_pixels(lender, copy, 0, sizeof copy, NULL) != NPUSEG_OK) return;
  if (npuseg_release(lender) == NPUSEG_OK) ++lender_answers;
}

static void test_release_callback_calls_back(void **state) {
  static const unsigned char rgb[12];
  unsigned char copy[12];
  SIZED(npuseg_pixels, pixels);
  (void)state;
  pixels.flags = NPUSEG_PIXELS_BORROW;
  pixels.format = NPUSEG_FORMAT_RGB;
  pixels.width = pixels.height = 2;
  pixels.data = rgb;
  pixels.release = ask_the_picture;
  MUST(npuseg_image_from_pixels(&pixels, NULL, &lender));
  MUST(npuseg_image_pixels(lender, copy, 0, sizeof copy, NULL));
  assert_int_equal(lender_answers, 1);
  REFUSED(npuseg_release(lender), NPUSEG_INVALID_ARGUMENT);
}

/* Holds the features of a picture for half a second. */
struct slow {
  npuseg_sam3 *model;
  npuseg_image *image;
  npuseg_status status;
  int slept;
};
static int32_t sleep_once(void *user, uint32_t stage, uint64_t done, uint64_t total) {
  const struct timespec half = {0, 500000000};
  struct slow *slow = user;
  (void)done;
  (void)total;
  if (stage == NPUSEG_STAGE_VIT && __atomic_exchange_n(&slow->slept, 1, __ATOMIC_SEQ_CST) == 0) {
    nanosleep(&half, NULL);
  }
  return 0;
}
static void *compute_slowly(void *user) {
  struct slow *slow = user;
  SIZED(npuseg_segment_options, options);
  options.progress = sleep_once;
  options.progress_user = slow;
  slow->status = npuseg_image_prepare(slow->image, slow->model, &options);
  return NULL;
}

static void test_deadline_while_another_thread_computes(void **state) {
  struct slow slow = {0};
  npuseg_result *result = NULL;
  pthread_t thread;
  double begin;
  SIZED(npuseg_segment_options, options);
  SIZED(npuseg_counters, counters);
  (void)state;
  slow.model = load_demo();
  slow.image = open_sample(SAMPLE("a.png"));
  assert_int_equal(pthread_create(&thread, NULL, compute_slowly, &slow), 0);
  while (__atomic_load_n(&slow.slept, __ATOMIC_SEQ_CST) == 0) {
    const struct timespec moment = {0, 1000000};
    nanosleep(&moment, NULL);
  }
  options.deadline_nanoseconds = 20000000;
  begin = seconds();
  REFUSED(npuseg_segment(slow.model, slow.image, "shapes", &options, &result), NPUSEG_TIMEOUT);
  assert_true(seconds() - begin < 0.4);
  assert_null(result);
  /* Without a deadline the features of the other thread are used. */
  MUST(npuseg_segment(slow.model, slow.image, "shapes", NULL, &result));
  assert_int_equal(pthread_join(thread, NULL), 0);
  assert_int_equal(slow.status, NPUSEG_OK);
  MUST(npuseg_sam3_counters(slow.model, &counters));
  assert_int_equal(counters.runs[NPUSEG_STAGE_VIT], 1);
  MUST(npuseg_release(result));
  MUST(npuseg_release(slow.model));
  MUST(npuseg_release(slow.image));
}

static void test_noise_in_options(void **state) {
  static const unsigned char pixels[64];
  npuseg_sam3 *model = load_demo();
  npuseg_image *image = open_sample(SAMPLE("a.png"));
  npuseg_box boxes[4];
  int i, ok = 0;
  size_t k;
  (void)state;
  for (i = 0; i < 3000; ++i) {
    npuseg_result *result = NULL;
    npuseg_image *made = NULL;
    npuseg_status status;
    SIZED(npuseg_segment_options, ask);
    SIZED(npuseg_image_options, open);
    SIZED(npuseg_pixels, from);
    from.flags = odd_number() & 1;
    from.format = odd_number();
    from.width = odd_number();
    from.height = odd_number();
    from.stride = (uint64_t)odd_number() << (noise() % 33);
    from.data = noise() % 8 ? pixels : NULL;
    from.data_bytes = 1 + noise() % sizeof pixels;
    open.flags = odd_number() & 3;
    open.alpha = odd_number();
    open.colour = odd_number();
    open.max_pixels = odd_number();
    open.max_side = odd_number();
    open.max_file_bytes = odd_number();
    status = npuseg_image_from_pixels(&from, &open, &made);
    assert_int_equal(made != NULL, status == NPUSEG_OK);
    if (made != NULL) {
      unsigned char rgb[3 * sizeof pixels];
      size_t need = 0;
      MUST(npuseg_image_pixels(made, NULL, 0, 0, &need));
      if (need <= sizeof rgb) MUST(npuseg_image_pixels(made, rgb, 0, sizeof rgb, NULL));
      ++ok;
    }
    npuseg_release(made);
    if (i % 20 != 0) continue;
    for (k = 0; k < 4; ++k) {
      uint32_t corners[5];
      size_t c;
      for (c = 0; c < 5; ++c) corners[c] = odd_number();
      if (noise() % 2) corners[4] = noise() % 2;
      memcpy(&boxes[k], corners, sizeof corners);
      if (noise() % 2) boxes[k].x0 = boxes[k].y0 = 5, boxes[k].x1 = boxes[k].y1 = 90;
    }
    ask.flags = odd_number() & 15;
    memcpy(&ask.threshold, &noise_state, 4);
    ask.mask_threshold = (float)odd_number();
    if (noise() % 2) ask.threshold = ask.mask_threshold = 0.3f;
    ask.max_instances = odd_number();
    ask.threads = odd_number() % 8;
    ask.boxes = noise() % 4 ? boxes : NULL;
    ask.box_count = noise() % 5;
    ask.box_bytes = noise() % 4 ? 0 : odd_number();
    if (ask.box_bytes > sizeof boxes[0]) ask.box_count = ask.box_count ? 1 : 0;
    if (ask.box_bytes > sizeof boxes) ask.box_bytes = sizeof boxes;
    status = npuseg_segment(model, image, noise() % 4 ? "shapes" : NULL, &ask, &result);
    assert_int_equal(result != NULL, status == NPUSEG_OK);
    if (status != NPUSEG_OK) assert_true(strlen(npuseg_last_error()) > 10);
    npuseg_release(result);
  }
  assert_true(ok > 10);
  MUST(npuseg_release(image));
  MUST(npuseg_release(model));
}

static void test_messages_are_utf8(void **state) {
  npuseg_image *image = NULL;
  char path[6000];
  const unsigned char *at;
  (void)state;
  REFUSED(npuseg_image_open("/none/\xff\xfe-\xc3\xa9-\xe2\x82.png", NULL, &image),
          NPUSEG_NOT_FOUND);
  assert_non_null(strstr(npuseg_last_error(),
                         "/none/\xef\xbf\xbd\xef\xbf\xbd-\xc3\xa9-\xef\xbf\xbd\xef\xbf\xbd.png"));
  /* Cut messages too: every byte that continues a character has its head before it. */
  for (size_t shift = 1; shift < 5; ++shift) {
    memset(path, 'x', sizeof path);
    path[0] = '/';
    for (size_t i = shift; i + 2 < sizeof path; i += 2) memcpy(path + i, "\xc3\xa9", 2);
    path[sizeof path - 1] = 0;
    assert_int_not_equal(npuseg_image_open(path, NULL, &image), NPUSEG_OK);
    for (at = (const unsigned char *)npuseg_last_error(); *at != 0; ++at) {
      if (*at == 0xc3) {
        assert_int_equal(at[1], 0xa9);
      } else if (*at == 0xa9) {
        assert_int_equal(at[-1], 0xc3);
      }
    }
  }
  assert_null(image);
}

static void test_misaligned_floats(void **state) {
  npuseg_sam3 *model = load_demo();
  npuseg_image *image = open_sample(SAMPLE("a.png"));
  npuseg_result *result = NULL;
  char *memory;
  size_t need = 0;
  (void)state;
  MUST(npuseg_image_model_input(image, model, NULL, 0, &need));
  memory = malloc(need + 4);
  REFUSED(npuseg_image_model_input(image, model, (float *)(void *)(memory + 1), need, NULL),
          NPUSEG_INVALID_ARGUMENT);
  MUST(npuseg_image_model_input(image, model, (float *)(void *)memory, need, NULL));
  MUST(npuseg_segment(model, image, "shapes", NULL, &result));
  MUST(npuseg_result_raw(result, NPUSEG_RAW_PRED_BOXES, NULL, 0, &need, NULL));
  MUST(npuseg_result_raw(result, NPUSEG_RAW_PRED_BOXES, memory + 1, need, NULL, NULL));
  REFUSED(
      npuseg_result_mask(result, 0, NPUSEG_MASK_PROBABILITIES, memory + 1, 0, SIZE_MAX / 2, NULL),
      NPUSEG_INVALID_ARGUMENT);
  free(memory);
  MUST(npuseg_release(result));
  MUST(npuseg_release(image));
  MUST(npuseg_release(model));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_progress_callback_calls_back),
      cmocka_unit_test(test_handles_released_during_their_call),
      cmocka_unit_test(test_release_callback_calls_back),
      cmocka_unit_test(test_deadline_while_another_thread_computes),
      cmocka_unit_test(test_noise_in_options),
      cmocka_unit_test(test_messages_are_utf8),
      cmocka_unit_test(test_misaligned_floats),
  };
  return cmocka_run_group_tests_name("api.hostile", tests, NULL, NULL);
}

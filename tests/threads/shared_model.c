/* SPDX-License-Identifier: Apache-2.0 */
/* One model, many threads: equal bytes, features computed once, own errors, use after fork. */
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support.h"

#define THREADS 8

static void test_same_bytes_for_any_thread_count(void **state) {
  npuseg_result *results[3] = {NULL, NULL, NULL};
  float raw[3][24 * 4];
  uint32_t t;
  (void)state;
  for (t = 0; t < 3; ++t) {
    npuseg_sam3 *model = NULL;
    npuseg_image *image = open_sample(SAMPLE("d.jpg"));
    SIZED(npuseg_model_options, options);
    options.threads = t + 1;
    MUST(npuseg_sam3_load(NPUSEG_DEMO_DIR, &options, &model));
    MUST(npuseg_segment(model, image, "shapes", NULL, &results[t]));
    MUST(npuseg_result_raw(results[t], NPUSEG_RAW_PRED_BOXES, raw[t], sizeof raw[t], NULL, NULL));
    MUST(npuseg_release(image));
    MUST(npuseg_release(model));
  }
  for (t = 1; t < 3; ++t) {
    assert_same_results(results[0], results[t]);
    assert_memory_equal(raw[0], raw[t], sizeof raw[0]);
    MUST(npuseg_release(results[t]));
  }
  MUST(npuseg_release(results[0]));
}

struct job {
  pthread_t thread;
  npuseg_sam3 *model;
  npuseg_image *image;
  npuseg_result *result;
  npuseg_status status;
  char message[512];
  int number;
};

/* cmocka's asserts belong to the main thread, so threads only record. */
static void *ask(void *user) {
  struct job *job = user;
  SIZED(npuseg_segment_options, options);
  options.threads = 2;
  job->status = npuseg_segment(job->model, job->image, "shapes", &options, &job->result);
  return NULL;
}

static void test_eight_threads_at_once(void **state) {
  struct job jobs[THREADS];
  npuseg_sam3 *model = load_demo();
  npuseg_image *image = open_sample(SAMPLE("a.png"));
  int i;
  SIZED(npuseg_counters, counters);
  (void)state;
  memset(jobs, 0, sizeof jobs);
  for (i = 0; i < THREADS; ++i) {
    jobs[i].model = model;
    jobs[i].image = image;
    assert_int_equal(pthread_create(&jobs[i].thread, NULL, ask, &jobs[i]), 0);
  }
  for (i = 0; i < THREADS; ++i) {
    pthread_join(jobs[i].thread, NULL);
    assert_int_equal(jobs[i].status, NPUSEG_OK);
    assert_same_results(jobs[0].result, jobs[i].result);
  }
  MUST(npuseg_sam3_counters(model, &counters));
  assert_int_equal(counters.runs[NPUSEG_STAGE_VIT], 1);
  assert_int_equal(counters.runs[NPUSEG_STAGE_DETR_DECODER], THREADS);
  for (i = 0; i < THREADS; ++i) MUST(npuseg_release(jobs[i].result));
  MUST(npuseg_release(image));
  MUST(npuseg_release(model));
}

/* Of a bundle pictures and prompts take turns on one device; every thread has its own of both. */
static void *ask_bundle(void *user) {
  struct job *job = user;
  char prompt[16];
  SIZED(npuseg_segment_options, options);
  snprintf(prompt, sizeof prompt, "a %c", 'a' + job->number % 4);
  options.threads = 1;
  options.threshold = -1.0f; /* every query */
  options.flags = NPUSEG_SEGMENT_ALL_MASKS;
  job->status = npuseg_segment(job->model, job->image, prompt, &options, &job->result);
  return NULL;
}

static npuseg_image *pattern(int number) {
  static unsigned char rgb[40 * 30 * 3];
  size_t i;
  for (i = 0; i < sizeof rgb; ++i) {
    rgb[i] = (unsigned char)((uint32_t)(i + (size_t)number * 977) * 2654435761U >> 24);
  }
  return image_of_rgb(rgb, 40, 30);
}

static void test_eight_threads_on_a_bundle(void **state) {
  struct job jobs[THREADS], alone;
  npuseg_sam3 *model = NULL;
  npuseg_image *images[2];
  int i;
  (void)state;
  memset(jobs, 0, sizeof jobs);
  MUST(npuseg_sam3_load(NPUSEG_TEST_BUNDLES "/sam3", NULL, &model));
  for (i = 0; i < 2; ++i) images[i] = pattern(i);
  for (i = 0; i < THREADS; ++i) {
    jobs[i].model = model;
    jobs[i].number = i;
    jobs[i].image = images[i % 2];
    assert_int_equal(pthread_create(&jobs[i].thread, NULL, ask_bundle, &jobs[i]), 0);
  }
  for (i = 0; i < THREADS; ++i) {
    pthread_join(jobs[i].thread, NULL);
    assert_int_equal(jobs[i].status, NPUSEG_OK);
  }
  MUST(npuseg_release(model));
  for (i = 0; i < THREADS; ++i) {
    model = NULL;
    MUST(npuseg_sam3_load(NPUSEG_TEST_BUNDLES "/sam3", NULL, &model));
    alone = jobs[i];
    alone.model = model;
    alone.image = pattern(i % 2);
    alone.result = NULL;
    ask_bundle(&alone);
    assert_int_equal(alone.status, NPUSEG_OK);
    assert_same_results(alone.result, jobs[i].result);
    MUST(npuseg_release(alone.result));
    MUST(npuseg_release(alone.image));
    MUST(npuseg_release(jobs[i].result));
    MUST(npuseg_release(model));
  }
  for (i = 0; i < 2; ++i) MUST(npuseg_release(images[i]));
}

static void *provoke(void *user) {
  struct job *job = user;
  char path[64];
  int n;
  snprintf(path, sizeof path, "/nonexistent/picture-%d.png", job->number);
  for (n = 0; n < 200; ++n) {
    npuseg_image *image = NULL;
    job->status = npuseg_image_open(path, NULL, &image);
    snprintf(job->message, sizeof job->message, "%s", npuseg_last_error());
    if (strstr(job->message, path) == NULL) break;
  }
  return NULL;
}

static void test_errors_belong_to_their_thread(void **state) {
  struct job jobs[THREADS];
  char path[64];
  int i;
  (void)state;
  memset(jobs, 0, sizeof jobs);
  for (i = 0; i < THREADS; ++i) {
    jobs[i].number = i;
    assert_int_equal(pthread_create(&jobs[i].thread, NULL, provoke, &jobs[i]), 0);
  }
  for (i = 0; i < THREADS; ++i) {
    pthread_join(jobs[i].thread, NULL);
    assert_int_equal(jobs[i].status, NPUSEG_NOT_FOUND);
    snprintf(path, sizeof path, "/nonexistent/picture-%d.png", i);
    assert_non_null(strstr(jobs[i].message, path));
  }
}

static void *retain_and_release(void *user) {
  struct job *job = user;
  int n;
  for (n = 0; n < 20000; ++n) {
    job->status = npuseg_retain(job->image);
    if (job->status == NPUSEG_OK) job->status = npuseg_release(job->image);
    if (job->status != NPUSEG_OK) break;
  }
  return NULL;
}

static void test_references_are_atomic(void **state) {
  struct job jobs[THREADS];
  npuseg_image *image = open_sample(SAMPLE("a.png"));
  int i;
  (void)state;
  memset(jobs, 0, sizeof jobs);
  for (i = 0; i < THREADS; ++i) {
    jobs[i].image = image;
    assert_int_equal(pthread_create(&jobs[i].thread, NULL, retain_and_release, &jobs[i]), 0);
  }
  for (i = 0; i < THREADS; ++i) {
    pthread_join(jobs[i].thread, NULL);
    assert_int_equal(jobs[i].status, NPUSEG_OK);
  }
  MUST(npuseg_release(image));
  REFUSED(npuseg_release(image), NPUSEG_INVALID_ARGUMENT);
}

static void test_use_after_fork(void **state) {
  npuseg_sam3 *model = load_demo();
  npuseg_image *image = open_sample(SAMPLE("a.png"));
  npuseg_result *result = NULL;
  npuseg_instance found[24];
  size_t count = 24;
  int status = 0;
  pid_t child;
  (void)state;
#ifdef __SANITIZE_THREAD__
  print_message("the thread checker knows no child of a process with threads\n");
  skip();
#endif
  MUST(npuseg_segment(model, image, "shapes", NULL, &result)); /* the pool has threads now */
  MUST(npuseg_result_instances(result, found, sizeof found[0], &count));
  child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    npuseg_result *again = NULL;
    npuseg_instance mine[24];
    size_t n = 24;
    alarm(120); /* a hang is a failure */
    if (npuseg_image_forget(image) != NPUSEG_OK) _exit(2);
    if (npuseg_segment(model, image, "shapes", NULL, &again) != NPUSEG_OK) _exit(3);
    if (npuseg_result_instances(again, mine, sizeof mine[0], &n) != NPUSEG_OK) _exit(4);
    _exit(n == count && memcmp(mine, found, n * sizeof mine[0]) == 0 ? 0 : 5);
  }
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFEXITED(status));
  assert_int_equal(WEXITSTATUS(status), 0);
  MUST(npuseg_release(result));
  MUST(npuseg_release(image));
  MUST(npuseg_release(model));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_same_bytes_for_any_thread_count),
      cmocka_unit_test(test_eight_threads_at_once),
      cmocka_unit_test(test_eight_threads_on_a_bundle),
      cmocka_unit_test(test_errors_belong_to_their_thread),
      cmocka_unit_test(test_references_are_atomic),
      cmocka_unit_test(test_use_after_fork),
  };
  return cmocka_run_group_tests_name("threads.shared_model", tests, NULL, NULL);
}

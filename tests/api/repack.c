/* SPDX-License-Identifier: Apache-2.0 */
/* Packing the demo checkpoint for the kernels of a bundle through the public API: the new bundle
 * finds what the checkpoint finds, holds to its references, and is there whole or not at all. */
#define _POSIX_C_SOURCE 200809L /* mkdtemp */
#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support.h"

#define BUNDLE(name) NPUSEG_TEST_BUNDLES "/" name
#define PROMPT "purple squares"

/* What the public program holds masks of a bundle to: a pixel in a hundred may differ. */
#define LEAST_IOU 0.99

static char folder[64];
static char target[96];

static int make_folder(void **state) {
  (void)state;
  snprintf(folder, sizeof folder, "/tmp/npuseg-repack-XXXXXX");
  if (mkdtemp(folder) == NULL) return -1;
  snprintf(target, sizeof target, "%s/new", folder);
  return 0;
}

static int remove_folder(void **state) {
  char command[128];
  (void)state;
  snprintf(command, sizeof command, "rm -r '%s'", folder);
  return system(command);
}

/* Nothing but what a test made lies in its folder, no half-written bundle. */
static int is_empty(void) { return rmdir(folder) == 0 && mkdir(folder, 0700) == 0; }

static npuseg_result *find(const char *directory) {
  npuseg_sam3 *model = NULL;
  npuseg_result *result = NULL;
  npuseg_image *image = open_sample(SAMPLE("a.png"));
  MUST(npuseg_sam3_load(directory, NULL, &model));
  MUST(npuseg_segment(model, image, PROMPT, NULL, &result));
  MUST(npuseg_release(image));
  MUST(npuseg_release(model));
  return result;
}

static unsigned char *mask_of(const npuseg_result *result, size_t instance, size_t bytes,
                              uint32_t width) {
  unsigned char *mask = malloc(bytes);
  assert_non_null(mask);
  MUST(npuseg_result_mask(result, instance, NPUSEG_MASK_BYTES, mask, width, bytes, NULL));
  return mask;
}

static void test_same_instances(void **state) {
  npuseg_result *want, *got;
  npuseg_result_data info, same;
  uint32_t i;
  (void)state;
  MUST(npuseg_repack(NPUSEG_DEMO_DIR, BUNDLE("sam3_kernels_bare"), target, NULL));
  want = find(NPUSEG_DEMO_DIR);
  got = find(target);
  info_of(want, &info);
  info_of(got, &same);
  assert_int_equal(info.instances, 2);
  assert_int_equal(same.instances, 2);
  for (i = 0; i < info.instances; ++i) {
    const size_t bytes = (size_t)info.width * info.height;
    unsigned char *a = mask_of(want, i, bytes, info.width);
    unsigned char *b = mask_of(got, i, bytes, info.width);
    size_t at, both = 0, any = 0;
    for (at = 0; at < bytes; ++at) {
      both += a[at] != 0 && b[at] != 0;
      any += a[at] != 0 || b[at] != 0;
    }
    assert_true(any > 0 && (double)both / (double)any >= LEAST_IOU);
    free(a);
    free(b);
  }
  MUST(npuseg_release(want));
  MUST(npuseg_release(got));
}

static void test_references(void **state) {
  npuseg_report *report = NULL;
  SIZED(npuseg_report_data, data);
  (void)state;
  if (!NPUSEG_TEST_PNG) {
    /* The reference picture of these kernels cannot be read. */
    REFUSED(npuseg_repack(NPUSEG_DEMO_DIR, BUNDLE("sam3_kernels"), target, NULL),
            NPUSEG_UNSUPPORTED);
    assert_true(is_empty());
    return;
  }
  MUST(npuseg_repack(NPUSEG_DEMO_DIR, BUNDLE("sam3_kernels"), target, NULL));
  MUST(npuseg_check(target, NULL, &report));
  MUST(npuseg_report_info(report, &data));
  assert_int_equal(data.failures, 0);
  assert_true(data.rows > 15);
  MUST(npuseg_release(report));
  /* What is there is never written over. */
  REFUSED(npuseg_repack(NPUSEG_DEMO_DIR, BUNDLE("sam3_kernels"), target, NULL),
          NPUSEG_INVALID_ARGUMENT);
}

static int32_t stop_at(void *user, uint32_t stage, uint64_t done, uint64_t total) {
  uint32_t *calls = user;
  (void)stage;
  (void)done;
  (void)total;
  return (*calls)-- == 0;
}

static void test_cancel(void **state) {
  /* From the first call on until it is not stopped any more. */
  npuseg_status status = NPUSEG_CANCELLED;
  uint32_t wait, stopped = 0;
  (void)state;
  for (wait = 0; status == NPUSEG_CANCELLED; wait += 1 + wait / 2) {
    uint32_t calls = wait;
    SIZED(npuseg_model_options, options);
    options.progress = stop_at;
    options.progress_user = &calls;
    status = npuseg_repack(NPUSEG_DEMO_DIR, BUNDLE("sam3_kernels_bare"), target, &options);
    if (status == NPUSEG_CANCELLED) {
      ++stopped;
      assert_true(is_empty());
    }
  }
  assert_int_equal(status, NPUSEG_OK);
  assert_true(stopped >= 2);
}

static void test_refusals(void **state) {
  SIZED(npuseg_model_options, options);
  (void)state;
  REFUSED(npuseg_repack(NULL, BUNDLE("sam3_kernels"), target, NULL), NPUSEG_INVALID_ARGUMENT);
  REFUSED(npuseg_repack(NPUSEG_DEMO_DIR, NULL, target, NULL), NPUSEG_INVALID_ARGUMENT);
  REFUSED(npuseg_repack(NPUSEG_DEMO_DIR, BUNDLE("sam3_kernels"), NULL, NULL),
          NPUSEG_INVALID_ARGUMENT);
  REFUSED(npuseg_repack(NPUSEG_DEMO_DIR, BUNDLE("sam3_kernels"), "", NULL),
          NPUSEG_INVALID_ARGUMENT);
  REFUSED(npuseg_repack(NPUSEG_DEMO_DIR, BUNDLE("sam3"), target, NULL), NPUSEG_UNSUPPORTED);
  REFUSED(npuseg_repack(NPUSEG_DEMO_DIR, BUNDLE("gemma"), target, NULL), NPUSEG_UNSUPPORTED);
  REFUSED(npuseg_repack(NPUSEG_DEMO_EMBEDDER, BUNDLE("sam3_kernels"), target, NULL),
          NPUSEG_UNSUPPORTED);
  REFUSED(npuseg_repack(BUNDLE("sam3"), BUNDLE("sam3_kernels"), target, NULL),
          NPUSEG_INVALID_ARGUMENT);
  REFUSED(npuseg_repack(NPUSEG_DEMO_DIR, NPUSEG_DEMO_DIR, target, NULL), NPUSEG_INVALID_ARGUMENT);
  REFUSED(npuseg_repack(NPUSEG_DEMO_DIR, BUNDLE("sam3_cut"), target, NULL), NPUSEG_CORRUPT_DATA);
  options.memory_limit = 1000;
  /* What runs the model on the reference picture is counted, where that can be read. */
  REFUSED(npuseg_repack(NPUSEG_DEMO_DIR, BUNDLE("sam3_kernels"), target, &options),
          NPUSEG_TEST_PNG ? NPUSEG_LIMIT_EXCEEDED : NPUSEG_UNSUPPORTED);
  assert_true(is_empty());
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_same_instances, make_folder, remove_folder),
      cmocka_unit_test_setup_teardown(test_references, make_folder, remove_folder),
      cmocka_unit_test_setup_teardown(test_cancel, make_folder, remove_folder),
      cmocka_unit_test_setup_teardown(test_refusals, make_folder, remove_folder),
  };
  return cmocka_run_group_tests_name("repack", tests, NULL, NULL);
}

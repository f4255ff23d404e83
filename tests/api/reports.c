/* SPDX-License-Identifier: Apache-2.0 */
/* Reports through the public API: a bundle against its references, files against the sums that the
 * directory states; what is wrong is a failed row that names it. */
#include <math.h>

#include "support.h"

#define BUNDLE(name) NPUSEG_TEST_BUNDLES "/" name

static void data_of(const npuseg_report *report, npuseg_report_data *data) {
  memset(data, 0, sizeof *data);
  data->struct_size = (uint32_t)sizeof *data;
  MUST(npuseg_report_info(report, data));
}

/* The row of this subject and name; the test fails when there is none. */
static npuseg_row row_of(const npuseg_report *report, const char *subject, const char *name) {
  npuseg_report_data data;
  uint32_t i;
  SIZED(npuseg_row, row);
  data_of(report, &data);
  for (i = 0; i < data.rows; ++i) {
    row.struct_size = (uint32_t)sizeof row;
    MUST(npuseg_report_row(report, i, &row));
    assert_int_equal(row.index, i);
    assert_non_null(row.detail);
    if (strcmp(row.subject, subject) == 0 && strcmp(row.name, name) == 0) return row;
  }
  print_error("no row %s %s\n", subject, name);
  fail();
  return row;
}

static npuseg_report *check(const char *directory, const char *device) {
  npuseg_report *report = NULL;
  SIZED(npuseg_model_options, options);
  options.device = device;
  MUST(npuseg_check(directory, &options, &report));
  assert_non_null(report);
  return report;
}

static npuseg_report *verify(const char *directory) {
  npuseg_report *report = NULL;
  MUST(npuseg_verify(directory, NULL, &report));
  assert_non_null(report);
  return report;
}

static void check_references(const char *device, const char *used) {
  npuseg_report *report = check(BUNDLE("gemma"), device);
  npuseg_report_data data;
  npuseg_row row;
  data_of(report, &data);
  assert_int_equal(data.failures, 0);
  assert_string_equal(data.kind, "embeddinggemma2");
  assert_string_equal(data.source, "bundle");
  assert_string_equal(data.device_used, used);
  assert_true(strlen(data.device_why) > 4);
  row = row_of(report, "picture synth", "pixels");
  assert_int_equal(row.state, NPUSEG_ROW_OK);
  assert_int_equal(row.compare, NPUSEG_BOUND_AT_MOST);
  assert_true(row.value == 0.0 && row.bound == 1e-6);
  row = row_of(report, "picture synth", "embedding");
  assert_int_equal(row.compare, NPUSEG_BOUND_AT_LEAST);
  assert_true(row.value >= 0.999 && row.bound == 0.999);
  assert_int_equal(row_of(report, "picture synth", "positions").state, NPUSEG_ROW_OK);
  assert_int_equal(row_of(report, "picture synth", "nearest text").state, NPUSEG_ROW_OK);
  assert_int_equal(row_of(report, "picture synth", "soft tokens").state, NPUSEG_ROW_INFO);
  assert_int_equal(row_of(report, "text 2", "ids").state, NPUSEG_ROW_OK);
  assert_int_equal(row_of(report, "text 3", "embedding").state, NPUSEG_ROW_OK);
  assert_true(row_of(report, "texts", "with identical ids").value == 4.0);
  MUST(npuseg_release(report));
}

static void test_check_sam3(void **state) {
  static const struct {
    const char *subject;
    const char *name;
    double bound;
  } stages[] = {{"text encoder", "tokens", 0.9999}, {"ViT", "map", 0.98},
                {"neck", "level 1", 0.995},         {"DETR encoder", "map", 0.99},
                {"DETR decoder", "hidden", 0.999},  {"mask decoder", "masks", 0.995}};
  npuseg_report *report = check(BUNDLE("sam3"), "soft:faithful");
  npuseg_report_data data;
  npuseg_row row;
  size_t i;
  (void)state;
  data_of(report, &data);
  assert_int_equal(data.failures, 0);
  assert_string_equal(data.kind, "sam3");
  for (i = 0; i < sizeof stages / sizeof *stages; ++i) {
    row = row_of(report, stages[i].subject, stages[i].name);
    assert_int_equal(row.state, NPUSEG_ROW_OK);
    assert_int_equal(row.compare, NPUSEG_BOUND_ABOVE);
    assert_true(row.bound == stages[i].bound && row.value > 0.999999);
  }
  assert_true(row_of(report, "packing", "bytes").value == 0.0);
  assert_int_equal(row_of(report, "tokens 1", "ids").state, NPUSEG_ROW_OK);
  assert_int_equal(row_of(report, "picture", "pixels").state, NPUSEG_ROW_OK);
  MUST(npuseg_release(report));
  report = check(BUNDLE("sam3_swapped"), NULL);
  assert_int_equal(row_of(report, "ViT", "map").state, NPUSEG_ROW_OK);
  assert_int_equal(row_of(report, "neck", "level 0").state, NPUSEG_ROW_FAILED);
  assert_int_equal(row_of(report, "neck", "level 1").state, NPUSEG_ROW_FAILED);
  assert_int_equal(row_of(report, "neck", "level 2").state, NPUSEG_ROW_OK);
  assert_int_equal(row_of(report, "DETR encoder", "map").state, NPUSEG_ROW_OK);
  MUST(npuseg_release(report));
  report = NULL;
  REFUSED(npuseg_check(BUNDLE("sam3_host"), NULL, &report), NPUSEG_WRONG_STATE);
  assert_null(report);
}

static void test_check(void **state) {
  (void)state;
  check_references(NULL, "soft");
  check_references("soft:faithful", "soft:faithful");
}

static void test_check_that_fails(void **state) {
  npuseg_report *report = check(BUNDLE("wrong"), NULL);
  npuseg_report_data data;
  (void)state;
  data_of(report, &data);
  assert_int_equal(data.failures, 3);
  assert_int_equal(row_of(report, "picture synth", "pixels").state, NPUSEG_ROW_FAILED);
  assert_int_equal(row_of(report, "text 1", "ids").state, NPUSEG_ROW_FAILED);
  assert_true(row_of(report, "text 1", "ids").value == 1.0);
  assert_int_equal(row_of(report, "text 2", "embedding").state, NPUSEG_ROW_FAILED);
  assert_int_equal(row_of(report, "text 2", "ids").state, NPUSEG_ROW_OK);
  MUST(npuseg_release(report));
}

static int32_t stop(void *user, uint32_t stage, uint64_t done, uint64_t total) {
  (void)user;
  (void)stage;
  (void)done;
  (void)total;
  return 1;
}

static void test_refusals(void **state) {
  npuseg_report *report = NULL;
  npuseg_report_data data;
  SIZED(npuseg_model_options, options);
  SIZED(npuseg_row, row);
  (void)state;
  REFUSED(npuseg_check(BUNDLE("gemma_pictures"), NULL, &report), NPUSEG_WRONG_STATE);
  REFUSED(npuseg_check(NPUSEG_DEMO_EMBEDDER, NULL, &report), NPUSEG_UNSUPPORTED);
  REFUSED(npuseg_check(BUNDLE("none"), NULL, &report), NPUSEG_NOT_FOUND);
  REFUSED(npuseg_check(BUNDLE("cut"), NULL, &report), NPUSEG_CORRUPT_DATA);
  REFUSED(npuseg_verify(BUNDLE("none"), NULL, &report), NPUSEG_NOT_FOUND);
  REFUSED(npuseg_verify(NULL, NULL, &report), NPUSEG_INVALID_ARGUMENT);
  REFUSED(npuseg_verify(BUNDLE("gemma"), NULL, NULL), NPUSEG_INVALID_ARGUMENT);
  options.device = "xrt";
  REFUSED(npuseg_check(BUNDLE("gemma"), &options, &report), NPUSEG_DEVICE_UNAVAILABLE);
  options.device = NULL;
  options.progress = stop;
  REFUSED(npuseg_check(BUNDLE("gemma"), &options, &report), NPUSEG_CANCELLED);
  REFUSED(npuseg_verify(BUNDLE("gemma"), &options, &report), NPUSEG_CANCELLED);
  assert_null(report);
  report = verify(BUNDLE("gemma"));
  data_of(report, &data);
  REFUSED(npuseg_report_row(report, data.rows, &row), NPUSEG_INVALID_ARGUMENT);
  REFUSED(npuseg_report_row(report, 0, NULL), NPUSEG_INVALID_ARGUMENT);
  REFUSED(npuseg_report_info(NULL, &data), NPUSEG_INVALID_ARGUMENT);
  MUST(npuseg_release(report));
  REFUSED(npuseg_report_info(report, &data), NPUSEG_INVALID_ARGUMENT);
}

static void test_verify(void **state) {
  npuseg_report *report = verify(BUNDLE("summed"));
  npuseg_report_data data;
  npuseg_row row;
  (void)state;
  data_of(report, &data);
  assert_int_equal(data.failures, 0);
  assert_string_equal(data.source, "bundle");
  assert_string_equal(data.device_used, "");
  assert_int_equal(row_of(report, "model", "structure").state, NPUSEG_ROW_OK);
  row = row_of(report, "tensors.txt", "structure");
  assert_int_equal(row.state, NPUSEG_ROW_OK);
  assert_true(isnan(row.value));
  if (NPUSEG_TEST_SHA256) {
    assert_int_equal(row_of(report, "tensors.bin", "SHA-256").state, NPUSEG_ROW_OK);
    assert_int_equal(row_of(report, "kernels/t_o_x2.insts.bin", "SHA-256").state, NPUSEG_ROW_OK);
  } else {
    assert_int_equal(row_of(report, "files", "SHA-256").state, NPUSEG_ROW_INFO);
  }
  MUST(npuseg_release(report));

  if (NPUSEG_TEST_SHA256) {
    report = verify(BUNDLE("flipped"));
    data_of(report, &data);
    assert_int_equal(data.failures, 1);
    assert_int_equal(row_of(report, "tensors.bin", "SHA-256").state, NPUSEG_ROW_FAILED);
    assert_int_equal(row_of(report, "tensors.bin", "structure").state, NPUSEG_ROW_OK);
    MUST(npuseg_release(report));
  }
}

static void test_verify_damage(void **state) {
  npuseg_report *report = verify(BUNDLE("cut"));
  (void)state;
  assert_int_equal(row_of(report, "tensors.txt", "structure").state, NPUSEG_ROW_FAILED);
  MUST(npuseg_release(report));
  report = verify(BUNDLE("nowhere"));
  assert_int_equal(row_of(report, "model", "structure").state, NPUSEG_ROW_FAILED);
  assert_non_null(strstr(row_of(report, "model", "structure").detail, "t_o_x2"));
  MUST(npuseg_release(report));
  report = verify(BUNDLE("pointer"));
  assert_int_equal(row_of(report, "kernels/txt.xclbin", "structure").state, NPUSEG_ROW_FAILED);
  assert_non_null(strstr(row_of(report, "kernels/txt.xclbin", "structure").detail, "git lfs"));
  MUST(npuseg_release(report));
  report = verify(BUNDLE("sam3"));
  assert_int_equal(row_of(report, "model", "structure").state, NPUSEG_ROW_OK);
  MUST(npuseg_release(report));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_check_sam3),       cmocka_unit_test(test_check),
      cmocka_unit_test(test_check_that_fails), cmocka_unit_test(test_refusals),
      cmocka_unit_test(test_verify),           cmocka_unit_test(test_verify_damage),
  };
  return cmocka_run_group_tests_name("reports", tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Every struct with struct_size, in every size: too small, exact, larger with zero and with
 * non-zero tails. The list is generated, so a new struct does not build without its caller here. */
#include "struct_list.h"
#include "support.h"

static npuseg_sam3 *model;
static npuseg_image *image;
static npuseg_result *result;
static npuseg_embeddinggemma2 *embedder;
static npuseg_report *report;

static int set_up(void **state) {
  (void)state;
  model = load_demo();
  image = open_sample(SAMPLE("a.png"));
  MUST(npuseg_segment(model, image, "shapes", NULL, &result));
  MUST(npuseg_embeddinggemma2_load(NPUSEG_DEMO_EMBEDDER, NULL, &embedder));
  MUST(npuseg_verify(NPUSEG_DEMO_EMBEDDER, NULL, &report));
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  MUST(npuseg_release(model));
  MUST(npuseg_release(image));
  MUST(npuseg_release(result));
  MUST(npuseg_release(embedder));
  MUST(npuseg_release(report));
  return 0;
}

/* One call that reads or writes the struct; what it makes is given back. */
static npuseg_status use_npuseg_model_options(void *in) {
  npuseg_sam3 *made = NULL;
  const npuseg_status status = npuseg_sam3_load(NPUSEG_DEMO_DIR, in, &made);
  assert_int_equal(made != NULL, status == NPUSEG_OK);
  npuseg_release(made);
  return status;
}
static npuseg_status use_npuseg_image_options(void *in) {
  static const unsigned char grey[4];
  npuseg_image *made = NULL;
  npuseg_status status;
  SIZED(npuseg_pixels, pixels);
  pixels.format = NPUSEG_FORMAT_GREY;
  pixels.width = pixels.height = 2;
  pixels.data = grey;
  status = npuseg_image_from_pixels(&pixels, in, &made);
  assert_int_equal(made != NULL, status == NPUSEG_OK);
  npuseg_release(made);
  return status;
}
static npuseg_status use_npuseg_pixels(void *in) {
  static const unsigned char grey[4];
  npuseg_pixels *pixels = in;
  npuseg_image *made = NULL;
  npuseg_status status;
  pixels->format = NPUSEG_FORMAT_GREY;
  pixels->width = pixels->height = 2;
  pixels->data = grey;
  status = npuseg_image_from_pixels(in, NULL, &made);
  assert_int_equal(made != NULL, status == NPUSEG_OK);
  npuseg_release(made);
  return status;
}
static npuseg_status use_npuseg_segment_options(void *in) {
  npuseg_result *made = NULL;
  const npuseg_status status = npuseg_segment(model, image, "shapes", in, &made);
  assert_int_equal(made != NULL, status == NPUSEG_OK);
  npuseg_release(made);
  return status;
}
static npuseg_status use_npuseg_embed_options(void *in) {
  float vector[128];
  return npuseg_embed_text(embedder, "a star", NPUSEG_NUL_TERMINATED, in, vector, 128);
}
static npuseg_status use_npuseg_error_info(void *out) { return npuseg_last_error_info(out); }
static npuseg_status use_npuseg_model_info(void *out) { return npuseg_sam3_info(model, out); }
static npuseg_status use_npuseg_counters(void *out) { return npuseg_sam3_counters(model, out); }
static npuseg_status use_npuseg_device_info(void *out) { return npuseg_device_at(0, out); }
static npuseg_status use_npuseg_image_data(void *out) { return npuseg_image_info(image, out); }
static npuseg_status use_npuseg_result_data(void *out) { return npuseg_result_info(result, out); }
static npuseg_status use_npuseg_report_data(void *out) { return npuseg_report_info(report, out); }
static npuseg_status use_npuseg_row(void *out) { return npuseg_report_row(report, 0, out); }

struct entry {
  const char *name;
  size_t size;
  size_t first;
  npuseg_status (*use)(void *);
};
#define ENTRY(type, first_size) {#type, sizeof(type), first_size, use_##type},
static const struct entry read_structs[] = {STRUCTS_READ(ENTRY)};
static const struct entry written_structs[] = {STRUCTS_WRITTEN(ENTRY)};
#define COUNT(array) (sizeof(array) / sizeof(array)[0])

/* A page of which the first bytes are the struct, so that a size may be anything. */
static union {
  uint32_t struct_size;
  uint64_t aligned;
  unsigned char bytes[8192];
} page;

static npuseg_status use_with(const struct entry *entry, size_t size) {
  page.struct_size = (uint32_t)size;
  return entry->use(&page);
}

static void refuses_sizes_of_no_version(const struct entry *entry) {
  static const uint32_t large[] = {4097, 65536, INT32_MAX, UINT32_MAX};
  size_t size, i;
  memset(&page, 0, sizeof page);
  for (size = 0; size < entry->first; ++size) {
    const npuseg_status status = use_with(entry, size);
    if (status != NPUSEG_INVALID_ARGUMENT) print_error("%s of %zu bytes\n", entry->name, size);
    assert_int_equal(status, NPUSEG_INVALID_ARGUMENT);
  }
  assert_non_null(strstr(npuseg_last_error(), entry->name));
  for (i = 0; i < COUNT(large); ++i) {
    assert_int_equal(use_with(entry, large[i]), NPUSEG_INVALID_ARGUMENT);
  }
}

static void test_read_structs(void **state) {
  size_t i, at;
  (void)state;
  assert_true(COUNT(read_structs) >= 4);
  for (i = 0; i < COUNT(read_structs); ++i) {
    const struct entry *entry = &read_structs[i];
    refuses_sizes_of_no_version(entry);
    memset(&page, 0, sizeof page);
    assert_int_equal(use_with(entry, entry->first), NPUSEG_OK);
    assert_int_equal(use_with(entry, entry->size), NPUSEG_OK);
    assert_int_equal(use_with(entry, entry->size + 1), NPUSEG_OK);
    assert_int_equal(use_with(entry, 4096), NPUSEG_OK);
    /* What lies behind the caller's struct is not looked at. */
    memset(page.bytes + entry->size, 0xff, 64);
    assert_int_equal(use_with(entry, entry->size), NPUSEG_OK);
    for (at = entry->size; at < entry->size + 64; ++at) {
      memset(page.bytes + entry->size, 0, 64);
      page.bytes[at] = 1;
      assert_int_equal(use_with(entry, entry->size + 64), NPUSEG_UNSUPPORTED);
      assert_int_equal(use_with(entry, at), NPUSEG_OK);
    }
  }
}

static void test_written_structs(void **state) {
  size_t i, size, at;
  (void)state;
  assert_true(COUNT(written_structs) >= 6);
  for (i = 0; i < COUNT(written_structs); ++i) {
    const struct entry *entry = &written_structs[i];
    const size_t sizes[] = {entry->first, entry->size, entry->size + 4, entry->size + 64, 4096};
    refuses_sizes_of_no_version(entry);
    for (at = 4; at < sizeof page; ++at) assert_int_equal(page.bytes[at], 0);
    for (size = 0; size < COUNT(sizes); ++size) {
      memset(&page, 0xa5, sizeof page);
      assert_int_equal(use_with(entry, sizes[size]), NPUSEG_OK);
      assert_int_equal(page.struct_size, sizes[size]);
      for (at = entry->size; at < sizes[size]; ++at) assert_int_equal(page.bytes[at], 0);
      for (at = sizes[size]; at < sizeof page; ++at) assert_int_equal(page.bytes[at], 0xa5);
    }
  }
}

/* Arrays of structs carry the size of an element. */
static void test_elements(void **state) {
  npuseg_instance found[24];
  npuseg_box box = {10, 10, 200, 200, 1};
  npuseg_result *made = NULL;
  size_t size, count;
  SIZED(npuseg_segment_options, options);
  (void)state;
  for (size = 0; size < sizeof found[0]; ++size) {
    count = COUNT(found);
    REFUSED(npuseg_result_instances(result, found, size, &count), NPUSEG_INVALID_ARGUMENT);
  }
  options.boxes = &box;
  options.box_count = 1;
  for (size = 1; size < sizeof box; ++size) {
    options.box_bytes = (uint32_t)size;
    REFUSED(npuseg_segment(model, image, NULL, &options, &made), NPUSEG_INVALID_ARGUMENT);
  }
  options.box_bytes = 4097;
  REFUSED(npuseg_segment(model, image, NULL, &options, &made), NPUSEG_INVALID_ARGUMENT);
  assert_null(made);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_read_structs),
      cmocka_unit_test(test_written_structs),
      cmocka_unit_test(test_elements),
  };
  return cmocka_run_group_tests_name("api.structs", tests, set_up, tear_down);
}

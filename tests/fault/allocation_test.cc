// SPDX-License-Identifier: Apache-2.0
// The k-th allocation fails, for growing k: loading a model, opening pixels, segmenting, reading a
// mask. After each: an orderly status or success, no leak, and the next attempt succeeds.
// malloc and its relatives are defined here and so replace the C library's for the whole process.
#include <link.h>
#include <malloc.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "cmocka_cpp.h"
#include "npuseg.h"

extern "C" {
void* __libc_malloc(size_t size);
void* __libc_calloc(size_t count, size_t size);
void* __libc_realloc(void* old, size_t size);
void* __libc_memalign(size_t alignment, size_t size);
}

namespace {

// Attempts of one phase; more allocations than that are sampled at even distances.
constexpr uint64_t kAttempts = 500;
// What caches outside the library (oneDNN's kernels, the C library's arenas) may keep of all the
// attempts together; a leak of one picture or one model per attempt is far above it.
constexpr size_t kKeptBytes = size_t{4} << 20;

std::atomic<bool> counting{false};
std::atomic<uint64_t> count{0};
std::atomic<uint64_t> fail_at{0};  // 0: never

struct Range {
  uintptr_t begin = 0;
  uintptr_t end = 0;
};
// Code that ends the process by itself when memory is short, whatever its caller does: the OpenMP
// run-time library and the dynamic loader.
constexpr size_t kMaxSpared = 4;
Range spared[kMaxSpared];
size_t spared_count = 0;

int note_object(dl_phdr_info* info, size_t, void*) {
  if (std::strstr(info->dlpi_name, "libgomp") == nullptr &&
      std::strstr(info->dlpi_name, "libomp") == nullptr &&
      std::strstr(info->dlpi_name, "ld-linux") == nullptr) {
    return 0;
  }
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const auto& header = info->dlpi_phdr[i];
    if (header.p_type != PT_LOAD || (header.p_flags & PF_X) == 0 || spared_count == kMaxSpared) {
      continue;
    }
    const uintptr_t begin = info->dlpi_addr + header.p_vaddr;
    spared[spared_count++] = {begin, begin + header.p_memsz};
  }
  return 0;
}

bool fails(const void* caller) {
  if (!counting.load(std::memory_order_relaxed)) return false;
  const auto at = reinterpret_cast<uintptr_t>(caller);
  for (size_t i = 0; i < spared_count; ++i) {
    if (at >= spared[i].begin && at < spared[i].end) return false;
  }
  return count.fetch_add(1) + 1 == fail_at.load(std::memory_order_relaxed);
}

}  // namespace

#define NPUSEG_FAIL_OR(call)                  \
  do {                                        \
    if (fails(__builtin_return_address(0))) { \
      errno = ENOMEM;                         \
      return nullptr;                         \
    }                                         \
    return call;                              \
  } while (false)

extern "C" {
__attribute__((visibility("default"))) void* malloc(size_t size) noexcept {
  NPUSEG_FAIL_OR(__libc_malloc(size));
}
__attribute__((visibility("default"))) void* calloc(size_t n, size_t size) noexcept {
  NPUSEG_FAIL_OR(__libc_calloc(n, size));
}
__attribute__((visibility("default"))) void* realloc(void* old, size_t size) noexcept {
  NPUSEG_FAIL_OR(__libc_realloc(old, size));
}
__attribute__((visibility("default"))) void* aligned_alloc(size_t alignment, size_t size) noexcept {
  NPUSEG_FAIL_OR(__libc_memalign(alignment, size));
}
__attribute__((visibility("default"))) void* memalign(size_t alignment, size_t size) noexcept {
  NPUSEG_FAIL_OR(__libc_memalign(alignment, size));
}
__attribute__((visibility("default"))) int posix_memalign(void** out, size_t alignment,
                                                          size_t size) noexcept {
  if (fails(__builtin_return_address(0))) return ENOMEM;
  void* memory = __libc_memalign(alignment, size);
  if (memory == nullptr) return ENOMEM;
  *out = memory;
  return 0;
}
}

namespace {

constexpr uint32_t kWidth = 64;
constexpr uint32_t kHeight = 48;
const char* const kModel = NPUSEG_SOURCE_DIR "/demo/sam3";

npuseg_model_options model_options() {
  npuseg_model_options options = {};
  options.struct_size = sizeof options;
  options.threads = 1;
  return options;
}

npuseg_status load(npuseg_sam3** model) {
  const npuseg_model_options options = model_options();
  return npuseg_sam3_load(kModel, &options, model);
}

// A dark disc on a bright ground, enough for the demo model to do all its work.
std::vector<uint8_t>& picture() {
  static std::vector<uint8_t> rgb = [] {
    std::vector<uint8_t> made(size_t{3} * kWidth * kHeight);
    for (uint32_t y = 0; y < kHeight; ++y) {
      for (uint32_t x = 0; x < kWidth; ++x) {
        const int dx = static_cast<int>(x) - 32;
        const int dy = static_cast<int>(y) - 24;
        const bool inside = dx * dx + dy * dy < 200;
        uint8_t* pixel = &made[size_t{3} * (y * kWidth + x)];
        pixel[0] = inside ? 220 : 240;
        pixel[1] = inside ? 20 : 240;
        pixel[2] = inside ? 20 : 240;
      }
    }
    return made;
  }();
  return rgb;
}

npuseg_status open_pixels(npuseg_image** image) {
  npuseg_pixels pixels = {};
  pixels.struct_size = sizeof pixels;
  pixels.format = NPUSEG_FORMAT_RGB;
  pixels.width = kWidth;
  pixels.height = kHeight;
  pixels.data = picture().data();
  pixels.data_bytes = picture().size();
  return npuseg_image_from_pixels(&pixels, nullptr, image);
}

npuseg_sam3* shared_model = nullptr;

// One phase: everything it makes, it releases.
npuseg_status load_once() {
  npuseg_sam3* model = nullptr;
  const npuseg_status status = load(&model);
  if ((status == NPUSEG_OK) != (model != nullptr)) return NPUSEG_INTERNAL;
  npuseg_release(model);
  return status;
}

npuseg_status segment_once() {
  npuseg_image* image = nullptr;
  npuseg_result* result = nullptr;
  npuseg_status status = open_pixels(&image);
  if (status == NPUSEG_OK) {
    npuseg_segment_options options = {};
    options.struct_size = sizeof options;
    options.threads = 1;
    options.threshold = -1;  // every query is an instance, so that masks are made
    status = npuseg_segment(shared_model, image, "red circle", &options, &result);
    if ((status == NPUSEG_OK) != (result != nullptr)) status = NPUSEG_INTERNAL;
  }
  if (status == NPUSEG_OK) {
    static char runs[size_t{16} * kWidth * kHeight];
    status = npuseg_result_mask(result, 0, NPUSEG_MASK_RLE_STRING, runs, 0, sizeof runs, nullptr);
  }
  npuseg_release(result);
  npuseg_release(image);
  return status;
}

npuseg_status probe_once() {
  npuseg_model_info info = {};
  info.struct_size = sizeof info;
  return npuseg_sam3_probe(kModel, &info);
}

size_t used_bytes() {
  const struct mallinfo2 info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

void fail_each(const char* name, npuseg_status (*phase)()) {
  // Twice first: what is made once a process does not count as a leak.
  assert_int_equal(phase(), NPUSEG_OK);
  assert_int_equal(phase(), NPUSEG_OK);
  fail_at = 0;
  count = 0;
  counting = true;
  const npuseg_status clean = phase();
  counting = false;
  assert_int_equal(clean, NPUSEG_OK);
  const uint64_t total = count;
  assert_true(total > 0);
  const size_t before = used_bytes();
  const uint64_t stride = total / kAttempts + 1;
  uint64_t failures = 0;
  for (uint64_t k = 1; k <= total; k += stride) {
    count = 0;
    fail_at = k;
    counting = true;
    const npuseg_status status = phase();
    counting = false;
    if (status != NPUSEG_OK) {
      ++failures;
      if (status != NPUSEG_OUT_OF_MEMORY) {
        print_error("%s: allocation %llu of %llu: status %d: %s\n", name,
                    static_cast<unsigned long long>(k), static_cast<unsigned long long>(total),
                    status, npuseg_last_error());
      }
      assert_int_equal(status, NPUSEG_OUT_OF_MEMORY);
      assert_true(std::strlen(npuseg_last_error()) > 0);
    }
    // The next attempt succeeds; every tenth time is enough to see it and keeps the test short.
    if (k / stride % 10 == 0) assert_int_equal(phase(), NPUSEG_OK);
  }
  assert_int_equal(phase(), NPUSEG_OK);
  const size_t after = used_bytes();
  print_message("%s: %llu allocations, every %llu-th failed, %llu failures, %zu -> %zu bytes\n",
                name, static_cast<unsigned long long>(total),
                static_cast<unsigned long long>(stride), static_cast<unsigned long long>(failures),
                before, after);
  assert_true(failures > 0);
  assert_true(after <= before + kKeptBytes);
}

void probing_survives(void**) { fail_each("probe", probe_once); }
void loading_survives(void**) { fail_each("load", load_once); }
void segmenting_survives(void**) {
  assert_int_equal(load(&shared_model), NPUSEG_OK);
  fail_each("segment", segment_once);
  npuseg_release(shared_model);
}

}  // namespace

int main() {
  dl_iterate_phdr(note_object, nullptr);
  const CMUnitTest tests[] = {
      cmocka_unit_test(probing_survives),
      cmocka_unit_test(loading_survives),
      cmocka_unit_test(segmenting_survives),
  };
  return cmocka_run_group_tests_name("fault_allocation", tests, nullptr, nullptr);
}

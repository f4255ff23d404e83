// SPDX-License-Identifier: Apache-2.0
// Writing a PNG where it cannot be written: a file size limit (as a full disk, in the middle of the
// file), a folder that is not there, a folder as the target. The status says so, an existing file
// stays as it was, and no partial file is left.
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "cmocka_cpp.h"
#include "npuseg.h"

namespace {

namespace fs = std::filesystem;

constexpr uint32_t kSide = 256;
constexpr rlim_t kLimit = 4096;

// Noise, so that the compressed file is far larger than the limit.
std::vector<uint8_t> noise() {
  std::vector<uint8_t> pixels(size_t{3} * kSide * kSide);
  uint32_t state = 1;
  for (uint8_t& value : pixels) {
    state = state * 1664525u + 1013904223u;
    value = static_cast<uint8_t>(state >> 24);
  }
  return pixels;
}

npuseg_status write(const fs::path& path) {
  const std::vector<uint8_t> pixels = noise();
  return npuseg_write_png(path.c_str(), NPUSEG_FORMAT_RGB, kSide, kSide, pixels.data(), 0,
                          pixels.size());
}

size_t entries(const fs::path& folder) {
  size_t count = 0;
  for ([[maybe_unused]] const auto& entry : fs::directory_iterator(folder)) ++count;
  return count;
}

bool has_png() { return std::strstr(npuseg_build_info(), "no PNG") == nullptr; }

void nothing_partial_is_left(void**) {
  if (!has_png()) {
    assert_int_equal(write("/tmp/npuseg-none.png"), NPUSEG_UNSUPPORTED);
    return;
  }
  char name[] = "/tmp/npuseg-disk-XXXXXX";
  const fs::path folder = mkdtemp(name);
  const fs::path target = folder / "out.png";
  std::ofstream(target) << "old";

  signal(SIGXFSZ, SIG_IGN);
  rlimit old = {};
  assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
  const rlimit small = {kLimit, old.rlim_max};
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
  const npuseg_status status = write(target);
  const std::string message = npuseg_last_error();
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);

  assert_int_equal(status, NPUSEG_IO);
  assert_non_null(std::strstr(message.c_str(), "out.png"));
  assert_int_equal(entries(folder), 1);
  std::ifstream stream(target);
  const std::string kept((std::istreambuf_iterator<char>(stream)),
                         std::istreambuf_iterator<char>());
  assert_string_equal(kept.c_str(), "old");

  assert_int_equal(write(target), NPUSEG_OK);
  assert_int_equal(entries(folder), 1);
  assert_true(fs::file_size(target) > kLimit);
  fs::remove_all(folder);
}

void no_folder(void**) {
  if (!has_png()) return;
  assert_int_not_equal(write("/nonexistent/npuseg/out.png"), NPUSEG_OK);
  assert_true(std::strlen(npuseg_last_error()) > 10);
  char name[] = "/tmp/npuseg-disk-XXXXXX";
  const fs::path folder = mkdtemp(name);
  fs::create_directory(folder / "out.png");
  assert_int_not_equal(write(folder / "out.png"), NPUSEG_OK);
  assert_int_equal(entries(folder), 1);
  fs::remove_all(folder);
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(nothing_partial_is_left),
      cmocka_unit_test(no_folder),
  };
  return cmocka_run_group_tests_name("fault_full_disk", tests, nullptr, nullptr);
}

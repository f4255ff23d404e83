// SPDX-License-Identifier: Apache-2.0
// Files of a model that change while it is open: cut, written to, extended, replaced by renaming.
// A call either gives the answer of the files as they were or says what happened; it never reads
// what is not there any more.
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "cmocka_cpp.h"
#include "npuseg.h"

namespace {

namespace fs = std::filesystem;

const fs::path kSource = NPUSEG_SOURCE_DIR;
constexpr uint32_t kSide = 40;

// A copy of a folder, gone with the object.
class Copy {
 public:
  explicit Copy(const fs::path& from) {
    char name[] = "/tmp/npuseg-changed-XXXXXX";
    assert_non_null(mkdtemp(name));
    path_ = name;
    fs::copy(from, path_, fs::copy_options::recursive);
  }
  ~Copy() { fs::remove_all(path_); }
  Copy(const Copy&) = delete;
  Copy& operator=(const Copy&) = delete;
  [[nodiscard]] fs::path file(const char* name) const { return path_ / name; }
  [[nodiscard]] std::string path() const { return path_.string(); }

 private:
  fs::path path_;
};

std::vector<uint8_t> picture() {
  std::vector<uint8_t> rgb(size_t{kSide} * kSide * 3);
  for (size_t i = 0; i < rgb.size(); ++i) rgb[i] = static_cast<uint8_t>(i * 7 % 251);
  return rgb;
}

npuseg_status ask(npuseg_sam3* model) {
  const std::vector<uint8_t> rgb = picture();
  npuseg_pixels pixels = {};
  pixels.struct_size = sizeof pixels;
  pixels.data = rgb.data();
  pixels.format = NPUSEG_FORMAT_RGB;
  pixels.width = pixels.height = kSide;
  npuseg_image* image = nullptr;
  npuseg_result* result = nullptr;
  npuseg_status status = npuseg_image_from_pixels(&pixels, nullptr, &image);
  if (status == NPUSEG_OK) status = npuseg_segment(model, image, "cat", nullptr, &result);
  npuseg_release(result);
  npuseg_release(image);
  return status;
}

npuseg_status ask(npuseg_embeddinggemma2* model) {
  const std::vector<uint8_t> rgb = picture();
  std::vector<float> vector(4096);
  return npuseg_embed_rgb(model, rgb.data(), kSide, kSide, 0, nullptr, vector.data(),
                          vector.size());
}

npuseg_status load(const std::string& path, npuseg_sam3** model) {
  return npuseg_sam3_load(path.c_str(), nullptr, model);
}
npuseg_status load(const std::string& path, npuseg_embeddinggemma2** model) {
  return npuseg_embeddinggemma2_load(path.c_str(), nullptr, model);
}

void cut(const fs::path& file) { fs::resize_file(file, fs::file_size(file) / 2); }
void empty(const fs::path& file) { fs::resize_file(file, 0); }
void extend(const fs::path& file) { std::ofstream(file, std::ios::app | std::ios::binary) << "x"; }
void overwrite(const fs::path& file) {
  std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
  stream.seekp(-4, std::ios::end);
  stream << "abcd";
  stream.close();
  // A clock that has not ticked since the file was made would hide it.
  const timespec times[2] = {{0, UTIME_NOW}, {4102444800, 0}};
  assert_int_equal(utimensat(AT_FDCWD, file.c_str(), times, 0), 0);
}

template <class Model>
void check_changes(const fs::path& folder, const char* weights) {
  for (void (*change)(const fs::path&) : {cut, empty, extend, overwrite}) {
    const Copy copy(folder);
    Model* model = nullptr;
    assert_int_equal(load(copy.path(), &model), NPUSEG_OK);
    assert_int_equal(ask(model), NPUSEG_OK);
    change(copy.file(weights));
    assert_int_equal(ask(model), NPUSEG_CORRUPT_DATA);
    assert_non_null(std::strstr(npuseg_last_error(), weights));
    assert_non_null(std::strstr(npuseg_last_error(), "open the model again"));
    npuseg_release(model);
  }
  // The way to replace a file: the open model goes on with the old one.
  const Copy copy(folder);
  Model* model = nullptr;
  assert_int_equal(load(copy.path(), &model), NPUSEG_OK);
  fs::copy_file(copy.file(weights), copy.file("beside"));
  fs::rename(copy.file("beside"), copy.file(weights));
  assert_int_equal(ask(model), NPUSEG_OK);
  fs::remove(copy.file(weights));
  assert_int_equal(ask(model), NPUSEG_OK);
  npuseg_release(model);
}

void test_sam3(void**) { check_changes<npuseg_sam3>(kSource / "demo/sam3", "model.safetensors"); }
void test_embeddinggemma2(void**) {
  check_changes<npuseg_embeddinggemma2>(kSource / "demo/embeddinggemma2", "model.safetensors");
}
void test_embeddinggemma2_bundle(void**) {
  check_changes<npuseg_embeddinggemma2>(fs::path(NPUSEG_TEST_BUNDLES) / "gemma", "tensors.bin");
}
void test_sam3_bundle(void**) {
  check_changes<npuseg_sam3>(fs::path(NPUSEG_TEST_BUNDLES) / "sam3", "tensors.bin");
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(test_sam3),
      cmocka_unit_test(test_embeddinggemma2),
      cmocka_unit_test(test_embeddinggemma2_bundle),
      cmocka_unit_test(test_sam3_bundle),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}

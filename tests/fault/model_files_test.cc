// SPDX-License-Identifier: Apache-2.0
// A model directory with one file damaged: missing, empty, cut at each tenth, replaced by a folder
// or by another type of file, and bits flipped at 200 places of a fixed generator. Loading (and,
// when it succeeds, segmenting) gives a status with a message or an answer, and never ends the
// process.
#include <stdlib.h>

#include <cstddef>
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

const fs::path kModel = NPUSEG_SOURCE_DIR "/demo/sam3";
const char* const kFiles[] = {"config.json", "model.safetensors", "tokenizer.json",
                              "tokenizer_config.json", "processor_config.json"};
constexpr size_t kFlips = 200;

using Bytes = std::vector<char>;

Bytes read_file(const fs::path& path) {
  std::ifstream stream(path, std::ios::binary);
  return Bytes((std::istreambuf_iterator<char>(stream)), std::istreambuf_iterator<char>());
}

void write_file(const fs::path& path, const Bytes& bytes) {
  fs::remove_all(path);
  std::ofstream stream(path, std::ios::binary);
  stream.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

// A copy of the model directory in which single files are replaced; the others are links.
class Folder {
 public:
  Folder() {
    char name[] = "/tmp/npuseg-fault-XXXXXX";
    path_ = mkdtemp(name);
    for (const char* file : kFiles) restore(file);
  }
  ~Folder() { fs::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  void restore(const char* file) {
    fs::remove_all(path_ / file);
    if (fs::exists(kModel / file)) fs::create_symlink(kModel / file, path_ / file);
  }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

// Loads the folder; segments when that works, so that bad weights are also used.
npuseg_status try_folder(const fs::path& path, bool segment) {
  npuseg_model_options options = {};
  options.struct_size = sizeof options;
  options.threads = 1;
  npuseg_sam3* model = nullptr;
  npuseg_status status = npuseg_sam3_load(path.c_str(), &options, &model);
  if (status != NPUSEG_OK) {
    assert_null(model);
    assert_true(std::strlen(npuseg_last_error()) > 10);
    return status;
  }
  assert_non_null(model);
  if (segment) {
    std::vector<uint8_t> rgb(size_t{3} * 32 * 32, 90);
    npuseg_pixels pixels = {};
    pixels.struct_size = sizeof pixels;
    pixels.format = NPUSEG_FORMAT_RGB;
    pixels.width = 32;
    pixels.height = 32;
    pixels.data = rgb.data();
    pixels.data_bytes = rgb.size();
    npuseg_image* image = nullptr;
    npuseg_result* result = nullptr;
    assert_int_equal(npuseg_image_from_pixels(&pixels, nullptr, &image), NPUSEG_OK);
    status = npuseg_segment(model, image, "red circle", nullptr, &result);
    if (status != NPUSEG_OK) assert_true(std::strlen(npuseg_last_error()) > 10);
    npuseg_release(result);
    npuseg_release(image);
  }
  npuseg_release(model);
  return status;
}

void good_folder_loads(void**) {
  const Folder folder;
  assert_int_equal(try_folder(folder.path(), true), NPUSEG_OK);
}

void folder_faults(void**) {
  assert_int_equal(try_folder("/nonexistent/npuseg", false), NPUSEG_NOT_FOUND);
  assert_int_not_equal(try_folder(kModel / "config.json", false), NPUSEG_OK);
  Folder folder;
  for (const char* file : kFiles) fs::remove_all(folder.path() / file);
  assert_int_not_equal(try_folder(folder.path(), false), NPUSEG_OK);
}

void needed_files_missing_empty_or_folder(void**) {
  Folder folder;
  for (const char* file : {"config.json", "model.safetensors", "tokenizer.json"}) {
    fs::remove(folder.path() / file);
    assert_int_not_equal(try_folder(folder.path(), false), NPUSEG_OK);
    write_file(folder.path() / file, {});
    assert_int_not_equal(try_folder(folder.path(), false), NPUSEG_OK);
    fs::remove(folder.path() / file);
    fs::create_directory(folder.path() / file);
    assert_int_not_equal(try_folder(folder.path(), false), NPUSEG_OK);
    folder.restore(file);
  }
}

void other_type_of_file(void**) {
  Folder folder;
  const Bytes picture = read_file(kModel / "samples/a.png");
  for (const char* file : {"config.json", "model.safetensors", "tokenizer.json"}) {
    write_file(folder.path() / file, picture);
    assert_int_not_equal(try_folder(folder.path(), false), NPUSEG_OK);
    folder.restore(file);
  }
}

void cut_files(void**) {
  Folder folder;
  for (const char* file : {"config.json", "model.safetensors", "tokenizer.json"}) {
    const Bytes whole = read_file(kModel / file);
    assert_true(whole.size() > 10);
    for (size_t tenth = 0; tenth < 10; ++tenth) {
      write_file(folder.path() / file,
                 Bytes(whole.begin(),
                       whole.begin() + static_cast<std::ptrdiff_t>(whole.size() / 10 * tenth)));
      assert_int_not_equal(try_folder(folder.path(), false), NPUSEG_OK);
    }
    folder.restore(file);
  }
}

void flipped_bits(void**) {
  Folder folder;
  uint64_t state = 1;
  const auto below = [&state](size_t bound) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<size_t>(state >> 33) % bound;
  };
  size_t refused = 0;
  for (size_t i = 0; i < kFlips; ++i) {
    // Most cases go to the parsed parts: the small files and the header of the weights.
    const char* file = kFiles[i % 5];
    Bytes bytes = read_file(kModel / file);
    if (bytes.empty()) continue;
    const bool weights = std::strcmp(file, "model.safetensors") == 0;
    const size_t bound = weights && i % 2 == 0 ? 4096 : bytes.size();
    char& byte = bytes[below(bound < bytes.size() ? bound : bytes.size())];
    byte = static_cast<char>(byte ^ static_cast<char>(1u << below(8)));
    write_file(folder.path() / file, bytes);
    if (try_folder(folder.path(), i % 10 == 0) != NPUSEG_OK) ++refused;
    folder.restore(file);
  }
  print_message("%zu of %zu flipped files refused\n", refused, kFlips);
  assert_true(refused > 0);
  assert_int_equal(try_folder(folder.path(), true), NPUSEG_OK);
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(good_folder_loads),
      cmocka_unit_test(folder_faults),
      cmocka_unit_test(needed_files_missing_empty_or_folder),
      cmocka_unit_test(other_type_of_file),
      cmocka_unit_test(cut_files),
      cmocka_unit_test(flipped_bits),
  };
  return cmocka_run_group_tests_name("fault_model_files", tests, nullptr, nullptr);
}

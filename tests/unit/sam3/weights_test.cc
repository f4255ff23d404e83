// SPDX-License-Identifier: Apache-2.0
// Loading with one tensor changed: what the model needs is refused by name when it is missing or
// does not fit, what the reference stores but never reads may be absent.
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <string>

#include "hash_weights.h"
#include "model/sam3/sam3.h"
// Behind all others.
#include "cmocka_cpp.h"

namespace {

using npuseg::core::Call;
using npuseg::core::Code;
using npuseg::sam3::Model;

constexpr const char* kFile = "/model.safetensors";
constexpr const char* kIndex = "/model.safetensors.index.json";

class Folder {
 public:
  explicit Folder(size_t shards) {
    std::string name = (std::filesystem::temp_directory_path() / "weights_XXXXXX").string();
    assert_non_null(mkdtemp(name.data()));
    path = name;
    npuseg::test::HashCheckpoint how;
    how.shards = shards;
    assert_true(npuseg::test::write_hash_checkpoint(path, npuseg::test::golden_config(), how));
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  [[nodiscard]] std::string read(const char* file) const {
    std::ifstream in(path + file, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  }
  void write(const char* file, const std::string& bytes) const {
    std::ofstream out(path + file, std::ios::binary);
    out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    out.close();
    assert_true(out.good());
  }
  std::string path;
};

npuseg::core::Status load(const Folder& folder) {
  Call call;
  const auto model = Model::load(folder.path, {}, call);
  return model.ok() ? npuseg::core::Status() : model.status();
}

void expect(const std::string& what, const npuseg::core::Status& status, Code code,
            const std::string& word) {
  if (status.code() == code && status.message().find(word) != std::string::npos) return;
  print_error("%s: code %d, \"%s\"; code %d and \"%s\" are expected\n", what.c_str(),
              static_cast<int>(status.code()), status.message().c_str(), static_cast<int>(code),
              word.c_str());
  fail();
}

// `old` in a text of the file replaced by as many characters, so that no offset moves.
std::string swapped(std::string bytes, const std::string& old, const std::string& fresh) {
  assert_int_equal(old.size(), fresh.size());
  const size_t at = bytes.find(old);
  assert_true(at != std::string::npos);
  return bytes.replace(at, old.size(), fresh);
}

void test_needed(void**) {
  const Folder folder(1);
  const std::string good = folder.read(kFile);
  assert_true(load(folder).ok());
  const struct {
    const char* old;
    const char* fresh;
    const char* word;
  } cases[] = {
      {"\"text_projection.bias\"", "\"text_projection.bios\"", "text_projection.bias is missing"},
      {"\"detr_decoder.presence_token.weight\"", "\"detr_decoder.presence_token.wright\"",
       "detr_decoder.presence_token.weight is missing"},
      {"\"text_projection.weight\":{\"dtype\":\"F32\"",
       "\"text_projection.weight\":{\"dtype\":\"I32\"", "type I32"},
      {"\"text_projection.weight\":{\"dtype\":\"F32\",\"shape\":[32,48]",
       "\"text_projection.weight\":{\"dtype\":\"F32\",\"shape\":[48,32]", "[48, 32]"},
      {"\"mask_decoder.instance_projection.weight\":{\"dtype\":\"F32\",\"shape\":[32,32,1,1]",
       "\"mask_decoder.instance_projection.weight\":{\"dtype\":\"F32\",\"shape\":[1,1,32,32]",
       "[1, 1, 32, 32]"},
      {"\"geometry_encoder.label_embed.weight\":{\"dtype\":\"F32\",\"shape\":[2,32]",
       "\"geometry_encoder.label_embed.weight\":{\"dtype\":\"F32\",\"shape\":[1,64]", "[1, 64]"},
  };
  for (const auto& one : cases) {
    folder.write(kFile, swapped(good, one.old, one.fresh));
    expect(one.old, load(folder), Code::kCorruptData, one.word);
  }
}

void test_not_needed(void**) {
  const Folder folder(1);
  std::string bytes = folder.read(kFile);
  for (const char* name :
       {"text_encoder.text_projection.weight", "mask_decoder.pixel_decoder.norms.2.bias",
        "mask_decoder.pixel_decoder.conv_layers.2.weight",
        "vision_encoder.neck.fpn_layers.3.proj1.weight"}) {
    std::string other = name;
    other[0] = 'X';
    bytes = swapped(bytes, "\"" + std::string(name) + "\"", "\"" + other + "\"");
  }
  folder.write(kFile, bytes);
  assert_true(load(folder).ok());
}

void test_not_finite(void**) {
  const Folder folder(1);
  const std::string good = folder.read(kFile);
  size_t header = 0;
  for (size_t i = 0; i < 8; ++i) {
    header |= static_cast<size_t>(static_cast<unsigned char>(good[i])) << (8 * i);
  }
  // The first tensor of the data is the first by name.
  const float values[] = {std::numeric_limits<float>::quiet_NaN(),
                          std::numeric_limits<float>::infinity(),
                          -std::numeric_limits<float>::infinity()};
  for (const float value : values) {
    std::string bytes = good;
    std::memcpy(bytes.data() + 8 + header, &value, sizeof value);
    folder.write(kFile, bytes);
    expect("not finite", load(folder), Code::kCorruptData, "detr_decoder.box_head.layer1.bias");
  }
}

// The index of a sharded checkpoint decides what is there.
void test_index_entry(void**) {
  const Folder folder(3);
  assert_true(load(folder).ok());
  const std::string good = folder.read(kIndex);
  const std::string name = "\"text_projection.bias\":";
  const size_t begin = good.find(name);
  assert_true(begin != std::string::npos);
  const size_t end = good.find(',', begin);
  assert_true(end != std::string::npos);
  std::string without = good;
  without.erase(begin, end + 1 - begin);
  folder.write(kIndex, without);
  expect("entry missing", load(folder), Code::kCorruptData, "text_projection.bias is missing");
  std::string wrong = good;
  const size_t number = good.find("model-", begin) + 6;
  wrong[number] = wrong[number] == '1' ? '2' : '1';
  folder.write(kIndex, wrong);
  expect("entry wrong", load(folder), Code::kCorruptData, "lacks tensor text_projection.bias");
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(test_needed),
      cmocka_unit_test(test_not_needed),
      cmocka_unit_test(test_not_finite),
      cmocka_unit_test(test_index_entry),
  };
  return cmocka_run_group_tests_name("sam3 weights", tests, nullptr, nullptr);
}

// SPDX-License-Identifier: Apache-2.0
// Sharded checkpoints: model.safetensors.index.json says in which file a tensor lies, and every
// disagreement between index and files is refused or resolved by the index.
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "folder.h"

namespace {

using npuseg::checkpoint::Checkpoint;
using npuseg::core::Code;
using npuseg::test::expect_status;
using npuseg::test::Folder;

constexpr const char* kIndex = "model.safetensors.index.json";

// One F32 value a tensor.
std::string tensors_file(const std::vector<std::pair<std::string, float>>& tensors) {
  std::string header = "{";
  std::string data;
  for (const auto& [name, value] : tensors) {
    const size_t begin = data.size();
    data.append(sizeof value, '\0');
    std::memcpy(data.data() + begin, &value, sizeof value);
    header += (header.size() == 1 ? "\"" : ",\"") + name +
              "\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[" + std::to_string(begin) +
              "," + std::to_string(data.size()) + "]}";
  }
  header += "}";
  std::string length(8, '\0');
  length[0] = static_cast<char>(header.size() & 0xFF);
  length[1] = static_cast<char>(header.size() >> 8);
  return length + header + data;
}

float value_of(const Checkpoint& checkpoint, const char* name) {
  const auto* entry = checkpoint.find(name);
  assert_non_null(entry);
  float value = 0;
  std::memcpy(&value, entry->view.data, sizeof value);
  return value;
}

void put_shards(const Folder& folder) {
  folder.put("one.safetensors", tensors_file({{"a", 1}, {"b", 2}}));
  folder.put("two.safetensors", tensors_file({{"c", 3}}));
  // Holds a again, with another value.
  folder.put("dup.safetensors", tensors_file({{"a", 9}, {"c", 3}}));
}

std::string index_of(const std::string& map) {
  return "{\"metadata\":{\"total_size\":12},\"weight_map\":" + map + "}";
}

void test_good(void**) {
  const Folder folder;
  put_shards(folder);
  folder.put(kIndex, index_of("{\"c\":\"two.safetensors\",\"a\":\"one.safetensors\",\"b\":"
                              "\"one.safetensors\"}"));
  const auto opened = Checkpoint::open(folder.path);
  assert_true(opened.ok());
  const Checkpoint& checkpoint = opened.value();
  assert_int_equal(checkpoint.tensors().size(), 3);
  assert_true(value_of(checkpoint, "a") == 1 && value_of(checkpoint, "b") == 2 &&
              value_of(checkpoint, "c") == 3);
  const auto files = checkpoint.files();
  assert_int_equal(files.size(), 2);
  assert_true(files[0].ends_with("/two.safetensors") && files[1].ends_with("/one.safetensors"));
  assert_int_equal(checkpoint.find("c")->file, 0);
  assert_int_equal(checkpoint.find("a")->file, 1);
}

void test_index_decides(void**) {
  const Folder folder;
  put_shards(folder);
  const struct {
    const char* what;
    const char* map;
    size_t tensors;
    float a;
  } cases[] = {
      {"in two shards, the first is named",
       "{\"a\":\"one.safetensors\",\"b\":\"one.safetensors\",\"c\":\"dup.safetensors\"}", 3, 1},
      {"in two shards, the second is named",
       "{\"b\":\"one.safetensors\",\"a\":\"dup.safetensors\",\"c\":\"dup.safetensors\"}", 3, 9},
      {"a tensor of a shard is not in the index", "{\"a\":\"one.safetensors\"}", 1, 1},
  };
  for (const auto& one : cases) {
    folder.put(kIndex, index_of(one.map));
    const auto opened = Checkpoint::open(folder.path);
    if (!opened.ok()) {
      print_error("%s: %s\n", one.what, opened.status().message().c_str());
      fail();
    }
    assert_int_equal(opened.value().tensors().size(), one.tensors);
    assert_true(value_of(opened.value(), "a") == one.a);
  }
  folder.put(kIndex, index_of("{}"));
  const auto empty = Checkpoint::open(folder.path);
  assert_true(empty.ok() && empty.value().tensors().empty());
}

void test_refusals(void**) {
  const Folder folder;
  put_shards(folder);
  folder.put("cut.safetensors", tensors_file({{"a", 1}}).substr(0, 20));
  folder.put("none.safetensors", "");
  folder.put("lfs.safetensors", "version https://git-lfs.github.com/spec/v1\noid sha256:0\n");
  std::filesystem::create_directory(folder.path + "/sub.safetensors");
  const auto to = [](const std::string& file) { return index_of("{\"a\":\"" + file + "\"}"); };
  const struct {
    std::string what;
    std::string index;
    Code code;
    std::string word;
  } cases[] = {
      {"shard missing", to("three.safetensors"), Code::kNotFound, "three.safetensors"},
      {"tensor in another shard", index_of("{\"c\":\"one.safetensors\"}"), Code::kCorruptData,
       "one.safetensors: lacks tensor c"},
      {"tensor nowhere", index_of("{\"a\":\"one.safetensors\",\"d\":\"two.safetensors\"}"),
       Code::kCorruptData, "two.safetensors: lacks tensor d"},
      {"named twice", index_of("{\"a\":\"one.safetensors\",\"a\":\"dup.safetensors\"}"),
       Code::kCorruptData, "twice"},
      {"parent folder", to("../one.safetensors"), Code::kCorruptData, "names no file"},
      {"absolute path", to("/one.safetensors"), Code::kCorruptData, "names no file"},
      {"folder below", to("sub/one.safetensors"), Code::kCorruptData, "names no file"},
      {"this folder", to("."), Code::kCorruptData, "names no file"},
      {"folder above", to(".."), Code::kCorruptData, "names no file"},
      {"empty name", to(""), Code::kCorruptData, "names no file"},
      {"zero byte", to("one.safetensors\\u0000x"), Code::kCorruptData, "names no file"},
      {"number", index_of("{\"a\":1}"), Code::kCorruptData, "names no file"},
      {"null", index_of("{\"a\":null}"), Code::kCorruptData, "names no file"},
      {"no map", "{\"metadata\":{}}", Code::kCorruptData, "weight_map"},
      {"map is a list", index_of("[\"one.safetensors\"]"), Code::kCorruptData, "weight_map"},
      {"list", "[]", Code::kCorruptData, "weight_map"},
      {"empty", "", Code::kCorruptData, kIndex},
      {"cut", "{\"weight_map\":{\"a\":", Code::kCorruptData, kIndex},
      {"deep", std::string(100000, '['), Code::kCorruptData, kIndex},
      {"index as shard", to(kIndex), Code::kCorruptData, kIndex},
      {"damaged shard", to("cut.safetensors"), Code::kCorruptData, "cut.safetensors"},
      {"empty shard", to("none.safetensors"), Code::kCorruptData, "none.safetensors"},
      {"pointer as shard", to("lfs.safetensors"), Code::kCorruptData, "git lfs pull"},
      {"folder as shard", to("sub.safetensors"), Code::kIo, "sub.safetensors"},
  };
  for (const auto& one : cases) {
    folder.put(kIndex, one.index);
    expect_status(one.what, Checkpoint::open(folder.path).status(), one.code, one.word);
  }
}

// Download caches hold links to files that lie elsewhere.
void test_linked_shard(void**) {
  const Folder blobs;
  blobs.put("blob", tensors_file({{"a", 4}}));
  const Folder folder;
  std::filesystem::create_symlink(blobs.path + "/blob", folder.path + "/one.safetensors");
  folder.put(kIndex, index_of("{\"a\":\"one.safetensors\"}"));
  const auto opened = Checkpoint::open(folder.path);
  assert_true(opened.ok());
  assert_true(value_of(opened.value(), "a") == 4);
}

void test_single_file_goes_before_index(void**) {
  const Folder folder;
  put_shards(folder);
  folder.put("model.safetensors", tensors_file({{"a", 7}}));
  folder.put(kIndex, "damaged");
  const auto opened = Checkpoint::open(folder.path);
  assert_true(opened.ok());
  assert_int_equal(opened.value().tensors().size(), 1);
  assert_true(value_of(opened.value(), "a") == 7);
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(test_good),
      cmocka_unit_test(test_index_decides),
      cmocka_unit_test(test_refusals),
      cmocka_unit_test(test_linked_shard),
      cmocka_unit_test(test_single_file_goes_before_index),
  };
  return cmocka_run_group_tests_name("checkpoint shards", tests, nullptr, nullptr);
}

// SPDX-License-Identifier: Apache-2.0
// The safetensors container: what the format allows is read, every lie in a header is refused.
#include "checkpoint/safetensors.h"

#include <string>

#include "cmocka_cpp.h"

namespace {

using npuseg::checkpoint::parse_safetensors;
using npuseg::core::Code;

std::string file_of(const std::string& header, size_t data) {
  std::string file;
  for (size_t i = 0; i < 8; ++i) {
    file.push_back(static_cast<char>(static_cast<unsigned char>(header.size() >> (8 * i))));
  }
  return file + header + std::string(data, '\x01');
}

auto parse(const std::string& file) {
  return parse_safetensors({reinterpret_cast<const unsigned char*>(file.data()), file.size()},
                           "x.safetensors");
}

void expect_damaged(const std::string& header, size_t data) {
  const auto result = parse(file_of(header, data));
  assert_false(result.ok());
  assert_int_equal(static_cast<int>(result.status().code()), static_cast<int>(Code::kCorruptData));
  assert_true(result.status().message().find("x.safetensors") != std::string::npos);
}

std::string tensor(const std::string& name, const std::string& dtype, const std::string& shape,
                   const std::string& offsets) {
  return "\"" + name + "\":{\"dtype\":\"" + dtype + "\",\"shape\":" + shape +
         ",\"data_offsets\":" + offsets + "}";
}

const std::string kGood = "{\"__metadata__\":{\"format\":\"pt\"}," +
                          tensor("b", "BF16", "[2]", "[8,12]") + "," +
                          tensor("a", "F32", "[2,1]", "[0,8]") + "}";

void test_good(void**) {
  const std::string file = file_of(kGood, 12);
  const auto result = parse(file);
  assert_true(result.ok());
  assert_int_equal(result.value().size(), 2);
  const auto& a = result.value()[0];
  assert_string_equal(a.name.c_str(), "a");
  assert_int_equal(a.entry.view.shape.rank, 2);
  assert_int_equal(a.entry.view.bytes(), 8);
  assert_ptr_equal(a.entry.view.data, file.data() + 8 + kGood.size());
  assert_string_equal(result.value()[1].entry.dtype_name.c_str(), "BF16");
}

void test_edges_of_the_format(void**) {
  assert_true(parse(file_of("{}", 0)).ok());
  assert_true(parse(file_of("{}     ", 0)).ok());  // writers pad the header with blanks
  // A scalar, an empty tensor between two others, and types that no stage reads.
  assert_true(parse(file_of("{" + tensor("s", "F32", "[]", "[0,4]") + "," +
                                tensor("e", "F32", "[0,7]", "[4,4]") + "," +
                                tensor("f8", "F8_E4M3", "[2]", "[4,6]") + "}",
                            6))
                  .ok());
  const std::string file = file_of("{" + tensor("q", "NEW4", "[4]", "[0,2]") + "}", 2);
  const auto unknown = parse(file);
  assert_true(unknown.ok());
  assert_true(unknown.value()[0].entry.view.dtype == npuseg::core::DType::kOther);
  assert_string_equal(unknown.value()[0].entry.dtype_name.c_str(), "NEW4");
  const std::string deep = file_of("{" + tensor("d", "U8", "[1,1,1,1,1,1,1]", "[0,1]") + "}", 1);
  const auto seven = parse(deep);
  assert_true(seven.ok());
  assert_true(seven.value()[0].entry.view.dtype == npuseg::core::DType::kOther);
}

void test_hostile_headers(void**) {
  const struct {
    std::string header;
    size_t data;
  } cases[] = {
      {"", 0},
      {"[]", 0},
      {"{", 0},
      {std::string(100000, '['), 0},
      {"{\"a\":3}", 0},
      {"{" + tensor("a", "U8", "[1]", "[0,1]") + "," + tensor("a", "U8", "[1]", "[1,2]") + "}", 2},
      {"{" + tensor("a", "U8", "[2]", "[0,2]") + "," + tensor("b", "U8", "[2]", "[1,3]") + "}", 3},
      {"{" + tensor("a", "U8", "[1]", "[0,1]") + "," + tensor("b", "U8", "[1]", "[2,3]") + "}", 3},
      {"{" + tensor("a", "U8", "[1]", "[0,1]") + "}", 2},
      {"{" + tensor("a", "U8", "[1]", "[1,2]") + "}", 2},
      {"{" + tensor("a", "F32", "[2]", "[0,7]") + "}", 7},
      {"{" + tensor("a", "U8", "[1]", "[1,0]") + "}", 1},
      {"{" + tensor("a", "U8", "[1]", "[-1,0]") + "}", 1},
      {"{" + tensor("a", "U8", "[1]", "[0,1.0]") + "}", 1},
      {"{" + tensor("a", "U8", "[1]", "[0]") + "}", 1},
      {"{" + tensor("a", "U8", "[1]", "[0,1,2]") + "}", 1},
      {"{" + tensor("a", "U8", "[1]", "[0,18446744073709551615]") + "}", 1},
      {"{" + tensor("a", "U8", "[1]", "[0,99999999999999999999]") + "}", 1},
      {"{" + tensor("a", "U8", "[-1]", "[0,1]") + "}", 1},
      {"{" + tensor("a", "U8", "\"1\"", "[0,1]") + "}", 1},
      {"{" + tensor("a", "U8", "[4294967296,4294967296]", "[0,0]") + "}", 0},
      {"{" + tensor("a", "F32", "[4611686018427387904]", "[0,0]") + "}", 0},
      {"{\"a\":{\"shape\":[1],\"data_offsets\":[0,1]}}", 1},
  };
  for (const auto& one : cases) expect_damaged(one.header, one.data);
}

void test_truncated(void**) {
  const std::string file = file_of(kGood, 12);
  for (size_t keep = 0; keep < file.size(); ++keep) {
    const std::string part = file.substr(0, keep);
    assert_false(parse(part).ok());
  }
  assert_false(parse(file + "x").ok());
}

void test_header_length(void**) {
  std::string file = file_of("{}", 0);
  for (const char top : {'\x01', '\x7f', '\xff'}) {
    std::string bad = file;
    bad[7] = top;
    assert_false(parse(bad).ok());
  }
  file[3] = '\x06';  // 100.7 MB: over the cap
  const auto result = parse(file);
  assert_false(result.ok());
  assert_true(result.status().message().find("100000000") != std::string::npos);
}

void test_lfs_pointer(void**) {
  const auto result = parse("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n");
  assert_false(result.ok());
  assert_true(result.status().message().find("git lfs pull") != std::string::npos);
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(test_good),        cmocka_unit_test(test_edges_of_the_format),
      cmocka_unit_test(test_truncated),   cmocka_unit_test(test_hostile_headers),
      cmocka_unit_test(test_lfs_pointer), cmocka_unit_test(test_header_length),
  };
  return cmocka_run_group_tests_name("safetensors", tests, nullptr, nullptr);
}

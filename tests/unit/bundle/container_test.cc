// SPDX-License-Identifier: Apache-2.0
// manifest.txt and tensors.txt: what the grammar allows is read, everything else is refused with
// file, line and reason (spec iron-bundle-sam3, 1.2, 1.4, 19.11).
#include <cstring>
#include <string>
#include <vector>

#include "bundle/manifest.h"
#include "bundle/tensors.h"
#include "bundle/text_forms.h"
#include "cmocka_cpp.h"

namespace {

using namespace npuseg::bundle;
using npuseg::core::Code;
using npuseg::core::DType;
using npuseg::core::Status;

void expect_refused(const Status& status, const std::string& word) {
  if (status.ok() || status.message().find(word) == std::string::npos) {
    print_error("\"%s\" is expected, got: %s\n", word.c_str(), status.message().c_str());
  }
  assert_false(status.ok());
  assert_true(status.message().find(word) != std::string::npos);
}

auto parse(const std::string& text) { return Manifest::parse(text, "b/manifest.txt"); }

void test_versions(void**) {
  for (const std::string text : {"", "VERSION 2\n", "# version 2\n"}) {
    const auto manifest = parse(text);
    assert_true(manifest.ok());
    expect_refused(manifest.value().version({1, 2}).status(),
                   "no version record, this version of npuseg reads version 1 and 2");
  }
  const auto three = parse("version 3\n");
  assert_true(three.ok());
  expect_refused(three.value().version({2}).status(), "version 3");
  for (const std::string text : {"version 2", "version 2 extra\r\n", "  version\t+2\n\n"}) {
    const auto two = parse(text);
    assert_true(two.ok());
    assert_int_equal(two.value().version({1, 2}).value(), 2);
  }
}

void test_refused_lines(void**) {
  const struct {
    std::string text;
    std::string word;
  } cases[] = {
      {"version", "b/manifest.txt:1: expected at least 1 fields, in: version"},
      {"version x", "manifest.txt:1: field 1 (x) is malformed, in: version x"},
      {"version -1", "field 1 (-1) is malformed"},
      {"version 4294967296", "field 1 (4294967296) is malformed"},
      {"version 2\nversion 2", "manifest.txt:2: second version record"},
      {"version 2\nparam a", "manifest.txt:2: expected at least 2 fields"},
      {"version 2\nparam a 1\nparam a 1", "manifest.txt:3: param a defined twice"},
      {"version 2\nxclbin k f", "manifest.txt:2: expected at least 3 fields"},
      {"version 2\nxclbin k f n\nxclbin k g n", "manifest.txt:3: xclbin k defined twice"},
      {"xclbin k /f n", "is an absolute path"},
      {"xclbin k a/../../f n", "leaves the bundle's folder"},
      {"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n", "git lfs pull"},
      {"version 2\nparam a \xff\n", "is not UTF-8"},
  };
  for (const auto& one : cases) expect_refused(parse(one.text).status(), one.word);
}

void test_params(void**) {
  const auto parsed = parse(
      "param a  two  words \r\nparam b\tx\nparam s  7\nparam n +7\nparam l 1,,2,\nparam f 1e3\n"
      "param i inf\nparam h 0x1p3\nparam e 1e-05\nparam one 1\nparam t true\nparam bad 1,x\n"
      "param c a,,b\nparam huge 99999999999999999999\n");
  assert_true(parsed.ok());
  const Manifest& manifest = parsed.value();
  assert_string_equal(manifest.param("a").value().c_str(), " two  words ");
  assert_string_equal(manifest.param("b").value().c_str(), "\tx");
  expect_refused(manifest.integer("s").status(), "b/manifest.txt:3: param s ( 7) is malformed");
  assert_int_equal(manifest.integer("n").value(), 7);
  assert_true(manifest.list("l").value() == (std::vector<size_t>{1, 2}));
  assert_true(manifest.words("c").value() == (std::vector<std::string>{"a", "", "b"}));
  expect_refused(manifest.list("bad").status(), "has the bad item x");
  expect_refused(manifest.integer("f").status(), "malformed");
  expect_refused(manifest.integer("huge").status(), "malformed");
  assert_true(manifest.number("f").value() == 1000.0f);
  assert_true(manifest.number("i").value() > 1e38f);
  assert_true(manifest.number("e").value() == 1e-05f);
  assert_true(manifest.number("n").value() == 7.0f);
  for (const char* name : {"h", "s", "a"}) {
    expect_refused(manifest.number(name).status(), "malformed");
  }
  assert_true(manifest.is_one("one"));
  assert_false(manifest.is_one("t"));
  assert_false(manifest.is_one("absent"));
  expect_refused(manifest.integer("grid").status(), "param grid is missing");
}

void test_records(void**) {
  const auto parsed = parse(
      "gemm g ctx=k M=+5 K=0x10 bias=2 token_major=yes M=6 insts=../x words=1,2,+3 none= w=1,,2\n"
      "\xc2\xa0 # a comment\n   #another\nxclbin k f n more\n"
      "case 3 cases/a.png  red  car \nref_image a b.png\nempty\n");
  assert_true(parsed.ok());
  const Manifest& manifest = parsed.value();
  assert_int_equal(manifest.records().size(), 4);
  assert_string_equal(manifest.xclbins().at("k").kernel_name.c_str(), "n");
  const Record& gemm = manifest.records()[0];
  assert_string_equal(gemm.tag().c_str(), "gemm");
  assert_int_equal(gemm.integer("M").value(), 6);  // the last one of a key counts
  expect_refused(gemm.integer("K").status(), "`K=0x10` is malformed");
  expect_refused(gemm.integer("N").status(), "`N=` missing");
  expect_refused(gemm.flag("bias").status(), "`bias=2` is not 0 or 1");
  expect_refused(gemm.flag("token_major").status(), "`token_major=yes` is not 0 or 1");
  expect_refused(gemm.flag("absent").status(), "`absent=` missing");
  expect_refused(gemm.path("insts").status(), "leaves the bundle's folder");
  expect_refused(gemm.path("none").status(), "is an empty path");
  assert_true(gemm.words("words").value() == (std::vector<uint32_t>{1, 2, 3}));
  expect_refused(gemm.words("none").status(), "bad instruction word");
  expect_refused(gemm.words("w").status(), "bad instruction word");
  const Record& one = manifest.records()[1];
  assert_int_equal(one.line(), 5);
  assert_int_equal(one.integer_field(0).value(), 3);
  expect_refused(one.integer_field(2).status(), "field 3 (red) is malformed");
  assert_string_equal(one.rest(2).c_str(), " red  car ");
  assert_string_equal(manifest.records()[2].rest(0).c_str(), "a b.png");
  expect_refused(manifest.records()[3].need_fields(1), "expected at least 1 fields, in: empty");
}

void test_white_space(void**) {
  const std::vector<std::string> words = split_words(
      "\xe3\x80\x80"
      "a\xe2\x80\x83"
      "b\xc2\x85"
      "c\x0b"
      "d\xe1\x9a\x80"
      "e\xe2\x80\x8b"
      "f ");
  assert_true(words == (std::vector<std::string>{"a", "b", "c", "d",
                                                 "e\xe2\x80\x8b"
                                                 "f"}));
  assert_int_equal(split_lines("a\r\n\nb").size(), 3);
  assert_int_equal(split_lines("a\n").size(), 1);
  assert_int_equal(split_lines("").size(), 0);
  assert_string_equal(rest_of_line("a", 5).c_str(), "");
}

void test_text_forms(void**) {
  const std::pair<const char*, const char*> escapes[] = {
      {"\\x41\\u00e9\\U0001F600", "A\xc3\xa9\xf0\x9f\x98\x80"},
      {"\\q\\", "\\q\\"},
      {"\\xZZx", "x"},
      {"\\u12", "\x12"},
      {"a\\t\\n\\r\\\\b", "a\t\n\r\\b"},
      {"\\ud800z", "z"},
      {"\\u1\xc3\xa9\xc3\xa9\xc3\xa9z", "z"},
      {"\\U", ""},
  };
  for (const auto& [from, to] : escapes) assert_string_equal(unescape(from).c_str(), to);
  const Record record("m", 1, "added 2 3c626f733e");
  assert_string_equal(decode_hex_text(record.field(1), record).value().c_str(), "<bos>");
  assert_string_equal(decode_hex_text("-", record).value().c_str(), "");
  expect_refused(decode_hex_text("zz", record).status(), "bad hex zz");
  expect_refused(decode_hex_text("414", record).status(), "bad hex 414");
  expect_refused(decode_hex_text("ff", record).status(), "not UTF-8");
}

const std::vector<unsigned char> kBlob(32, 7);

auto parse_index(const std::string& index, size_t bytes = 32) {
  return Tensors::parse(index, "b/tensors.txt", {kBlob.data(), bytes}, "b/tensors.bin");
}

void test_tensors(void**) {
  const auto parsed = parse_index("a f32 2,1 0 8\nb\tbf16 3 8 6\r\nc u8 0 32 0\nd i32 1 16 4");
  assert_true(parsed.ok());
  const Tensors& tensors = parsed.value();
  assert_int_equal(tensors.all().size(), 4);
  assert_ptr_equal(tensors.find("b")->view.data, kBlob.data() + 8);
  assert_int_equal(tensors.find("b")->bytes().size(), 6);
  assert_true(tensors.get("a", DType::kF32, {1, 2}).ok());
  assert_int_equal(tensors.get("a", DType::kF32, {2}).value().shape.rank, 1);
  expect_refused(tensors.get("a", DType::kF32, {3}).status(),
                 "b/tensors.txt:1: tensor a has shape [2, 1], wanted [3]");
  expect_refused(tensors.get("a", DType::kBF16, {2}).status(), "tensor a is F32, wanted BF16");
  expect_refused(tensors.get("z", DType::kF32, {2}).status(), "tensor z is missing");
  assert_int_equal(tensors.packed("b", 6).value().size(), 6);
  expect_refused(tensors.packed("b", 5).status(), "tensor b has 6 bytes, its kernel needs 5");
  expect_refused(tensors.packed("z", 5).status(), "tensor z is missing");
  assert_int_equal(parse_index("", 0).value().all().size(), 0);
}

void test_refused_tensors(void**) {
  const struct {
    std::string text;
    std::string word;
  } cases[] = {
      {"a f32 2 0 8\n\n", "b/tensors.txt:2: expected <name> <dtype> <shape> <offset> <bytes>"},
      {"# a comment", "expected <name>"},
      {"a f32 2 0 8 9", "expected <name>"},
      {"a f16 2 0 4", "unknown dtype f16"},
      {"a F32 2 0 8", "unknown dtype F32"},
      {"a f32 2, 0 8", "bad shape"},
      {"a f32 ,2 0 8", "bad shape"},
      {"a f32 x 0 8", "bad shape"},
      {"a f32 -1 0 8", "bad shape"},
      {"a f32 2 -8 8", "bad offset"},
      {"a f32 2 0 -8", "bad byte count"},
      {"a f32 2 4 8", "not 8-byte aligned"},
      {"a f32 1 0 6", "not a whole number of elements"},
      {"a f32 99 0 8", "shape and type ask for 396 bytes, the line says 8"},
      {"a f32 1 0 8", "shape and type ask for 4 bytes"},
      {"a f32 4611686018427387904 0 0", "overflows"},
      {"a u8 4294967296,4294967296 0 0", "overflows"},
      {"a u8 1,1,1,1,1,1,1 0 1", "more than 6 dimensions"},
      {"a u8 33 0 33", "offset 0 + size 33 runs past the end of tensors.bin (32 bytes)"},
      {"a u8 0 40 0", "runs past the end"},
      {"a u8 8 18446744073709551608 8", "runs past the end"},
      {"a u8 1 0 1\na u8 1 0 1", "b/tensors.txt:2: tensor defined twice"},
      {"version https://git-lfs.github.com/spec/v1\n", "git lfs pull"},
      {"\xff u8 1 0 1", "not UTF-8"},
  };
  for (const auto& one : cases) expect_refused(parse_index(one.text).status(), one.word);
  const std::string pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:0\n";
  expect_refused(
      Tensors::parse("", "i", {reinterpret_cast<const unsigned char*>(pointer.data()), 40}, "blob")
          .status(),
      "blob: this is a git-lfs pointer");
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(test_versions),    cmocka_unit_test(test_refused_lines),
      cmocka_unit_test(test_params),      cmocka_unit_test(test_records),
      cmocka_unit_test(test_white_space), cmocka_unit_test(test_text_forms),
      cmocka_unit_test(test_tensors),     cmocka_unit_test(test_refused_tensors),
  };
  return cmocka_run_group_tests_name("bundle container", tests, nullptr, nullptr);
}

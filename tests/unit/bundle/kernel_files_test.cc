// SPDX-License-Identifier: Apache-2.0
// xclbin files and instruction streams (spec iron-bundle-sam3, 4.8, 19.10, 19.11;
// iron-bundle-embeddinggemma2, 25.3).
#include <cstring>
#include <string>
#include <vector>

#include "bundle/instructions.h"
#include "bundle/xclbin.h"
#include "bundle_files.h"
#include "golden_values.h"
// Behind all others.
#include "cmocka_cpp.h"

namespace {

using namespace npuseg::bundle;
using npuseg::core::Status;
using npuseg::test::crc32;
using npuseg::test::make_stream;
using npuseg::test::make_xclbin;
using npuseg::test::StreamKind;

std::span<const unsigned char> bytes_of(const std::string& text) {
  return {reinterpret_cast<const unsigned char*>(text.data()), text.size()};
}

std::span<unsigned char> bytes_of(std::string* text) {
  return {reinterpret_cast<unsigned char*>(text->data()), text->size()};
}

void expect_refused(const Status& status, const std::string& word) {
  if (status.ok() || status.message().find(word) == std::string::npos) {
    print_error("\"%s\" is expected, got: %s\n", word.c_str(), status.message().c_str());
  }
  assert_false(status.ok());
  assert_true(status.message().find(word) != std::string::npos);
  assert_true(status.message().find("k/x") != std::string::npos);
}

template <class T>
std::string changed(std::string file, size_t at, T value) {
  std::memcpy(file.data() + at, &value, sizeof value);
  return file;
}

void test_xclbin(void**) {
  const std::string file = make_xclbin(1);
  const auto parsed = parse_xclbin(bytes_of(file), "k/x");
  assert_true(parsed.ok());
  const Xclbin& xclbin = parsed.value();
  assert_int_equal(xclbin.column_width, 8);
  assert_int_equal(xclbin.operations_per_cycle, 2048);
  assert_int_equal(xclbin.pdi.size(), 200);
  assert_int_equal(crc32(xclbin.pdi.data(), xclbin.pdi.size()), 0x68392c79);
  assert_int_equal(xclbin.kernels.size(), 1);
  assert_string_equal(xclbin.kernels[0].c_str(), "MLIR_AIE");
}

void test_bad_xclbins(void**) {
  const std::string file = make_xclbin(1);
  constexpr size_t kPartition = 456 + 5 * 40;  // the first section
  const struct {
    std::string file;
    std::string word;
  } cases[] = {
      {"", "no xclbin2 magic"},
      {"xclbin2", "no xclbin2 magic"},
      {changed(file, 7, '1'), "no xclbin2 magic"},
      {file.substr(0, 455), "truncated in its header"},
      {file.substr(0, 700), "xclbin truncated: its header says"},
      {file + "x", "xclbin too long: its header says"},
      {changed(file, 448, uint32_t{10001}), "no room for its 10001 sections"},
      {changed(file, 448, uint32_t{2000}), "no room for its 2000 sections"},
      {changed(file, 448, uint32_t{0}), "no AIE_PARTITION"},
      {changed(file, 456, uint32_t{31}), "no AIE_PARTITION"},
      {changed(file, 456 + 24, uint64_t{1} << 40), "section 0 lies outside"},
      {changed(file, 456 + 24, ~uint64_t{0}), "section 0 lies outside"},
      {changed(file, 456 + 32, ~uint64_t{0}), "section 0 lies outside"},
      {changed(file, 456 + 32, uint64_t{183}), "AIE_PARTITION has 183 bytes"},
      {changed(file, kPartition + 32, uint16_t{0}), "array of 0 columns"},
      {changed(file, kPartition + 32, uint16_t{9}), "use a bundle for NPU2"},
      {changed(file, kPartition + 120, uint32_t{2}), "AIE_PARTITION holds 2 PDIs"},
      {changed(file, kPartition + 120, uint32_t{0}), "AIE_PARTITION holds 0 PDIs"},
      {changed(file, kPartition + 124, ~uint32_t{0}), "PDI record outside"},
      {changed(file, 456 + 2 * 40 + 32, uint64_t{7}), "IP_LAYOUT is shorter"},
      {changed(file, 456 + 2 * 40 + 32, uint64_t{80}), "IP_LAYOUT is shorter"},
      {"version https://git-lfs.github.com/spec/v1\n", "git lfs pull"},
  };
  for (const auto& one : cases)
    expect_refused(parse_xclbin(bytes_of(one.file), "k/x").status(), one.word);
  // The PDI's place is in its record, whose place is in the partition.
  uint32_t record = 0;
  std::memcpy(&record, file.data() + kPartition + 124, 4);
  for (const uint32_t bad : {~0u, 0x7fffffffu}) {
    expect_refused(
        parse_xclbin(bytes_of(changed(file, kPartition + record + 20, bad)), "k/x").status(),
        "PDI outside");
    expect_refused(
        parse_xclbin(bytes_of(changed(file, kPartition + record + 16, bad)), "k/x").status(),
        "PDI outside");
  }
  for (size_t keep = 0; keep < file.size(); ++keep) {
    assert_false(parse_xclbin(bytes_of(file.substr(0, keep)), "k/x").ok());
  }
}

std::string fc1_stream() {
  return make_stream(StreamKind::kGemm, "v_fc1", {32, 128, 192, 128, 192, 32, 32, 32, 1, 1, 0}, 5,
                     6);
}

void test_epilogue(void**) {
  std::string stream = fc1_stream();
  assert_int_equal(stream.size(), 3180);
  assert_int_equal(crc32(stream.data(), stream.size()), 0x9cea20c7);
  assert_true(check_stream(bytes_of(stream), "k/x").ok());
  assert_true(find_epilogue(bytes_of(stream)) == std::optional(kEpilogueGeluTanh));
  const auto words = epilogue_words(bytes_of(stream), kEpilogueGeluTanh, kEpilogueNone);
  assert_int_equal(words.size(), 32);
  assert_int_equal(words[1].index, 44);
  assert_true(patch_stream(bytes_of(&stream), words, "k/x").ok());
  assert_int_equal(crc32(stream.data(), stream.size()), 0x0fc74e2e);
  assert_true(find_epilogue(bytes_of(stream)) == std::optional(kEpilogueNone));
  // No word at all unless every core is as it should be.
  assert_true(epilogue_words(bytes_of(stream), kEpilogueGeluTanh, kEpilogueNone).empty());
  const std::string good = fc1_stream();
  for (const size_t core : {size_t{0}, size_t{17}, size_t{31}}) {
    const size_t base = 4 * 24 * core;
    for (const auto& [word, value] :
         {std::pair(18, 0x404u), std::pair(20, 4u), std::pair(21, 0x1cu)}) {
      const std::string bad = changed(good, base + 4 * static_cast<size_t>(word), value);
      assert_true(epilogue_words(bytes_of(bad), kEpilogueGeluTanh, kEpilogueNone).empty());
      assert_false(find_epilogue(bytes_of(bad)).has_value());
    }
  }
  assert_false(find_epilogue(bytes_of(good.substr(0, 4 * (21 + 24 * 31)))).has_value());
  assert_false(find_epilogue({}).has_value());
}

void test_word_lists(void**) {
  std::string stream =
      make_stream(StreamKind::kMha, "mha_96",
                  {1, 96, 3, 64, 0, 576, 192, 576, 384, 576, 0, 192, 0x3f800000, 1, 8, 14});
  assert_int_equal(stream.size(), 1664);
  assert_int_equal(crc32(stream.data(), stream.size()), 0xe33e68e1);
  std::vector<StreamWord> words;
  for (uint32_t core = 0; core < 32; ++core) {
    words.push_back({8 + 12 * core, 54});
    words.push_back({14 + 12 * core, 1u << 30});
  }
  assert_true(patch_stream(bytes_of(&stream), words, "k/x").ok());
  assert_int_equal(crc32(stream.data(), stream.size()), 0x07c96b72);
  assert_int_equal(*stream_word(bytes_of(stream), 8), 54);
  // All words or none.
  const std::string before = stream;
  words = {{8, 1}, {416, 1}};
  expect_refused(patch_stream(bytes_of(&stream), words, "k/x"),
                 "instruction word 416 is past the stream of 416 words");
  assert_true(stream == before);
  assert_false(stream_word(bytes_of(stream), 416).has_value());
}

void test_trailer(void**) {
  const std::string stream = fc1_stream();
  const auto trailer = find_trailer(bytes_of(stream));
  assert_true(trailer.has_value());
  assert_int_equal(trailer->kind, StreamTrailer::kGemm);
  assert_string_equal(trailer->name.c_str(), "v_fc1");
  assert_true(trailer->params ==
              (std::vector<uint32_t>{32, 128, 192, 128, 192, 32, 32, 32, 1, 1, 0}));
  for (size_t keep = 0; keep < stream.size(); keep += 4) {
    assert_false(find_trailer(bytes_of(stream.substr(0, keep))).has_value());
  }
  const size_t last = stream.size() - (4 + 8 + 11) * 4;
  for (const auto& [word, value] : {std::pair(3, 12u), std::pair(4, 1u), std::pair(5, 2u),
                                    std::pair(11, 12u), std::pair(11, ~0u), std::pair(0, 0x77u)}) {
    const std::string bad = changed(stream, last + 4 * static_cast<size_t>(word), value);
    assert_false(find_trailer(bytes_of(bad)).has_value());
  }
}

void test_bad_streams(void**) {
  const std::string good = fc1_stream();
  const struct {
    std::string stream;
    std::string word;
  } cases[] = {
      {"", "0 bytes are no instruction stream"},
      {good.substr(0, 3), "3 bytes"},
      {good.substr(0, 12), "12 bytes"},
      {good.substr(0, 3178), "3178 bytes"},
      {good.substr(0, 3176), "the header says 3180 bytes, the file has 3176"},
      {good + "abcd", "the header says 3180 bytes, the file has 3184"},
      {changed(good, 2, '\x03'), "array generation 3"},
      {"version https://git-lfs.github.com/spec/v1\n\n", "git lfs pull"},
  };
  for (const auto& one : cases) expect_refused(check_stream(bytes_of(one.stream), "k/x"), one.word);
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(test_xclbin),   cmocka_unit_test(test_bad_xclbins),
      cmocka_unit_test(test_epilogue), cmocka_unit_test(test_word_lists),
      cmocka_unit_test(test_trailer),  cmocka_unit_test(test_bad_streams),
  };
  return cmocka_run_group_tests_name("bundle kernel files", tests, nullptr, nullptr);
}

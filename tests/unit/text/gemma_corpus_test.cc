// SPDX-License-Identifier: Apache-2.0
// 10,000 texts against the tokenizers library (golden/gemma_corpus.z, made by
// tests/oracle/gemma_corpus.py): with the demo tokenizer and three random ones, from one thread and
// from several at once.
//
// Two arguments, FILE.z and TOKENIZER_DIR, compare a file made with that tokenizer instead.
#include <zlib.h>

#include <atomic>
#include <cstdio>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "cmocka_cpp.h"
#include "core/file.h"
#include "text/gemma_tokenizer.h"

namespace {

using npuseg::text::GemmaTokenizer;

constexpr uLongf kMaxBytes = uLongf{64} << 20;
constexpr size_t kMade = 3;

struct Corpus {
  std::vector<std::string> files;  // tokenizer.json of the made tokenizers
  std::vector<std::string> texts;
  std::vector<std::vector<uint32_t>> sums;  // per text and tokenizer
};

Corpus* corpus = nullptr;

uint32_t take(std::string_view* bytes) {
  uint32_t value = 0;
  assert_true(bytes->size() >= sizeof(value));
  for (size_t i = 0; i < sizeof(value); ++i) {
    value |= static_cast<uint32_t>(static_cast<unsigned char>((*bytes)[i])) << (8 * i);
  }
  bytes->remove_prefix(sizeof(value));
  return value;
}

std::string take_text(std::string_view* bytes) {
  const size_t size = take(bytes);
  assert_true(bytes->size() >= size);
  std::string text(bytes->substr(0, size));
  bytes->remove_prefix(size);
  return text;
}

Corpus read_corpus(const std::string& path) {
  const auto packed = npuseg::core::read_file(path, kMaxBytes);
  assert_true(packed.ok());
  std::string plain(kMaxBytes, '\0');
  uLongf size = kMaxBytes;
  assert_int_equal(uncompress(reinterpret_cast<Bytef*>(plain.data()), &size,
                              reinterpret_cast<const Bytef*>(packed.value().data()),
                              static_cast<uLong>(packed.value().size())),
                   Z_OK);
  std::string_view bytes(plain.data(), size);
  Corpus out;
  size_t columns = 1;
  for (size_t i = 0; i < kMade; ++i) {
    out.files.push_back(take_text(&bytes));
    if (!out.files.back().empty()) ++columns;
  }
  const uint32_t count = take(&bytes);
  for (uint32_t i = 0; i < count; ++i) {
    out.texts.push_back(take_text(&bytes));
    std::vector<uint32_t> sums;
    for (size_t t = 0; t < columns; ++t) sums.push_back(take(&bytes));
    out.sums.push_back(sums);
  }
  assert_true(bytes.empty());
  return out;
}

bool same(const GemmaTokenizer& tokenizer, const std::string& text, uint32_t wanted) {
  const auto ids = tokenizer.encode(text);
  if (!ids.ok()) return false;
  std::vector<Bytef> bytes;
  for (const int64_t id : ids.value()) {
    for (int shift = 0; shift < 32; shift += 8) bytes.push_back(static_cast<Bytef>(id >> shift));
  }
  return crc32(0, bytes.data(), static_cast<uInt>(bytes.size())) == wanted;
}

size_t differences(const GemmaTokenizer& tokenizer, const Corpus& from, size_t column) {
  size_t count = 0;
  for (size_t i = 0; i < from.texts.size(); ++i) {
    if (same(tokenizer, from.texts[i], from.sums[i][column])) continue;
    if (count++ < 5) print_message("text %zu: %s\n", i, from.texts[i].c_str());
  }
  return count;
}

void test_demo_tokenizer(void**) {
  const auto tokenizer = GemmaTokenizer::load(NPUSEG_SOURCE_DIR "/demo/embeddinggemma2");
  assert_true(tokenizer.ok());
  assert_int_equal(corpus->texts.size(), 10000);
  assert_int_equal(differences(tokenizer.value(), *corpus, 0), 0);
}

void test_made_tokenizers(void**) {
  for (size_t i = 0; i < kMade; ++i) {
    const auto tokenizer = GemmaTokenizer::parse(corpus->files[i], "", "made");
    if (!tokenizer.ok()) print_message("%s\n", tokenizer.status().message().c_str());
    assert_true(tokenizer.ok());
    assert_int_equal(differences(tokenizer.value(), *corpus, 1 + i), 0);
  }
}

void test_threads_share_a_tokenizer(void**) {
  const auto tokenizer = GemmaTokenizer::parse(corpus->files[0], "", "made");
  assert_true(tokenizer.ok());
  std::atomic<size_t> wrong{0};
  std::vector<std::thread> threads;
  for (size_t t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (size_t i = 0; i < corpus->texts.size(); i += 4) {
        if (!same(tokenizer.value(), corpus->texts[i], corpus->sums[i][1])) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  assert_int_equal(wrong.load(), 0);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 3) {
    const Corpus given = read_corpus(argv[1]);
    const auto tokenizer = GemmaTokenizer::load(argv[2]);
    if (!tokenizer.ok()) {
      std::fprintf(stderr, "%s\n", tokenizer.status().message().c_str());
      return 1;
    }
    const size_t count = differences(tokenizer.value(), given, 0);
    std::printf("%zu texts, %zu differences\n", given.texts.size(), count);
    return count == 0 ? 0 : 1;
  }
  Corpus committed = read_corpus(NPUSEG_SOURCE_DIR "/tests/unit/text/golden/gemma_corpus.z");
  corpus = &committed;
  const CMUnitTest tests[] = {
      cmocka_unit_test(test_demo_tokenizer),
      cmocka_unit_test(test_made_tokenizers),
      cmocka_unit_test(test_threads_share_a_tokenizer),
  };
  return cmocka_run_group_tests_name("gemma corpus", tests, nullptr, nullptr);
}

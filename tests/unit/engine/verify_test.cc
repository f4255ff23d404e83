// SPDX-License-Identifier: Apache-2.0
// What a directory states of its files and what is found: sums in all the places where they stand,
// damaged and missing files, indexes of shards. On copies of the demo models.
#include "engine/verify.h"

#include <cctype>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "core/file.h"
#include "core/sha256.h"
#include "engine/stated_sums.h"
// Behind all others.
#include "cmocka_cpp.h"

namespace {

namespace fs = std::filesystem;
using namespace npuseg::engine;
using npuseg::core::Call;
using npuseg::core::Code;
using npuseg::core::join_path;

const std::string kDemo = NPUSEG_SOURCE_DIR "/demo/";
// sha256sum of three bytes "abc" (FIPS 180-4).
const std::string kAbc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

void write(const std::string& path, const std::string& bytes) {
  fs::create_directories(fs::path(path).parent_path());
  std::ofstream(path, std::ios::binary) << bytes;
}

std::string read(const std::string& path) {
  const auto bytes = npuseg::core::read_file(path, size_t{64} << 20);
  assert_true(bytes.ok());
  return bytes.value();
}

// A copy of a demo model's own files.
struct Model {
  explicit Model(const std::string& name) {
    std::string made = (fs::temp_directory_path() / "verify_XXXXXX").string();
    assert_non_null(mkdtemp(made.data()));
    path = made;
    for (const auto& entry : fs::directory_iterator(kDemo + name)) {
      const std::string file = entry.path().filename().string();
      if (file == "samples" || file == "bf16" || file.ends_with(".py")) continue;
      fs::copy(entry.path(), join_path(path, file), fs::copy_options::recursive);
    }
  }
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;
  ~Model() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
  [[nodiscard]] std::string file(const std::string& name) const { return join_path(path, name); }

  [[nodiscard]] std::string sum(const std::string& name) const {
    Call call;
    const auto sum = npuseg::core::sha256_of_file(file(name), call);
    assert_true(sum.ok());
    return sum.value();
  }

  [[nodiscard]] std::shared_ptr<const Report> verify() const {
    auto report = verify_directory(path, {});
    if (!report.ok()) print_error("%s\n", report.status().message().c_str());
    assert_true(report.ok());
    return report.value();
  }

  std::string path;
};

const ReportRow* find(const Report& report, const std::string& subject, const std::string& name) {
  for (const ReportRow& row : report.rows()) {
    if (row.subject == subject && row.name == name) return &row;
  }
  return nullptr;
}

void expect(const Report& report, const std::string& subject, const std::string& name,
            RowState state) {
  const ReportRow* row = find(report, subject, name);
  if (row == nullptr || row->state != state) {
    print_error("%s %s: %s\n", subject.c_str(), name.c_str(),
                row == nullptr ? "no row" : row->detail.c_str());
    fail();
  }
}

void flip_bit(const std::string& path, size_t at) {
  std::string bytes = read(path);
  bytes[at] = static_cast<char>(bytes[at] ^ 16);
  write(path, bytes);
}

void test_sha256(void**) {
  if (!npuseg::core::has_sha256()) skip();
  const Model model("sam3");
  write(model.file("abc"), "abc");
  write(model.file("empty"), "");
  assert_string_equal(model.sum("abc").c_str(), kAbc.c_str());
  assert_string_equal(model.sum("empty").c_str(),
                      "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  // Longer than a piece; of "a" a million times (FIPS 180-4) the sum is known.
  write(model.file("million"), std::string(1'000'000, 'a'));
  assert_string_equal(model.sum("million").c_str(),
                      "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
  write(model.file("twice"), std::string(npuseg::core::kSha256Piece * 2, 'a'));
  write(model.file("more"), std::string(npuseg::core::kSha256Piece * 2 + 1, 'a'));
  assert_true(model.sum("twice") != model.sum("more"));
  Call call;
  assert_false(npuseg::core::sha256_of_file(model.file("none"), call).ok());
}

void test_no_sums(void**) {
  for (const char* name : {"sam3", "embeddinggemma2"}) {
    const Model model(name);
    const auto report = model.verify();
    assert_int_equal(report->failures(), 0);
    expect(*report, "files", "SHA-256", RowState::kInfo);
    expect(*report, "model.safetensors", "structure", RowState::kOk);
    expect(*report, "config.json", "structure", RowState::kOk);
    expect(*report, "model", "structure", RowState::kOk);
  }
}

void test_sums_file(void**) {
  if (!npuseg::core::has_sha256()) skip();
  const Model model("embeddinggemma2");
  std::string upper = model.sum("1_Pooling/config.json");
  for (char& c : upper) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  write(model.file("SHA256SUMS"), "# made by hand\n\n" + model.sum("config.json") +
                                      "  config.json\r\n" + upper + " *./1_Pooling/config.json\n" +
                                      model.sum("model.safetensors") + "  model.safetensors");
  auto report = model.verify();
  assert_int_equal(report->failures(), 0);
  expect(*report, "config.json", "SHA-256", RowState::kOk);
  expect(*report, "1_Pooling/config.json", "SHA-256", RowState::kOk);
  expect(*report, "model.safetensors", "SHA-256", RowState::kOk);
  expect(*report, "files", "without a stated SHA-256", RowState::kInfo);

  // A bit of the weights, which no structure shows.
  flip_bit(model.file("model.safetensors"), fs::file_size(model.file("model.safetensors")) - 100);
  report = model.verify();
  assert_int_equal(report->failures(), 1);
  expect(*report, "model.safetensors", "SHA-256", RowState::kFailed);
  expect(*report, "model.safetensors", "structure", RowState::kOk);

  fs::remove(model.file("1_Pooling/config.json"));
  report = model.verify();
  expect(*report, "1_Pooling/config.json", "file", RowState::kFailed);
}

void test_bad_lines(void**) {
  const Model model("sam3");
  write(model.file("SHA256SUMS"), kAbc + "  ../secret\n" + kAbc + "  /etc/passwd\n" +
                                      kAbc.substr(1) + "  config.json\n" + kAbc + "\n" + kAbc +
                                      "  \nx" + kAbc.substr(1) + "  config.json\n" + kAbc +
                                      "  a/../../b\n");
  const auto report = model.verify();
  assert_int_equal(report->failures(), 7);
  for (const ReportRow& row : report->rows()) {
    if (row.state == RowState::kFailed) assert_string_equal(row.subject.c_str(), "SHA256SUMS");
  }
  write(model.file("SHA256SUMS"),
        kAbc + "  config.json\n" + std::string(64, '0') + "  config.json\n");
  expect(*model.verify(), "SHA256SUMS", "structure", RowState::kFailed);
}

void test_downloads(void**) {
  if (!npuseg::core::has_sha256()) skip();
  const Model model("embeddinggemma2");
  const std::string notes = model.file(".cache/huggingface/download/");
  write(notes + "model.safetensors.metadata", "5c38ec7c405ec4b44b94cc5a9bb96e735b38267a\n" +
                                                  model.sum("model.safetensors") +
                                                  "\n1700000000.0\n");
  // Of small files a download notes another kind of sum, which says nothing here.
  write(notes + "config.json.metadata",
        "5c38ec7c405ec4b44b94cc5a9bb96e735b38267a\n0123456789abcdef0123456789abcdef01234567\n1\n");
  const std::string blob = model.file(".blobs/" + model.sum("tokenizer.json"));
  fs::create_directories(model.file(".blobs"));
  fs::rename(model.file("tokenizer.json"), blob);
  fs::create_symlink(blob, model.file("tokenizer.json"));
  auto report = model.verify();
  assert_int_equal(report->failures(), 0);
  expect(*report, "model.safetensors", "SHA-256", RowState::kOk);
  expect(*report, "tokenizer.json", "SHA-256", RowState::kOk);
  assert_null(find(*report, "config.json", "SHA-256"));

  flip_bit(model.file("model.safetensors"), fs::file_size(model.file("model.safetensors")) - 1);
  expect(*model.verify(), "model.safetensors", "SHA-256", RowState::kFailed);
  fs::remove(blob);
  report = model.verify();
  expect(*report, "tokenizer.json", "file", RowState::kFailed);
  expect(*report, "model", "structure", RowState::kFailed);
}

void test_damaged_files(void**) {
  const Model model("embeddinggemma2");
  const std::string weights = model.file("model.safetensors");
  const std::string good = read(weights);
  write(weights, good.substr(0, good.size() - 1));
  expect(*model.verify(), "model.safetensors", "structure", RowState::kFailed);
  write(weights, "version https://git-lfs.github.com/spec/v1\noid sha256:" + kAbc + "\nsize 3\n");
  const auto report = model.verify();
  expect(*report, "model.safetensors", "structure", RowState::kFailed);
  assert_true(find(*report, "model.safetensors", "structure")->detail.find("git-lfs") !=
              std::string::npos);
  write(weights, good);
  const std::string config = read(model.file("config.json"));
  write(model.file("config.json"), config.substr(0, config.size() / 2));
  expect(*model.verify(), "config.json", "structure", RowState::kFailed);
  expect(*model.verify(), "model", "structure", RowState::kFailed);
}

void test_index(void**) {
  const Model model("embeddinggemma2");
  const std::string whole = read(model.file("model.safetensors"));
  uint64_t header = 0;
  for (size_t i = 0; i < 8; ++i) {
    header |= uint64_t{static_cast<unsigned char>(whole[i])} << (8 * i);
  }
  const size_t bytes = whole.size() - 8 - header;
  fs::rename(model.file("model.safetensors"), model.file("part.safetensors"));
  // Names of all tensors, as the header has them.
  std::string map;
  const std::string json = whole.substr(8, header);
  for (size_t at = json.find("\":{\"dtype\""); at != std::string::npos;
       at = json.find("\":{\"dtype\"", at + 1)) {
    const size_t begin = json.rfind('"', at - 1);
    map += (map.empty() ? "" : ",") + json.substr(begin, at - begin) + "\":\"part.safetensors\"";
  }
  const auto write_index = [&](size_t size) {
    write(model.file("model.safetensors.index.json"),
          "{\"metadata\":{\"total_size\":" + std::to_string(size) + "},\"weight_map\":{" + map +
              "}}");
  };
  write_index(bytes);
  auto report = model.verify();
  assert_int_equal(report->failures(), 0);
  expect(*report, "model.safetensors.index.json", "total_size", RowState::kOk);
  write_index(bytes + 1);
  report = model.verify();
  expect(*report, "model.safetensors.index.json", "total_size", RowState::kFailed);
  assert_int_equal(report->failures(), 1);
}

void test_no_model(void**) {
  const auto code_of = [](const std::string& path) {
    const auto report = verify_directory(path, {});
    assert_false(report.ok());
    return static_cast<int>(report.status().code());
  };
  assert_int_equal(code_of("/nonexistent"), static_cast<int>(Code::kNotFound));
  assert_int_equal(code_of(kDemo), static_cast<int>(Code::kNotFound));
  assert_int_equal(code_of(kDemo + "sam3/config.json"), static_cast<int>(Code::kInvalidArgument));
  ModelOptions options;
  options.call.progress = [](void*, uint32_t, uint64_t, uint64_t) { return 1; };
  const auto stopped = verify_directory(kDemo + "sam3", options);
  assert_false(stopped.ok());
  assert_int_equal(static_cast<int>(stopped.status().code()), static_cast<int>(Code::kCancelled));
}

void test_numbers(void**) {
  Report report;
  const double none = std::nan("");
  report.compare("a", "at most", 1.0, Bound::kAtMost, 1.0);
  report.compare("a", "at least", 1.0, Bound::kAtLeast, 1.0);
  report.compare("a", "equal", 1.0, Bound::kEqual, 1.0);
  assert_int_equal(report.failures(), 0);
  report.compare("a", "below", 1.0, Bound::kBelow, 1.0);
  report.compare("a", "above", 1.0, Bound::kAbove, 1.0);
  for (const Bound bound :
       {Bound::kAtMost, Bound::kBelow, Bound::kAtLeast, Bound::kAbove, Bound::kEqual}) {
    report.compare("a", "no number", none, bound, 1.0);
  }
  assert_int_equal(report.failures(), 7);
  const float one[] = {1.0f, 2.0f};
  const float other[] = {-2.0f, 1.0f};
  const float bad[] = {1.0f, std::nanf("")};
  assert_true(cosine(one, one, 2) > 1.0 - 1e-12);
  assert_true(std::fabs(cosine(one, other, 2)) < 1e-12);
  assert_true(largest_difference(one, other, 2) == 3.0);
  assert_true(std::isinf(largest_difference(one, bad, 2)));
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(test_sha256),    cmocka_unit_test(test_no_sums),
      cmocka_unit_test(test_sums_file), cmocka_unit_test(test_bad_lines),
      cmocka_unit_test(test_downloads), cmocka_unit_test(test_damaged_files),
      cmocka_unit_test(test_index),     cmocka_unit_test(test_no_model),
      cmocka_unit_test(test_numbers),
  };
  return cmocka_run_group_tests_name("verify", tests, nullptr, nullptr);
}

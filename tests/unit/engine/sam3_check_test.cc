// SPDX-License-Identifier: Apache-2.0
// A SAM 3 bundle against its references: all rows of a sound one, and which rows a fault shows in.
#include <algorithm>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "bundle_files.h"
#include "engine/sam3_engine.h"
#include "sam3_references.h"
// Behind all others.
#include "fixture.h"

namespace {

using namespace npuseg::engine;
using namespace npuseg::test;
using npuseg::core::Call;
using npuseg::core::Code;
using npuseg::core::Status;

using Names = std::set<std::string>;

std::string label(const ReportRow& row) { return row.subject + "/" + row.name; }

Report check(const BundleFiles& files, const char* device) {
  const Folder folder;
  files.write(folder.path);
  ModelOptions options;
  options.device = device;
  const auto engine = must(Sam3Engine::load(folder.path, options));
  Report report;
  Call call;
  must(engine->check(call, &report));
  return report;
}

Names failed(const Report& report) {
  Names names;
  for (const ReportRow& row : report.rows()) {
    if (row.state == RowState::kFailed) names.insert(label(row));
  }
  return names;
}

const BundleFiles& sound() {
  static const BundleFiles files = [] {
    BundleFiles made = make_sam3_bundle();
    const Folder folder;
    assert_true(add_sam3_references(folder.path, &made));
    return made;
  }();
  return files;
}

void test_sound(void**) {
  const Names expected = {"tokens 0/ids",        "tokens 1/ids",
                          "picture/pixels",      "packing/bytes",
                          "text encoder/tokens", "ViT/map",
                          "neck/level 0",        "neck/level 1",
                          "neck/level 2",        "DETR encoder/map",
                          "DETR decoder/hidden", "DETR decoder/boxes",
                          "DETR decoder/logits", "DETR decoder/presence",
                          "mask decoder/masks",  "mask decoder/semantic map",
                          "case 0/instances",    "case 0/mask IoU",
                          "case 0/scores"};
  for (const char* device : {"soft:faithful", "soft"}) {
    const Report report = check(sound(), device);
    Names compared;
    for (const ReportRow& row : report.rows()) {
      if (row.compare != Bound::kNone) compared.insert(label(row));
      print_message("%s: %.9g %s\n", label(row).c_str(), row.value, row.detail.c_str());
    }
    assert_true(compared == expected);
    // Masks of a random model have borders that rounding moves; fast mode is not held to them.
    Names wrong = failed(report);
    if (std::string(device) == "soft") {
      for (const char* name : {"case 0/mask IoU"}) wrong.erase(name);
    }
    assert_true(wrong.empty());
  }
}

struct Fault {
  std::vector<std::string> tensors;  // whose values are turned round
  Names rows;
};

// Turned round, every reference is another one.
void test_references(void**) {
  const Fault faults[] = {
      {{"tok.0.ids"}, {"tokens 0/ids"}},
      {{"pack_test.packed"}, {"packing/bytes"}},
      {{"ref.pred_logits"}, {"DETR decoder/logits"}},
      {{"ref.pred_boxes"}, {"DETR decoder/boxes"}},
      {{"ref.semantic"}, {"mask decoder/semantic map"}},
      {{"ref.pred_masks"}, {"mask decoder/masks"}},
      // Matched with other masks, scores belong to others too.
      {{"case.0.masks"}, {"case 0/mask IoU", "case 0/scores"}},
  };
  for (const Fault& fault : faults) {
    BundleFiles files = sound();
    for (const std::string& name : fault.tensors) {
      char* begin = files.find_tensor(name);
      const size_t elements = name == "pack_test.packed" || name == "case.0.masks" ? 1 : 4;
      const size_t count = files.tensor_bytes(name) / elements;
      for (size_t i = 0; i < count / 2; ++i) {
        std::swap_ranges(begin + i * elements, begin + (i + 1) * elements,
                         begin + (count - 1 - i) * elements);
      }
    }
    const Names found = failed(check(files, "soft:faithful"));
    for (const std::string& name : found) print_message("%s\n", name.c_str());
    assert_true(found == fault.rows);
  }
}

// The weights of a stage changed: what it gives is wrong, stages behind it are not, whole cases
// are.
void test_stages(void**) {
  const struct {
    const char* tensor;
    const char* subject;
  } faults[] = {{"v.1.fc2", "ViT"},
                {"n.conv1", "neck"},
                {"d.1.fc2", "DETR encoder"},
                {"dec.kv", "DETR decoder"},
                {"m.conv0", "mask decoder"}};
  for (const auto& fault : faults) {
    BundleFiles files = sound();
    char* begin = files.find_tensor(fault.tensor);
    const size_t bytes = files.tensor_bytes(fault.tensor);
    // Blocks of nine bytes in another order: right in size, another matrix.
    for (size_t i = 0; i < bytes / 18; ++i) {
      std::swap_ranges(begin + i * 9, begin + (i + 1) * 9, begin + bytes - (i + 1) * 9);
    }
    const Names found = failed(check(files, "soft"));
    size_t own = 0;
    for (const std::string& name : found) {
      print_message("%s: %s\n", fault.tensor, name.c_str());
      const bool is_own = name.starts_with(std::string(fault.subject) + "/");
      own += is_own ? 1 : 0;
      assert_true(is_own || name.starts_with("case 0/"));
    }
    assert_true(own != 0);
  }
}

void test_missing(void**) {
  // Without references there is nothing to check.
  const Folder folder;
  Sam3BundleOptions options;
  make_sam3_bundle(options).write(folder.path);
  const auto engine = must(Sam3Engine::load(folder.path, {}));
  Report report;
  Call call;
  const Status status = engine->check(call, &report);
  assert_int_equal(static_cast<int>(status.code()), static_cast<int>(Code::kWrongState));
  // A reference that is lacking or of another size fails its stage alone.
  BundleFiles files = sound();
  std::string& index = files.files["tensors.txt"];
  const size_t at = index.find("\nref.fpn1 ");
  assert_true(at != std::string::npos);
  index[at + 5] = 'x';
  const Names found = failed(check(files, "soft:faithful"));
  const Names expected = {"neck/run", "mask decoder/run"};
  assert_true(found == expected);
}

int32_t stop(void*, uint32_t stage, uint64_t, uint64_t) { return stage == 3 ? 1 : 0; }

void test_stopped(void**) {
  const Folder folder;
  sound().write(folder.path);
  const auto engine = must(Sam3Engine::load(folder.path, {}));
  Report report;
  Call::Options options;
  options.progress = stop;
  Call call(options);
  const Status status = engine->check(call, &report);
  assert_int_equal(static_cast<int>(status.code()), static_cast<int>(Code::kCancelled));
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(test_sound),   cmocka_unit_test(test_references),
      cmocka_unit_test(test_stages),  cmocka_unit_test(test_missing),
      cmocka_unit_test(test_stopped),
  };
  return cmocka_run_group_tests_name("sam3 check", tests, nullptr, nullptr);
}

// SPDX-License-Identifier: Apache-2.0
// The maker of synthetic bundles writes the bytes for which the specs state their golden values
// (iron-bundle-sam3 19.10 - 19.12, iron-bundle-embeddinggemma2 25.3, 25.5).
#include <cstring>
#include <string>

#include "bundle_builder.h"
#include "bundle_files.h"
#include "golden_values.h"
// Behind all others.
#include "cmocka_cpp.h"

namespace {

using namespace npuseg::test;

void expect_file(const BundleFiles& bundle, const std::string& path, size_t bytes, uint32_t crc) {
  const auto at = bundle.files.find(path);
  assert_true(at != bundle.files.end());
  const uint32_t found = crc32(at->second.data(), at->second.size());
  if (at->second.size() != bytes || found != crc) {
    print_error("%s: %zu bytes, CRC %08x\n", path.c_str(), at->second.size(), found);
  }
  assert_int_equal(at->second.size(), bytes);
  assert_int_equal(found, crc);
}

void test_sam3(void**) {
  const BundleFiles bundle = make_sam3_bundle();
  expect_file(bundle, "manifest.txt", 3830, 0x41e324bc);
  expect_file(bundle, "tensors.txt", 12516, 0xe51762c4);
  expect_file(bundle, "tensors.bin", 3992848, 0xe45e0fd6);
  expect_file(bundle, "kernels/v_fc1.insts.bin", 3180, 0x9cea20c7);
  expect_file(bundle, "kernels/g0.xclbin", 2724, 0x004f56a9);
  const std::string rgb = test_picture(120, 90);
  assert_int_equal(crc32(rgb.data(), rgb.size()), 0xd23737dd);
}

void test_sam3_variants(void**) {
  Sam3BundleOptions options;
  options.format = 1;
  expect_file(make_sam3_bundle(options), "manifest.txt", 3810, 0xeee11554);
  expect_file(make_sam3_bundle(options), "tensors.bin", 3992848, 0xe45e0fd6);
  options.format = 2;
  options.host_vit = true;
  expect_file(make_sam3_bundle(options), "manifest.txt", 3660, 0xc666381b);
  expect_file(make_sam3_bundle(options), "tensors.bin", 4016912, 0x295b12d7);
}

void test_gemma(void**) {
  const BundleFiles bundle = make_gemma_bundle();
  expect_file(bundle, "manifest.txt", 7323, 0x54ff3647);
  expect_file(bundle, "tensors.txt", 3075, 0x3c8fc2f8);
  expect_file(bundle, "tensors.bin", 1410548, 0x21cdbafb);
  expect_file(bundle, "kernels/mha_96.insts.bin", 1664, 0xe33e68e1);
}

void test_changes(void**) {
  Sam3BundleOptions options;
  options.drop = {"m.sem.b", "op rope", "ref_prompt"};
  BundleFiles bundle = make_sam3_bundle(options);
  const std::string& manifest = bundle.files["manifest.txt"];
  assert_true(manifest.find("op rope ") == std::string::npos);
  assert_true(manifest.find("op addln ") != std::string::npos);
  assert_true(manifest.find("ref_prompt") == std::string::npos);
  assert_true(bundle.files["tensors.txt"].find("m.sem.b ") == std::string::npos);
  assert_int_equal(bundle.replace_line("param grid ", "param grid 9"), 1);
  assert_true(manifest.find("param grid 9\n") != std::string::npos);
  assert_int_equal(bundle.replace_line("mha ", ""), 3);
  bundle.add_tensor("more", "u8", {3}, "abc");
  assert_int_equal(bundle.files["tensors.bin"].size() % 64, 3);
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(test_sam3),
      cmocka_unit_test(test_sam3_variants),
      cmocka_unit_test(test_gemma),
      cmocka_unit_test(test_changes),
  };
  return cmocka_run_group_tests_name("bundle maker", tests, nullptr, nullptr);
}

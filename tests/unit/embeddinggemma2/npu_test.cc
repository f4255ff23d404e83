// SPDX-License-Identifier: Apache-2.0
// EmbeddingGemma 2 replayed from a synthetic bundle on the software NPU, against what the public
// program computes from the same bundle (spec iron-bundle-embeddinggemma2.md, 25.5; the tensors of
// golden/npu_tiny.safetensors are its references).
//
// In faithful mode soft tokens, bfloat16 values of the device, are equal but where a sum lies in
// the middle between two of them; the test counts those. Texts go through a softmax with another
// exponential than that program's, so vectors are compared by cosine. In fast mode sums in float32
// take other bfloat16 neighbours now and then, which this random model spreads to all values; its
// vectors have the bound by which bundles are checked.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "bundle_files.h"
#include "golden_values.h"
#include "image/patches.h"
#include "image/picture.h"
#include "model/embeddinggemma2/npu_model.h"
#include "npu/soft/soft_device.h"
// Behind all others.
#include "gemma_fixture.h"

namespace {

using namespace npuseg::test;
using namespace npuseg::embeddinggemma2;
using npuseg::bundle::Bundle;
using npuseg::core::Call;
using npuseg::core::Code;
using npuseg::core::ConstMatrixView;
using npuseg::core::Matrix;
using npuseg::npu::soft::Mode;

constexpr double kFaithfulCosine = 0.9997;
constexpr double kCheckCosine = 0.999;  // spec, section 17
constexpr size_t kMostTies = 3;         // of 384 values; none was found
constexpr size_t kVectorFloats = 48;

template <class T>
std::vector<T> golden(const std::string& name) {
  static const Golden file("npu_tiny");
  return file.values<T>(name);
}

double cosine(const float* a, const float* b, size_t count) {
  double product = 0.0;
  double squares_a = 0.0;
  double squares_b = 0.0;
  for (size_t i = 0; i < count; ++i) {
    product += static_cast<double>(a[i]) * static_cast<double>(b[i]);
    squares_a += static_cast<double>(a[i]) * static_cast<double>(a[i]);
    squares_b += static_cast<double>(b[i]) * static_cast<double>(b[i]);
  }
  return product / std::sqrt(squares_a * squares_b);
}

struct Loaded {
  explicit Loaded(Mode mode, const GemmaBundleOptions& options = {}) {
    make_gemma_bundle(options).write(folder.path);
    const auto bundle = std::make_shared<const Bundle>(must(Bundle::open(folder.path)));
    device = npuseg::npu::soft::make_device({mode, nullptr, {}});
    model = must(NpuModel::load(bundle, device, {}));
  }
  Folder folder;
  std::shared_ptr<npuseg::npu::Device> device;
  std::shared_ptr<NpuModel> model;
};

// The 120 x 90 picture of the references, 9 x 6 patches.
npuseg::image::PatchedPicture reference_patches() {
  std::string rgb(size_t{120} * 90 * 3, '\0');
  for (size_t i = 0; i < rgb.size(); ++i) rgb[i] = static_cast<char>(u8v(i));
  Call call;
  npuseg::image::PatchRule rule;
  rule.max_soft_tokens = 10;
  rule.patch_size = 8;
  const npuseg::image::RgbView view{reinterpret_cast<const unsigned char*>(rgb.data()), 120, 90,
                                    360};
  return must(npuseg::image::make_patches(call, view, rule));
}

Matrix soft_tokens_of(const Loaded& loaded, const npuseg::image::PatchedPicture& picture) {
  Call call;
  Patches patches;
  patches.pixels = picture.pixels.view();
  patches.grid_width = picture.grid.width;
  patches.grid_height = picture.grid.height;
  return must(loaded.model->encode_picture(call, patches, nullptr));
}

std::vector<float> vector_of(const Loaded& loaded, const Sequence& sequence) {
  Call call;
  const Matrix out = must(loaded.model->embed(call, {&sequence, 1}, nullptr));
  assert_int_equal(out.cols(), kVectorFloats);
  return {out.view().row(0), out.view().row(0) + out.cols()};
}

void check_cosine(const std::string& name, const std::vector<float>& vector, double least) {
  const std::vector<float> want = golden<float>(name);
  const double found = cosine(vector.data(), want.data(), want.size());
  print_message("%s: 1 - cosine %.2g\n", name.c_str(), 1.0 - found);
  assert_true(found >= least);
}

void run_references(Mode mode, double least) {
  const Loaded loaded(mode);
  const npuseg::image::PatchedPicture picture = reference_patches();
  const std::vector<float> pixels = golden<float>("pixels");
  assert_int_equal(picture.pixels.rows() * picture.pixels.cols(), pixels.size());
  assert_memory_equal(picture.pixels.data(), pixels.data(), pixels.size() * sizeof(float));

  const Matrix soft = soft_tokens_of(loaded, picture);
  const std::vector<float> want = golden<float>("soft");
  assert_int_equal(soft.rows() * soft.cols(), want.size());
  size_t ties = 0;
  float largest = 0.0f;
  for (size_t i = 0; i < want.size(); ++i) {
    if (soft.data()[i] != want[i]) ++ties;
    largest = std::max(largest, std::fabs(soft.data()[i] - want[i]));
  }
  print_message("soft tokens: %zu of %zu differ, by %.2g at most\n", ties, want.size(),
                static_cast<double>(largest));
  if (mode == Mode::kFaithful) assert_true(ties <= kMostTies);

  const NpuModel::SpecialIds& ids = loaded.model->special_ids();
  const std::vector<int64_t> before = {ids.start, ids.begin_image};
  const std::vector<int64_t> behind = {ids.end_image, ids.end};
  const Sequence one = {{before, {}}, {{}, soft.view()}, {behind, {}}};
  check_cosine("picture", vector_of(loaded, one), least);
  for (int i = 0; i < 4; ++i) {
    const std::string name = "text." + std::to_string(i);
    const std::vector<int64_t> tokens = golden<int64_t>(name + ".ids");
    check_cosine(name, vector_of(loaded, {{tokens, {}}}), least);
  }
}

void test_references_faithful(void**) { run_references(Mode::kFaithful, kFaithfulCosine); }
void test_references_fast(void**) { run_references(Mode::kFast, kCheckCosine); }

// Inputs of a batch share runs; each has the bytes that it has alone, on any number of threads.
void test_batches(void**) {
  for (const Mode mode : {Mode::kFast, Mode::kFaithful}) {
    const Loaded loaded(mode);
    const Matrix soft = soft_tokens_of(loaded, reference_patches());
    const NpuModel::SpecialIds& ids = loaded.model->special_ids();
    const std::vector<int64_t> before = {ids.start, ids.begin_image};
    const std::vector<int64_t> behind = {ids.end_image, ids.end};
    const auto first = golden<int64_t>("text.0.ids");
    const auto second = golden<int64_t>("text.1.ids");
    const std::vector<Sequence> inputs = {{{first, {}}},
                                          {{before, {}}, {{}, soft.view()}, {behind, {}}},
                                          {{second, {}}},
                                          {{first, {}}}};
    for (const int threads : {1, 2, 3}) {
      Call::Options options;
      options.threads = threads;
      Call call(options);
      const Matrix out = must(loaded.model->embed(call, inputs, nullptr));
      assert_int_equal(out.rows(), inputs.size());
      for (size_t i = 0; i < inputs.size(); ++i) {
        const std::vector<float> alone = vector_of(loaded, inputs[i]);
        assert_memory_equal(out.view().row(i), alone.data(), alone.size() * sizeof(float));
      }
    }
  }
}

// Other sizes than the references', the second plane of weights, buckets that a picture just fills.
void test_sizes(void**) {
  GemmaBundleOptions options;
  options.planes = 2;
  options.v_layers = 1;
  options.layers = 3;
  options.out = 33;
  const Loaded loaded(Mode::kFaithful, options);
  const Matrix soft = soft_tokens_of(loaded, reference_patches());
  const NpuModel::SpecialIds& ids = loaded.model->special_ids();
  const std::vector<int64_t> around = {ids.start, ids.begin_image};
  Call call;
  const std::vector<Sequence> inputs = {{{around, {}}, {{}, soft.view()}}};
  const Matrix out = must(loaded.model->embed(call, inputs, nullptr));
  assert_int_equal(out.cols(), 33);
  double squares = 0.0;
  for (size_t i = 0; i < out.cols(); ++i) {
    squares += static_cast<double>(out.data()[i]) * static_cast<double>(out.data()[i]);
  }
  assert_true(std::fabs(squares - 1.0) < 1e-5);
}

void test_refusals(void**) {
  const Loaded loaded(Mode::kFast);
  const auto refused = [&](const Sequence& sequence, Code code) {
    Call call;
    const auto result = loaded.model->embed(call, {&sequence, 1}, nullptr);
    assert_false(result.ok());
    assert_int_equal(static_cast<int>(result.status().code()), static_cast<int>(code));
    assert_true(result.status().message().size() > 20);
  };
  const std::vector<int64_t> unknown = {2, 600, 1};
  const std::vector<int64_t> negative = {2, -1, 1};
  const std::vector<int64_t> many(65, 2);
  refused({{unknown, {}}}, Code::kInvalidArgument);
  refused({{negative, {}}}, Code::kInvalidArgument);
  refused({{many, {}}}, Code::kLimitExceeded);
  // More patches than the bundle has rows for.
  npuseg::core::Matrix pixels = must(Matrix::make(nullptr, 12 * 12, 192, "pixels"));
  Patches patches;
  patches.pixels = pixels.view();
  patches.grid_width = patches.grid_height = 12;
  Call call;
  const auto result = loaded.model->encode_picture(call, patches, nullptr);
  assert_false(result.ok());
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(test_references_faithful),
      cmocka_unit_test(test_references_fast),
      cmocka_unit_test(test_batches),
      cmocka_unit_test(test_sizes),
      cmocka_unit_test(test_refusals),
  };
  return cmocka_run_group_tests_name("embeddinggemma2 npu", tests, nullptr, nullptr);
}

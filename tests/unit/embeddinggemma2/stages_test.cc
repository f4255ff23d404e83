// SPDX-License-Identifier: Apache-2.0
// Every stage against transformers in float64 (tests/oracle/embeddinggemma2_stages.py writes the
// goldens), and that a vector has the same bits alone, in any batch and on any number of threads.
//
// The bound of a stage is derived, not chosen: twice the largest error of torch's own float32 run
// of the whole network at that stage, plus 1e-6 of the range of the stage's values; for the final
// vector plus 1e-7. Stages are fed by npuseg's earlier stages, so both sides accumulate.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "model/embeddinggemma2/pooling.h"
#include "model/embeddinggemma2/soft_tokens.h"
#include "model/embeddinggemma2/text_embedder.h"
#include "model/embeddinggemma2/text_encoder.h"
#include "model/embeddinggemma2/vision_embedder.h"
#include "model/embeddinggemma2/vision_encoder.h"
#include "model/embeddinggemma2/weights.h"
// Behind all others.
#include "gemma_fixture.h"

namespace {

using namespace npuseg::test;
using namespace npuseg::embeddinggemma2;
using npuseg::compute::Exec;
using npuseg::core::Call;
using npuseg::core::ConstMatrixView;
using npuseg::core::DType;
using npuseg::core::Matrix;

constexpr size_t kSamples = 96;     // as in the script
constexpr size_t kStep = 15485863;  // likewise
constexpr double kRangePart = 1e-6;
constexpr double kEmbeddingPart = 1e-7;
constexpr const char* kCases[] = {"text", "pictures", "bf16", "heads", "window"};

// Largest errors of a kind of stage over all cases, as parts of the stage's range.
struct Worst {
  double npuseg = 0;
  double torch = 0;
  double used = 0;  // largest error / bound
};
std::map<std::string, Worst> g_worst;
int g_failures = 0;

// "s3.layer.1" -> "text layer".
std::string kind_of(const std::string& stage) {
  const size_t dot = stage.find('.');
  return (stage[0] == 'p' ? "vision " : "text ") +
         stage.substr(dot + 1, stage.find('.', dot + 1) - dot - 1);
}

void check(const Golden& golden, const std::string& label, const std::string& stage,
           ConstMatrixView got) {
  const std::vector<double> want = golden.values<double>(stage);
  const std::vector<double> about = golden.values<double>(stage + "#");
  const size_t count = got.rows * got.cols;
  assert_int_equal(count, static_cast<size_t>(about[0]));
  assert_int_equal(want.size(), std::min(count, kSamples));
  double error = 0;
  for (size_t k = 0; k < want.size(); ++k) {
    const size_t i = count <= kSamples ? k : (k * kStep) % count;
    const double off =
        std::fabs(static_cast<double>(got.row(i / got.cols)[i % got.cols]) - want[k]);
    // Written so that a NaN is kept.
    error = off <= error ? error : off;
  }
  const double range = about[3] - about[2];
  const bool last = stage.ends_with("embedding");
  const double bound = 2 * about[1] + (last ? kEmbeddingPart : kRangePart * range);
  if (!(error <= bound)) {
    ++g_failures;
    print_error("%s %s: off by %.3g, the bound is %.3g\n", label.c_str(), stage.c_str(), error,
                bound);
  }
  Worst& worst = g_worst[kind_of(stage)];
  worst.npuseg = std::max(worst.npuseg, error / range);
  worst.torch = std::max(worst.torch, about[1] / range);
  worst.used = std::max(worst.used, error / bound);
}

// One case: the model, its pictures' patches and what its inputs are made of.
class Case {
 public:
  explicit Case(const std::string& name) : golden("stages_" + name), name_(name) {
    const auto text = golden.values<char>("config");
    const bool bf16 = golden.values<int64_t>("bf16")[0] != 0;
    model = make_gemma({text.data(), text.size()}, bf16 ? DType::kBF16 : DType::kF32, stage_values);
    const auto sizes = golden.values<int64_t>("pictures");
    for (size_t p = 0; 2 * p < sizes.size(); ++p) {
      add_picture(p, static_cast<size_t>(sizes[2 * p]), static_cast<size_t>(sizes[2 * p + 1]));
    }
    for (size_t s = 0; golden.has("s" + std::to_string(s) + ".parts"); ++s) {
      parts_.push_back(golden.values<int64_t>("s" + std::to_string(s) + ".parts"));
    }
  }

  [[nodiscard]] size_t inputs() const { return parts_.size(); }
  [[nodiscard]] const std::string& name() const { return name_; }

  // soft: of every picture.
  [[nodiscard]] std::vector<Sequence> sequences(const std::vector<Matrix>& soft) const {
    std::vector<Sequence> all;
    for (const auto& parts : parts_) {
      Sequence sequence;
      size_t first = 0;
      for (size_t i = 0; i <= parts.size(); ++i) {
        if (i < parts.size() && parts[i] >= 0) continue;
        if (i != first) sequence.push_back({{parts.data() + first, i - first}, {}});
        if (i < parts.size()) {
          sequence.push_back({{}, soft[static_cast<size_t>(-1 - parts[i])].view()});
        }
        first = i + 1;
      }
      all.push_back(sequence);
    }
    return all;
  }

  Golden golden;
  GemmaPtr model;
  std::vector<Patches> patches;

 private:
  void add_picture(size_t p, size_t width, size_t height) {
    const size_t side = model->config().vision->patch_size;
    std::vector<float> values;
    for (size_t patch = 0; patch < width * height; ++patch) {
      for (size_t i = 0; i < side * side; ++i) {
        const size_t y = patch / width * side + i / side;
        const size_t x = patch % width * side + i % side;
        for (size_t c = 0; c < 3; ++c) {
          const size_t level =
              (x * (3 + 2 * c) + y * (5 - c) + 11 * c * c + x * y / 7 + 29 * p) % 256;
          values.push_back(static_cast<float>(level) * static_cast<float>(0.00392156862745098));
        }
      }
    }
    pixels_.push_back(std::move(values));
    patches.push_back(
        {{pixels_.back().data(), width * height, side * side * 3, side * side * 3}, width, height});
  }

  std::string name_;
  std::vector<std::vector<float>> pixels_;
  std::vector<std::vector<int64_t>> parts_;
};

std::vector<Matrix> all_soft_tokens(const Case& c, Call& call) {
  std::vector<Matrix> soft;
  for (const Patches& patches : c.patches) {
    soft.push_back(must(c.model->encode_picture(call, patches, nullptr)));
  }
  return soft;
}

void check_pictures(const Case& c, const Exec& exec, std::vector<Matrix>* soft) {
  for (size_t p = 0; p < c.patches.size(); ++p) {
    const Patches& patches = c.patches[p];
    const std::string at = "p" + std::to_string(p) + ".";
    Matrix tokens = must(embed_patches(*c.model, exec, patches));
    check(c.golden, c.name(), at + "patches", tokens.view());
    must(run_vision_encoder(*c.model, exec, patches.grid_width, patches.grid_height, tokens.view(),
                            [&](size_t i, ConstMatrixView layer) {
                              check(c.golden, c.name(), at + "layer." + std::to_string(i), layer);
                            }));
    const Matrix pooled = must(
        pool_patches(exec, tokens.view(), patches.grid_width, c.model->config().vision->pooling));
    check(c.golden, c.name(), at + "pooled", pooled.view());
    soft->push_back(must(project_soft_tokens(*c.model, exec, pooled.view())));
    check(c.golden, c.name(), at + "soft", soft->back().view());
  }
}

void check_input(const Case& c, const Exec& exec, size_t s, const Sequence& sequence) {
  const std::string at = "s" + std::to_string(s) + ".";
  const PackedTokens packed = must(embed_tokens(*c.model, exec, {&sequence, 1}));
  check(c.golden, c.name(), at + "embedded", packed.tokens.view());
  const auto& text = c.model->config().text;
  Matrix input = must(Matrix::make(nullptr, packed.tokens.rows(), text.per_layer_size, "test"));
  for (size_t i = 0; i < text.layers; ++i) {
    must(per_layer_input(*c.model, exec, i, packed.tokens.view(), input.view()));
    check(c.golden, c.name(), at + "ple." + std::to_string(i), input.view());
  }
  const Matrix h =
      must(run_text_encoder(*c.model, exec, packed, [&](size_t i, ConstMatrixView tokens) {
        check(c.golden, c.name(), at + "layer." + std::to_string(i), tokens);
      }));
  const Matrix pooled =
      must(pool_tokens(exec, {c.model->weights().text.norm, c.model->config().text.rms_norm_eps},
                       h.view(), packed.starts));
  check(c.golden, c.name(), at + "mean", pooled.view());
}

void check_embedding(const Case& c, size_t s, const float* got) {
  const std::string stage = "s" + std::to_string(s) + ".embedding";
  const size_t dim = c.model->config().text.embedding_dim;
  check(c.golden, c.name(), stage, {got, 1, dim, dim});
  const auto want = c.golden.values<double>(stage);
  assert_int_equal(want.size(), dim);
  double dot = 0;
  double a = 0;
  double b = 0;
  for (size_t i = 0; i < dim; ++i) {
    const auto v = static_cast<double>(got[i]);
    dot += v * want[i];
    a += v * v;
    b += want[i] * want[i];
  }
  assert_true(dot / std::sqrt(a * b) >= 0.999999);
  assert_true(std::fabs(std::sqrt(a) - 1.0) < 1e-6);
}

void test_stages(void**) {
  for (const char* name : kCases) {
    const Case c(name);
    Call call(on_threads(2));
    const Exec exec{&call, nullptr};
    std::vector<Matrix> soft;
    check_pictures(c, exec, &soft);
    const std::vector<Sequence> sequences = c.sequences(soft);
    for (size_t s = 0; s < sequences.size(); ++s) check_input(c, exec, s, sequences[s]);
    const Matrix all = must(c.model->embed(call, sequences, nullptr));
    for (size_t s = 0; s < c.inputs(); ++s) check_embedding(c, s, all.view().row(s));
  }
  for (const auto& [kind, worst] : g_worst) {
    print_message("%-16s npuseg %.2g, torch %.2g of the range; %.2f of the bound\n", kind.c_str(),
                  worst.npuseg, worst.torch, worst.used);
  }
  assert_int_equal(g_failures, 0);
}

void same_bits(const char* what, const Matrix& a, const Matrix& b) {
  assert_int_equal(a.rows(), b.rows());
  if (std::memcmp(a.data(), b.data(), a.rows() * a.cols() * sizeof(float)) != 0) {
    print_error("%s differ\n", what);
    fail();
  }
}

void test_threads(void**) {
  for (const char* name : kCases) {
    const Case c(name);
    Call one(on_threads(1));
    const std::vector<Matrix> soft = all_soft_tokens(c, one);
    const Matrix vectors = must(c.model->embed(one, c.sequences(soft), nullptr));
    for (const int threads : {2, 3}) {
      Call more(on_threads(threads));
      const std::vector<Matrix> again = all_soft_tokens(c, more);
      for (size_t p = 0; p < soft.size(); ++p) same_bits("soft tokens", soft[p], again[p]);
      same_bits("vectors", vectors, must(c.model->embed(more, c.sequences(again), nullptr)));
    }
  }
}

// Alone, doubled, in reverse order, and so many that several packs are needed.
void test_batches(void**) {
  for (const char* name : kCases) {
    const Case c(name);
    Call call(on_threads(2));
    const std::vector<Matrix> soft = all_soft_tokens(c, call);
    const std::vector<Sequence> inputs = c.sequences(soft);
    const size_t bytes = c.model->config().text.embedding_dim * sizeof(float);
    const Matrix together = must(c.model->embed(call, inputs, nullptr));
    for (size_t s = 0; s < inputs.size(); ++s) {
      const Matrix alone = must(c.model->embed(call, {&inputs[s], 1}, nullptr));
      assert_memory_equal(alone.data(), together.view().row(s), bytes);
    }
    std::vector<Sequence> many;
    for (size_t i = 0; i < 31; ++i) many.push_back(inputs[inputs.size() - 1 - i % inputs.size()]);
    const Matrix all = must(c.model->embed(call, many, nullptr));
    for (size_t i = 0; i < many.size(); ++i) {
      assert_memory_equal(all.view().row(i),
                          together.view().row(inputs.size() - 1 - i % inputs.size()), bytes);
    }
  }
}

void test_shorten(void**) {
  const Case c("text");
  Call call;
  const std::vector<Sequence> inputs = c.sequences({});
  const Matrix all = must(c.model->embed(call, {inputs.data(), 1}, nullptr));
  float head[16];
  shorten({all.data(), 40}, 16, head);
  double length = 0;
  for (const float v : head) length += static_cast<double>(v) * static_cast<double>(v);
  assert_true(std::fabs(length - 1.0) < 1e-6);
  for (size_t i = 1; i < 16; ++i) {
    assert_true(std::fabs(head[i] * all.data()[0] - head[0] * all.data()[i]) < 1e-7f);
  }
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(test_stages),
      cmocka_unit_test(test_threads),
      cmocka_unit_test(test_batches),
      cmocka_unit_test(test_shorten),
  };
  return cmocka_run_group_tests_name("embeddinggemma2 stages", tests, nullptr, nullptr);
}

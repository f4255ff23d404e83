// SPDX-License-Identifier: Apache-2.0
// Every stage against transformers in float64 (tests/oracle/sam3_stages.py writes the goldens).
//
// The bound of a stage is derived, not chosen: twice the largest error of torch's own float32 run
// of the whole network at that stage, plus 1e-6 of the range of the stage's values. Stages are fed
// by npuseg's earlier stages, so both sides accumulate. A layer inside a stage is seen by running
// the same weights under a config with fewer layers.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "checkpoint/safetensors.h"
#include "core/file.h"
#include "hash_weights.h"
#include "image/mask.h"
#include "model/sam3/constants.h"
#include "model/sam3/detr_decoder.h"
#include "model/sam3/detr_encoder.h"
#include "model/sam3/geometry_encoder.h"
#include "model/sam3/mask_decoder.h"
#include "model/sam3/neck.h"
#include "model/sam3/sam3.h"
#include "model/sam3/scoring.h"
#include "model/sam3/text_encoder.h"
#include "model/sam3/vit.h"
// Behind all others.
#include "cmocka_cpp.h"

namespace {

using npuseg::core::Call;
using npuseg::core::ConstMatrixView;
using npuseg::core::DType;
using npuseg::core::Matrix;
using npuseg::sam3::Detection;
using npuseg::sam3::ExemplarBox;
using npuseg::sam3::Model;
using npuseg::test::HashCheckpoint;
using ModelPtr = std::shared_ptr<const Model>;

constexpr size_t kSamples = 256;    // as in the script
constexpr size_t kStep = 15485863;  // likewise
constexpr double kRangePart = 1e-6;
constexpr double kScoreBound = 1e-5;
constexpr double kBoxBound = 1e-3 / 1008;  // a thousandth of a pixel of the model's picture
constexpr double kMaskPart = 1e-4;         // of the range of the logits

template <class T>
T must(npuseg::core::Result<T> result) {
  if (!result.ok()) {
    print_error("%s\n", result.status().message().c_str());
    fail();
  }
  return std::move(result).value();
}

// The tensors of one golden file.
class Golden {
 public:
  explicit Golden(const std::string& name)
      : file_(must(npuseg::core::MappedFile::open(std::string(NPUSEG_SOURCE_DIR) +
                                                  "/tests/unit/sam3/golden/stages_" + name +
                                                  ".safetensors"))) {
    for (auto& tensor : must(npuseg::checkpoint::parse_safetensors(file_.bytes(), name))) {
      tensors_.emplace(tensor.name, tensor.entry.view);
    }
  }
  [[nodiscard]] bool has(const std::string& name) const { return tensors_.count(name) != 0; }
  template <class T>
  [[nodiscard]] std::vector<T> values(const std::string& name) const {
    const auto at = tensors_.find(name);
    if (at == tensors_.end() || at->second.bytes() % sizeof(T) != 0) {
      print_error("golden file lacks %s\n", name.c_str());
      fail();
    }
    std::vector<T> out(at->second.bytes() / sizeof(T));
    if (!out.empty()) std::memcpy(out.data(), at->second.data, at->second.bytes());
    return out;
  }

 private:
  npuseg::core::MappedFile file_;
  std::map<std::string, npuseg::core::TensorView> tensors_;
};

// Largest errors of a kind of stage over all layers and prompts of all cases, parts of the range.
struct Worst {
  double npuseg = 0;
  double torch = 0;
  double used = 0;  // largest error / bound
};
std::map<std::string, Worst> g_worst;
int g_failures = 0;

void judge(const std::string& stage, double error, double bound) {
  if (error <= bound) return;  // false for NaN
  ++g_failures;
  print_error("%s: off by %.3g, the bound is %.3g\n", stage.c_str(), error, bound);
}

// "p3.encoder.1" -> "encoder".
std::string kind_of(const std::string& stage) {
  std::string kind = stage;
  if (kind[0] == 'p' && kind[1] >= '0' && kind[1] <= '9') kind = kind.substr(kind.find('.') + 1);
  return kind.substr(0, kind.find('.'));
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
    error = off <= error ? error : off;
  }
  const double range = about[3] - about[2];
  const double bound = 2 * about[1] + kRangePart * range;
  judge(label + " " + stage, error, bound);
  Worst& worst = g_worst[kind_of(stage)];
  worst.npuseg = std::max(worst.npuseg, error / range);
  worst.torch = std::max(worst.torch, about[1] / range);
  worst.used = std::max(worst.used, error / bound);
}

void check(const Golden& golden, const std::string& label, const std::string& stage,
           const std::vector<float>& got) {
  check(golden, label, stage, ConstMatrixView{got.data(), 1, got.size(), got.size()});
}

// One checkpoint whose config is rewritten to run fewer layers of the same weights.
class Weights {
 public:
  Weights(const Golden& golden, const HashCheckpoint& how)
      : layers(golden.values<int64_t>("layers")), form_a_(how.form_a) {
    const auto text = golden.values<char>("config");
    template_.assign(text.begin(), text.end());
    std::string name = (std::filesystem::temp_directory_path() / "stages_XXXXXX").string();
    assert_non_null(mkdtemp(name.data()));
    path_ = name;
    assert_true(
        npuseg::test::write_hash_checkpoint(path_, config(layers[0], layers[1], layers[2]), how));
  }
  Weights(const Weights&) = delete;
  Weights& operator=(const Weights&) = delete;
  ~Weights() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  ModelPtr load(int64_t vit, int64_t encoder, int64_t decoder) const {
    const std::string text = config(vit, encoder, decoder);
    std::ofstream out(path_ + "/config.json", std::ios::binary);
    out << (form_a_ ? "{\"model_type\":\"sam3_video\",\"detector_config\":" + text + "}" : text);
    out.close();
    assert_true(out.good());
    Call call;
    return must(Model::load(path_, {}, call));
  }
  ModelPtr whole() const { return load(layers[0], layers[1], layers[2]); }

  const std::vector<int64_t> layers;  // ViT, DETR encoder, DETR decoder

 private:
  [[nodiscard]] std::string config(int64_t vit, int64_t encoder, int64_t decoder) const {
    std::string text = template_;
    const auto put = [&](const std::string& mark, int64_t number) {
      const size_t at = text.find(mark);
      assert_true(at != std::string::npos);
      text.replace(at, mark.size(), std::to_string(number));
    };
    put("\"@VIT@\"", vit);
    put("\"@ENCODER@\"", encoder);
    put("\"@DECODER@\"", decoder);
    return text;
  }

  bool form_a_;
  std::string template_;
  std::string path_;
};

std::vector<float> picture(size_t side) {
  std::vector<float> pixels(3 * side * side);
  for (size_t c = 0; c < 3; ++c) {
    for (size_t y = 0; y < side; ++y) {
      for (size_t x = 0; x < side; ++x) {
        const auto u = static_cast<uint8_t>(x * (3 + 2 * c) + y * (5 - c) + 11 * c * c + x * y / 7);
        pixels[(c * side + y) * side + x] = (static_cast<float>(u) - 127.5f) / 127.5f;
      }
    }
  }
  return pixels;
}

struct Prompt {
  std::vector<int64_t> ids;
  std::vector<ExemplarBox> boxes;
  float threshold = 0;
};

Prompt read_prompt(const Golden& golden, const std::string& at) {
  Prompt prompt;
  prompt.ids = golden.values<int64_t>(at + "ids");
  prompt.threshold = static_cast<float>(golden.values<double>(at + "threshold")[0]);
  const auto boxes = golden.values<double>(at + "boxes_in");
  const auto labels = golden.values<int64_t>(at + "labels");
  for (size_t i = 0; i < labels.size(); ++i) {
    const double* box = boxes.data() + 4 * i;
    prompt.boxes.push_back({static_cast<float>(box[0]), static_cast<float>(box[1]),
                            static_cast<float>(box[2]), static_cast<float>(box[3]),
                            static_cast<int32_t>(labels[i])});
  }
  return prompt;
}

void check_tables(const Golden& golden, const std::string& label, const Model& model) {
  const auto& constants = model.constants();
  check(golden, label, "positions", constants.positions);
  const struct {
    const char* kind;
    const npuseg::sam3::RopeTable* table;
  } tables[] = {{"window", &constants.window_rope}, {"global", &constants.global_rope}};
  for (const auto& one : tables) {
    check(golden, label, std::string("cosine.") + one.kind, one.table->cosine);
    check(golden, label, std::string("sine.") + one.kind, one.table->sine);
  }
}

// Picture side; returns the pyramid for the prompts.
std::vector<Matrix> check_picture(const Golden& golden, const std::string& label,
                                  const Weights& weights, const std::vector<float>& pixels,
                                  Matrix* encoder_input) {
  Call call;
  const npuseg::compute::Exec exec{&call, nullptr};
  Matrix vit;
  for (int64_t n = 0; n <= weights.layers[0]; ++n) {
    const ModelPtr part = weights.load(n, weights.layers[1], weights.layers[2]);
    vit = must(npuseg::sam3::run_vit(*part, exec, pixels.data()));
    check(golden, label, n == 0 ? "embed" : "vit." + std::to_string(n - 1), vit.view());
  }
  const ModelPtr model = weights.whole();
  check_tables(golden, label, *model);
  auto levels = must(npuseg::sam3::run_neck(*model, exec, vit.view()));
  for (size_t i = 0; i < levels.size(); ++i) {
    check(golden, label, "level." + std::to_string(i), levels[i].view());
  }
  *encoder_input = must(npuseg::sam3::run_detr_encoder_input(*model, exec, levels.back().view()));
  check(golden, label, "encoder_input", encoder_input->view());
  return levels;
}

void check_prompt(const Golden& golden, const std::string& label, const std::string& at,
                  const Weights& weights, const std::vector<Matrix>& levels,
                  const Matrix& encoder_input) {
  Call call;
  const npuseg::compute::Exec exec{&call, nullptr};
  const Prompt prompt = read_prompt(golden, at);
  const ModelPtr model = weights.whole();
  const Matrix text = must(npuseg::sam3::run_text_encoder(*model, exec, prompt.ids));
  check(golden, label, at + "text", text.view());
  const size_t d = text.cols();
  std::vector<float> joined(text.data(), text.data() + text.rows() * d);
  if (!prompt.boxes.empty()) {
    const Matrix geometry =
        must(npuseg::sam3::run_geometry_encoder(*model, exec, levels.back().view(), prompt.boxes));
    check(golden, label, at + "geometry", geometry.view());
    joined.insert(joined.end(), geometry.data(), geometry.data() + geometry.rows() * d);
  }
  const ConstMatrixView tokens{joined.data(), joined.size() / d, d, d};
  Matrix memory;
  for (int64_t n = 1; n <= weights.layers[1]; ++n) {
    const ModelPtr part = weights.load(weights.layers[0], n, weights.layers[2]);
    memory = must(npuseg::sam3::run_detr_encoder(*part, exec, encoder_input.view(), tokens));
    check(golden, label, at + "encoder." + std::to_string(n - 1), memory.view());
  }
  npuseg::sam3::DecoderOutput decoded;
  std::vector<float> presence;
  for (int64_t n = 1; n <= weights.layers[2]; ++n) {
    const ModelPtr part = weights.load(weights.layers[0], weights.layers[1], n);
    decoded = must(npuseg::sam3::run_detr_decoder(*part, exec, memory.view(), tokens));
    const std::string index = std::to_string(n - 1);
    check(golden, label, at + "hidden." + index, decoded.hidden.view());
    if (n < weights.layers[2]) check(golden, label, at + "references." + index, decoded.references);
    presence.push_back(decoded.presence_logit);
  }
  check(golden, label, at + "presence", presence);
  check(golden, label, at + "logits",
        must(npuseg::sam3::run_scoring(*model, exec, decoded.hidden.view(), tokens)));
  const Matrix pixels =
      must(npuseg::sam3::run_pixel_decoder(*model, exec, levels, memory.view(), tokens));
  check(golden, label, at + "pixels", pixels.view());
  std::vector<uint32_t> all(decoded.hidden.rows());
  std::iota(all.begin(), all.end(), 0u);
  check(golden, label, at + "masks",
        must(npuseg::sam3::run_mask_head(*model, exec, decoded.hidden.view(), all, pixels.view()))
            .view());
  check(golden, label, at + "semantic",
        must(npuseg::sam3::run_semantic_head(*model, exec, pixels.view())).view());
}

Detection detect(const Model& model, const npuseg::sam3::ImageFeatures& image, const Prompt& prompt,
                 int threads) {
  Call::Options options;
  options.threads = threads;
  Call call(options);
  const auto text = must(model.encode_text(call, prompt.ids, nullptr));
  npuseg::sam3::DetectOptions how;
  how.threshold = prompt.threshold;
  how.all_masks = true;
  how.semantic = true;
  return must(model.detect(call, image, *text, prompt.boxes, how, nullptr));
}

double largest_error(const Golden& golden, const std::string& stage, const float* got) {
  const std::vector<double> want = golden.values<double>(stage);
  const auto count = static_cast<size_t>(golden.values<double>(stage + "#")[0]);
  double error = 0;
  for (size_t k = 0; k < want.size(); ++k) {
    const size_t i = count <= kSamples ? k : (k * kStep) % count;
    const double off = std::fabs(static_cast<double>(got[i]) - want[k]);
    error = off <= error ? error : off;
  }
  return error;
}

// Masks at picture size: equal but for pixels within 1e-4 of the threshold in float64.
size_t check_pixels(const Golden& golden, const std::string& label, const std::string& at,
                    const Detection& got, const std::vector<uint32_t>& kept) {
  const auto target = golden.values<int64_t>("target");
  const auto bits = golden.values<uint8_t>(at + "bits");
  const auto open = golden.values<uint8_t>(at + "open");
  const auto height = static_cast<uint32_t>(target[0]);
  const auto width = static_cast<uint32_t>(target[1]);
  std::vector<uint8_t> mask(size_t{height} * width);
  size_t bit = 0;
  size_t wrong = 0;
  size_t excused = 0;
  assert_int_equal(bits.size(), ((kept.size() + 1) * mask.size() + 7) / 8);
  for (size_t m = 0; m <= kept.size(); ++m) {
    const float* logits =
        m < kept.size() ? got.masks.view().row(kept[m]) : got.semantic.view().row(0);
    const auto resizer = must(
        npuseg::image::MaskResizer::make({logits, got.side, got.side, got.side}, width, height));
    Call call;
    assert_true(resizer.bytes(call, 0.5f, mask.data(), width, nullptr, 1).ok());
    for (const uint8_t value : mask) {
      const auto at_bit = [bit](const std::vector<uint8_t>& from) {
        return (from[bit / 8] >> (7 - bit % 8)) & 1;
      };
      if (value != at_bit(bits)) ++(at_bit(open) != 0 ? excused : wrong);
      ++bit;
    }
  }
  judge(label + " " + at + "mask pixels", static_cast<double>(wrong), 0);
  return excused;
}

void check_answer(const Golden& golden, const std::string& label, const std::string& at,
                  const Detection& got) {
  const size_t side = got.side * got.side;
  check(golden, label, at + "logits", got.logits);
  check(golden, label, at + "boxes", got.boxes);
  check(golden, label, at + "scores", got.scores);
  check(golden, label, at + "masks", got.masks.view());
  check(golden, label, at + "semantic", got.semantic.view());
  judge(label + " " + at + "scores", largest_error(golden, at + "scores", got.scores.data()),
        kScoreBound);
  judge(label + " " + at + "boxes", largest_error(golden, at + "boxes", got.boxes.data()),
        kBoxBound);
  for (const char* map : {"masks", "semantic"}) {
    const auto about = golden.values<double>(at + map + "#");
    const Matrix& logits = map[0] == 'm' ? got.masks : got.semantic;
    assert_int_equal(logits.cols(), side);
    judge(label + " " + at + map, largest_error(golden, at + map, logits.data()),
          kMaskPart * (about[3] - about[2]));
  }
  std::vector<uint32_t> kept = got.kept;
  std::sort(kept.begin(), kept.end());
  const auto want = golden.values<int64_t>(at + "kept");
  assert_int_equal(kept.size(), want.size());
  for (size_t i = 0; i < kept.size(); ++i) assert_int_equal(kept[i], want[i]);
  const size_t excused = check_pixels(golden, label, at, got, kept);
  if (excused != 0) {
    print_message("%s %s%zu mask pixels within 1e-4 of the threshold differ\n", label.c_str(),
                  at.c_str(), excused);
  }
}

void same_bytes(const Detection& a, const Detection& b) {
  const auto same = [](const float* left, const float* right, size_t count) {
    assert_int_equal(std::memcmp(left, right, count * sizeof(float)), 0);
  };
  same(&a.presence_logit, &b.presence_logit, 1);
  same(a.logits.data(), b.logits.data(), a.logits.size());
  same(a.boxes.data(), b.boxes.data(), a.boxes.size());
  same(a.masks.data(), b.masks.data(), a.masks.rows() * a.masks.cols());
  same(a.semantic.data(), b.semantic.data(), a.semantic.cols());
  assert_true(a.kept == b.kept);
}

void run_case(const std::string& name, const HashCheckpoint& how) {
  const Golden golden(name);
  const Weights weights(golden, how);
  g_failures = 0;
  const ModelPtr model = weights.whole();
  assert_string_equal(model->dtype(), how.dtype == DType::kBF16 ? "BF16" : "F32");
  const std::vector<float> pixels = picture(model->config().vit.image_size);
  Matrix encoder_input;
  const auto levels = check_picture(golden, name, weights, pixels, &encoder_input);
  Call call;
  const auto image = must(model->encode_image(call, pixels.data(), nullptr));
  // Prompts one after the other on one picture; the answers must not depend on what was before.
  std::vector<Detection> answers;
  for (size_t p = 0;; ++p) {
    const std::string at = "p" + std::to_string(p) + ".";
    if (!golden.has(at + "ids")) break;
    check_prompt(golden, name, at, weights, levels, encoder_input);
    answers.push_back(detect(*model, *image, read_prompt(golden, at), 1));
    check_answer(golden, name, at, answers.back());
  }
  assert_true(!answers.empty());
  same_bytes(answers[0], detect(*model, *image, read_prompt(golden, "p0."), 2));
  assert_int_equal(g_failures, 0);
}

void test_padded(void**) { run_case("padded", {}); }
void test_even(void**) { run_case("even", {DType::kF32, true, true, 1, 20}); }
void test_single(void**) { run_case("single", {DType::kF32, true, false, 3, 20}); }
void test_bf16(void**) { run_case("bf16", {DType::kBF16, true, true, 2, 20}); }
void test_grid72(void**) { run_case("grid72", {DType::kF32, false, true, 2, 20}); }

int print_worst(void**) {
  print_message("stage: largest error, npuseg and torch float32 (parts of the range), of bound\n");
  for (const auto& [kind, worst] : g_worst) {
    print_message("%-14s %.1e %.1e %3.0f %%\n", kind.c_str(), worst.npuseg, worst.torch,
                  100 * worst.used);
  }
  return 0;
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(test_padded), cmocka_unit_test(test_even),   cmocka_unit_test(test_single),
      cmocka_unit_test(test_bf16),   cmocka_unit_test(test_grid72),
  };
  return cmocka_run_group_tests_name("sam3 stages", tests, nullptr, print_worst);
}

// SPDX-License-Identifier: Apache-2.0
// The golden tiny model (spec sam3-model.md, section 23) stage by stage: weights from the hash rule
// in every file layout, picture from a formula, and the printed numbers of transformers' own run.
// Tolerances are the spec's: single values 1e-4, sums 1e-4 of the sum of absolute values.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "hash_weights.h"
#include "image/mask.h"
#include "image/normalize.h"
#include "image/resize.h"
#include "model/sam3/constants.h"
#include "model/sam3/detr_decoder.h"
#include "model/sam3/detr_encoder.h"
#include "model/sam3/geometry_encoder.h"
#include "model/sam3/mask_decoder.h"
#include "model/sam3/neck.h"
#include "model/sam3/sam3.h"
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

constexpr double kSingle = 1e-4;

class Folder {
 public:
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "golden_XXXXXX").string();
    assert_non_null(mkdtemp(name.data()));
    path = name;
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  std::string path;
};

template <class T>
T must(npuseg::core::Result<T> result) {
  if (!result.ok()) {
    print_error("%s\n", result.status().message().c_str());
    fail();
  }
  return std::move(result).value();
}

ModelPtr make_model(const HashCheckpoint& how) {
  const Folder folder;
  assert_true(npuseg::test::write_hash_checkpoint(folder.path, npuseg::test::golden_config(), how));
  Call call;
  return must(Model::load(folder.path, {}, call));
}

void near(const char* what, double got, double want, double bound = kSingle) {
  if (!(std::fabs(got - want) <= bound)) {
    print_error("%s: got %.9g, want %.9g within %.3g\n", what, got, want, bound);
    fail();
  }
}

void check_sums(const char* what, ConstMatrixView m, double sum, double magnitude) {
  double got = 0;
  double absolute = 0;
  for (size_t r = 0; r < m.rows; ++r) {
    for (size_t c = 0; c < m.cols; ++c) {
      got += static_cast<double>(m.row(r)[c]);
      absolute += std::fabs(static_cast<double>(m.row(r)[c]));
    }
  }
  near(what, got, sum, 1e-4 * magnitude);
  near(what, absolute, magnitude, 1e-4 * magnitude);
}

double at(const Matrix& m, size_t i) { return static_cast<double>(m.data()[i]); }
// Element i of the reference's channel-first layout.
double at_channel_first(const Matrix& m, size_t i) {
  return static_cast<double>(m.view().row(i % m.rows())[i / m.rows()]);
}

std::vector<float> golden_pixels() {
  constexpr uint32_t kHeight = 75;
  constexpr uint32_t kWidth = 100;
  std::vector<uint8_t> rgb;
  for (uint32_t y = 0; y < kHeight; ++y) {
    for (uint32_t x = 0; x < kWidth; ++x) {
      for (uint32_t c = 0; c < 3; ++c) {
        rgb.push_back(static_cast<uint8_t>(x * (3 + 2 * c) + y * (5 - c) + 11 * c * c + x * y / 7));
      }
    }
  }
  Call call;
  const auto picture =
      must(npuseg::image::resize_rgb(call, {rgb.data(), kWidth, kHeight, 3 * size_t{kWidth}}, 112,
                                     112, npuseg::image::Filter::kBilinear));
  const auto table = must(npuseg::image::make_normalize_table({}));
  std::vector<float> planar(3 * 112 * 112);
  assert_true(npuseg::image::normalize_planar(
                  call, {picture.rgb.data(), 112, 112, picture.stride()}, table, planar.data())
                  .ok());
  return planar;
}

const std::vector<int64_t> kIds{998, 5, 17, 42, 999};
const std::vector<ExemplarBox> kBoxes{{.35f, 35.0f / 75, .5f, 40.0f / 75, 1},
                                      {.825f, 17.5f / 75, .25f, 25.0f / 75, 0}};

struct Want {
  double presence;
  double logits[7];
  double boxes[28];
  double scores[7];
  double masks[5];     // sum, sum abs, [0], [1024], [7167]
  double semantic[4];  // sum, sum abs, [0], [1023]
  float threshold;
  size_t kept[4];
  long pixels[4];
  long slack;  // pixels within 1e-4 of the threshold
  long semantic_pixels;
};

const Want kTextOnly{
    .0607315,
    {-.581479, -.599358, -.717202, -.698605, -.662157, -.676022, -.636804},
    {.459272, -.303655, .617937, .507407,  .416633, -.244557, .852200, .448350,  .573736, -.114978,
     .950971, .505153,  .565423, -.111269, .708455, .395093,  .216811, -.066677, .541171, .625863,
     .123747, -.071942, .568379, .492004,  .378958, -.278087, .678141, .580075},
    {.184739, .182626, .168983, .171102, .175292, .173692, .178236},
    {469.443, 8928.11, -1.482494, -1.423324, -.680181},
    {-547.033, 712.078, -.484159, .173864},
    .1745f,
    {0, 1, 4, 6},
    {3898, 3920, 4016, 3926},
    6,
    808};
const Want kWithBoxes{
    -.1084166,
    {-.804822, -.789231, -.873078, -.900875, -.835370, -.872188, -.857040},
    {.354199,  -.349470, .583774, .461631,  .301924, -.264012, .862804, .401686,  .507362, -.132607,
     1.043521, .414858,  .485783, -.146159, .749572, .348002,  .059835, -.121266, .578812, .542931,
     .076911,  -.127122, .653338, .394502,  .305220, -.318775, .745975, .511803},
    {.146131, .147710, .139330, .136613, .143064, .139417, .140911},
    {-4982.16, 6541.22, -1.449517, -1.416386, -.562731},
    {-568.606, 714.501, -.452062, .162149},
    .1405f,
    {0, 1, 4, 6},
    {997, 1104, 760, 926},
    2,
    726};

Detection run(const ModelPtr& model, int threads, bool boxes, float threshold) {
  Call::Options options;
  options.threads = threads;
  Call call(options);
  const std::vector<float> pixels = golden_pixels();
  const auto image = must(model->encode_image(call, pixels.data(), nullptr));
  const auto text = must(model->encode_text(call, kIds, nullptr));
  npuseg::sam3::DetectOptions detect;
  detect.threshold = threshold;
  detect.all_masks = true;
  detect.semantic = true;
  return must(
      model->detect(call, *image, *text,
                    boxes ? std::span<const ExemplarBox>(kBoxes) : std::span<const ExemplarBox>(),
                    detect, nullptr));
}

// Foreground of one map resized to the picture, counted from the torch formula (spec 18.1).
long foreground(const float* logits, size_t side) {
  std::vector<float> p(side * side);
  npuseg::image::sigmoid(logits, p.data(), p.size());
  const auto rows = npuseg::image::make_linear_axis(static_cast<uint32_t>(side), 75);
  const auto columns = npuseg::image::make_linear_axis(static_cast<uint32_t>(side), 100);
  long count = 0;
  for (size_t y = 0; y < 75; ++y) {
    for (size_t x = 0; x < 100; ++x) {
      const auto line = [&](size_t row) {
        return columns.w_low[x] * p[row * side + columns.low[x]] +
               columns.w_high[x] * p[row * side + columns.high[x]];
      };
      count += rows.w_low[y] * line(rows.low[y]) + rows.w_high[y] * line(rows.high[y]) > 0.5f;
    }
  }
  return count;
}

void check_detection(const Detection& got, const Want& want) {
  near("presence", static_cast<double>(got.presence_logit), want.presence);
  assert_int_equal(got.logits.size(), 7);
  for (size_t q = 0; q < 7; ++q) {
    near("logit", static_cast<double>(got.logits[q]), want.logits[q]);
    near("score", static_cast<double>(got.scores[q]), want.scores[q]);
    for (size_t i = 4 * q; i < 4 * q + 4; ++i) {
      near("box", static_cast<double>(got.boxes[i]), want.boxes[i]);
    }
  }
  assert_int_equal(got.side, 32);
  check_sums("masks", got.masks.view(), want.masks[0], want.masks[1]);
  near("mask 0", at(got.masks, 0), want.masks[2]);
  near("mask 1024", at(got.masks, 1024), want.masks[3]);
  near("mask 7167", at(got.masks, 7167), want.masks[4]);
  check_sums("semantic", got.semantic.view(), want.semantic[0], want.semantic[1]);
  near("semantic 0", at(got.semantic, 0), want.semantic[2]);
  near("semantic 1023", at(got.semantic, 1023), want.semantic[3]);
  std::vector<uint32_t> kept = got.kept;
  std::sort(kept.begin(), kept.end());
  assert_int_equal(kept.size(), 4);
  for (size_t i = 0; i < 4; ++i) {
    assert_int_equal(kept[i], want.kept[i]);
    near("foreground", static_cast<double>(foreground(got.masks.view().row(kept[i]), 32)),
         static_cast<double>(want.pixels[i]), static_cast<double>(want.slack));
  }
  near("semantic foreground", static_cast<double>(foreground(got.semantic.data(), 32)),
       static_cast<double>(want.semantic_pixels), 4);
}

void test_weights(void**) {
  const auto config =
      must(npuseg::checkpoint::parse_sam3_config(npuseg::test::golden_config(), "config.json"));
  const auto tensors = npuseg::test::hash_tensors(config, 20);
  assert_int_equal(tensors.size(), 446);
  size_t parameters = 0;
  double magnitude = 0;
  for (const auto& tensor : tensors) {
    parameters += tensor.elements();
    for (const float v : npuseg::test::hash_values(tensor)) {
      magnitude += std::fabs(static_cast<double>(v));
    }
  }
  assert_int_equal(parameters, 551626);
  near("sum of all weights", magnitude, 73696.7372, 1e-4);
}

void test_stages(void**) {
  const ModelPtr model = make_model({});
  Call call;
  const npuseg::compute::Exec exec{&call, nullptr};
  const std::vector<float> pixels = golden_pixels();
  check_sums("pixels", {pixels.data(), 1, pixels.size(), pixels.size()}, -37.0353, 17469);
  near("pixel 12543", static_cast<double>(pixels[12543]), .388235);
  near("pixel 37631", static_cast<double>(pixels[37631]), .670588);

  const Matrix vit = must(npuseg::sam3::run_vit(*model, exec, pixels.data()));
  check_sums("vit", vit.view(), -958.227, 6789.97);
  near("vit 0", at(vit, 0), -1.452161);
  near("vit 100", at(vit, 100), .795449);
  near("vit 4095", at(vit, 4095), -1.753401);

  const auto levels = must(npuseg::sam3::run_neck(*model, exec, vit.view()));
  assert_int_equal(levels.size(), 3);
  const double want[3][5] = {{-1993.4, 35505.4, -.858598, -.385215, .856482},
                             {1694.24, 12643.5, -.973950, 2.003299, 1.059962},
                             {113.105, 2902.77, -1.604390, 1.296861, 2.137411}};
  for (size_t i = 0; i < 3; ++i) {
    check_sums("level", levels[i].view(), want[i][0], want[i][1]);
    near("level 0", at_channel_first(levels[i], 0), want[i][2]);
    near("level 33", at_channel_first(levels[i], 33), want[i][3]);
    near("level end", at_channel_first(levels[i], levels[i].rows() * 32 - 1), want[i][4]);
  }
  check_sums("pos", model->constants().position_view(32), 966.127, 1138.92);
  near("pos 2047", static_cast<double>(model->constants().positions[2047]), .999998);

  const Matrix text = must(npuseg::sam3::run_text_encoder(*model, exec, kIds));
  check_sums("text", text.view(), -29.1063, 124.994);
  near("text 0", at(text, 0), -1.093841);
  near("text 159", at(text, 159), .666198);

  const Matrix geometry =
      must(npuseg::sam3::run_geometry_encoder(*model, exec, levels[2].view(), kBoxes));
  assert_int_equal(geometry.rows(), 3);
  check_sums("geometry", geometry.view(), .708897, 74.057);
  near("geometry 0", at(geometry, 0), -1.971255);
  near("geometry 40", at(geometry, 40), -2.102207);
  near("geometry 95", at(geometry, 95), .826649);

  const Matrix input = must(npuseg::sam3::run_detr_encoder_input(*model, exec, levels[2].view()));
  const double memory_want[2][5] = {{-383.863, 4123.81, -2.893151, -.777575, .636954},
                                    {-260.022, 4017.17, -2.272669, -.849513, .028911}};
  const double hidden_want[2][4] = {{.0508524, 181.545, -.406331, 1.057527},
                                    {-.535709, 182.306, -.638401, .867584}};
  const double pixel_want[2] = {13461.5, 13487};
  for (size_t t = 0; t < 2; ++t) {
    const size_t rows = t == 0 ? 5 : 8;
    std::vector<float> prompt(text.data(), text.data() + 160);
    prompt.insert(prompt.end(), geometry.data(), geometry.data() + 96);
    const ConstMatrixView prompt_view{prompt.data(), rows, 32, 32};
    const Matrix memory =
        must(npuseg::sam3::run_detr_encoder(*model, exec, input.view(), prompt_view));
    check_sums("M", memory.view(), memory_want[t][0], memory_want[t][1]);
    near("M 0", at(memory, 0), memory_want[t][2]);
    near("M 500", at(memory, 500), memory_want[t][3]);
    near("M 2047", at(memory, 2047), memory_want[t][4]);
    const auto decoded =
        must(npuseg::sam3::run_detr_decoder(*model, exec, memory.view(), prompt_view));
    check_sums("hs", decoded.hidden.view(), hidden_want[t][0], hidden_want[t][1]);
    near("hs 0", at(decoded.hidden, 0), hidden_want[t][2]);
    near("hs 223", at(decoded.hidden, 223), hidden_want[t][3]);
    const Matrix embedding =
        must(npuseg::sam3::run_pixel_decoder(*model, exec, levels, memory.view(), prompt_view));
    check_sums("pixel embedding", embedding.view(), pixel_want[t], pixel_want[t]);
  }
}

void test_text_only(void**) {
  check_detection(run(make_model({}), 1, false, kTextOnly.threshold), kTextOnly);
}

void test_with_boxes(void**) {
  check_detection(run(make_model({}), 1, true, kWithBoxes.threshold), kWithBoxes);
}

void same_floats(const char* what, const float* a, const float* b, size_t count) {
  if (std::memcmp(a, b, count * sizeof(float)) != 0) {
    print_error("%s differs\n", what);
    fail();
  }
}

void same_bits(const Detection& a, const Detection& b) {
  same_floats("presence", &a.presence_logit, &b.presence_logit, 1);
  same_floats("logits", a.logits.data(), b.logits.data(), 7);
  same_floats("scores", a.scores.data(), b.scores.data(), 7);
  same_floats("boxes", a.boxes.data(), b.boxes.data(), 28);
  same_floats("masks", a.masks.data(), b.masks.data(), 7 * 1024);
  same_floats("semantic", a.semantic.data(), b.semantic.data(), 1024);
}

void test_threads(void**) {
  const ModelPtr model = make_model({});
  for (const bool boxes : {false, true}) {
    const Detection one = run(model, 1, boxes, 0.1f);
    for (const int threads : {2, 3}) same_bits(one, run(model, threads, boxes, 0.1f));
  }
}

void test_layouts(void**) {
  const Detection plain = run(make_model({}), 2, true, 0.1f);
  for (const bool prefix : {false, true}) {
    for (const bool form_a : {false, true}) {
      for (const size_t shards : {size_t{1}, size_t{3}}) {
        same_bits(plain, run(make_model({DType::kF32, prefix, form_a, shards, 20}), 2, true, 0.1f));
      }
    }
  }
}

// BF16 weights are off by up to 2^-9 of themselves; the answer stays near but is another one.
void test_bf16(void**) {
  const ModelPtr model = make_model({DType::kBF16, true, true, 2, 20});
  assert_string_equal(model->dtype(), "BF16");
  const Detection got = run(model, 2, true, 0.1f);
  same_bits(got, run(model, 1, true, 0.1f));
  double largest = 0;
  for (size_t q = 0; q < 7; ++q) {
    largest =
        std::max(largest, std::fabs(static_cast<double>(got.logits[q]) - kWithBoxes.logits[q]));
  }
  assert_true(largest > 1e-5 && largest < 0.1);
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(test_weights),   cmocka_unit_test(test_stages),
      cmocka_unit_test(test_text_only), cmocka_unit_test(test_with_boxes),
      cmocka_unit_test(test_threads),   cmocka_unit_test(test_layouts),
      cmocka_unit_test(test_bf16),
  };
  return cmocka_run_group_tests_name("sam3 golden model", tests, nullptr, nullptr);
}

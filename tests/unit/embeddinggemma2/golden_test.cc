// SPDX-License-Identifier: Apache-2.0
// The printed numbers of spec embeddinggemma2-model.md, section 18, as they stand: A1 and A2 with
// the same fill of every tensor, B1 and B2 with a fill by name and traces of the stages. Bound: the
// spec's 1e-5 of the value's size (or of 1).
#include <algorithm>
#include <cmath>
#include <vector>

#include "model/embeddinggemma2/layers.h"
#include "model/embeddinggemma2/pooling.h"
#include "model/embeddinggemma2/rope_cache.h"
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

constexpr double kBound = 1e-5;

constexpr const char* kConfig1 = R"({"model_type":"embedding_gemma2",
"image_token_id":20,"boi_token_id":21,"eoi_token_id":22,"audio_token_id":23,"boa_token_id":24,
"eoa_token_index":25,"video_token_id":26,"text_config":{"model_type":"embedding_gemma2_text",
"vocab_size":32,"hidden_size":16,"intermediate_size":32,"num_hidden_layers":4,
"num_attention_heads":2,"num_key_value_heads":2,"head_dim":4,"hidden_size_per_layer_input":8,
"embedding_dim":12,"rms_norm_eps":1e-6,"sliding_window":2,
"layer_types":["sliding_attention","full_attention","sliding_attention","full_attention"],
"per_layer_config":{"1":{"head_dim":8,"num_key_value_heads":1},
"3":{"head_dim":8,"num_key_value_heads":1}},
"rope_parameters":{"sliding_attention":{"rope_type":"default","rope_theta":10000.0},
"full_attention":{"rope_type":"default","rope_theta":1000000.0}}}})";

constexpr const char* kConfig2 = R"({"model_type":"embedding_gemma2",
"image_token_id":7,"boi_token_id":5,"eoi_token_id":6,"audio_token_id":23,"boa_token_id":24,
"eoa_token_index":25,"video_token_id":26,"text_config":{"model_type":"embedding_gemma2_text",
"vocab_size":32,"hidden_size":16,"intermediate_size":32,"num_hidden_layers":2,
"num_attention_heads":2,"num_key_value_heads":1,"head_dim":8,"hidden_size_per_layer_input":8,
"embedding_dim":12,"rms_norm_eps":1e-6,"sliding_window":4,"per_layer_config":{},
"layer_types":["sliding_attention","full_attention"],
"rope_parameters":{"sliding_attention":{"rope_type":"default","rope_theta":10000.0},
"full_attention":{"rope_type":"default","rope_theta":1000000.0}}},
"vision_config":{"model_type":"gemma4_vision","hidden_size":32,"intermediate_size":64,
"num_hidden_layers":2,"num_attention_heads":2,"num_key_value_heads":2,"head_dim":16,
"patch_size":4,"pooling_kernel_size":2,"position_embedding_size":64,"rms_norm_eps":1e-6,
"rope_parameters":{"rope_type":"axial","rope_theta":100.0}}})";

void near(const char* what, const float* got, const std::vector<double>& want) {
  for (size_t i = 0; i < want.size(); ++i) {
    const double off = std::fabs(static_cast<double>(got[i]) - want[i]);
    if (!(off <= kBound * std::max(1.0, std::fabs(want[i])))) {
      print_error("%s [%zu]: got %.9g, want %.9g\n", what, i, static_cast<double>(got[i]), want[i]);
      fail();
    }
  }
}

std::vector<int64_t> ids_from(int64_t first, int64_t last) {
  std::vector<int64_t> ids;
  for (int64_t id = first; id <= last; ++id) ids.push_back(id);
  return ids;
}

Sequence of_ids(const std::vector<int64_t>& ids) { return {Part{ids, {}}}; }

struct Picture {
  std::vector<float> values;
  Patches patches;
};

// 3 x 16 x 32 pixels as 4 x 8 patches of 4 x 4.
Picture golden_picture() {
  Picture picture;
  for (size_t patch = 0; patch < 32; ++patch) {
    for (size_t i = 0; i < 48; ++i) {
      const size_t y = patch / 8 * 4 + i / 12;
      const size_t x = patch % 8 * 4 + i / 3 % 4;
      picture.values.push_back(static_cast<float>((31 * (i % 3) + 7 * y + 13 * x) % 256) / 255.0f);
    }
  }
  picture.patches = {{picture.values.data(), 32, 48, 48}, 8, 4};
  return picture;
}

const std::vector<int64_t> kBefore{2, 9, 11, 5};
const std::vector<int64_t> kAfter{6, 1};

const std::vector<double> kA1Row0{-0.062816948, 0.280682176, 0.407530546, 0.737360120,
                                  0.214800760,  0.127999231, 0.049736522, 0.164332777,
                                  0.185940713,  0.187425271, 0.166393027, 0.134533703};
const std::vector<double> kA1Row1{-0.554485321, -0.071141891, -0.274588585, 0.334987015,
                                  -0.038480520, 0.090331979,  0.037629712,  0.189092800,
                                  0.249697328,  0.304722756,  0.351788193,  0.417249590};

void test_a1(void**) {
  const GemmaPtr model = make_gemma(kConfig1, DType::kF32, golden_a_values);
  Call call;
  const auto row0 = ids_from(1, 9);
  const auto row1 = ids_from(3, 8);
  const std::vector<Sequence> both{of_ids(row0), of_ids(row1)};
  const Matrix got = must(model->embed(call, both, nullptr));
  near("A1 row 0", got.view().row(0), kA1Row0);
  near("A1 row 1", got.view().row(1), kA1Row1);
}

Matrix embed_picture(const Model& model, Call& call) {
  const Picture picture = golden_picture();
  const Matrix soft = must(model.encode_picture(call, picture.patches, nullptr));
  assert_int_equal(soft.rows(), 8);
  const std::vector<Sequence> one{{Part{kBefore, {}}, Part{{}, soft.view()}, Part{kAfter, {}}}};
  return must(model.embed(call, one, nullptr));
}

void test_a2(void**) {
  const GemmaPtr model = make_gemma(kConfig2, DType::kF32, golden_a_values);
  Call call;
  near("A2", embed_picture(*model, call).data(),
       {0.868728220, 0.079042479, -0.071267642, 0.054610837, -0.041429795, -0.136714175,
        -0.154088214, -0.177199394, -0.185128003, -0.179980844, -0.219441086, -0.201574326});
}

void test_rule_b(void**) {
  const auto values = golden_b_values({"language_model.embed_tokens.weight", {32, 16}});
  near("fill", values.data(), {0.1545341, 0.01578835, 0.22852316, 0.17760259, 0.08882785});
}

// The two residual blocks of layer 0, which the whole encoder does not show.
void check_b1_blocks(const Model& model, const Exec& exec, const PackedTokens& packed) {
  const auto& text = model.config().text;
  const auto& layer = model.weights().text.layers[0].shared;
  LayerShape shape;
  shape.heads = text.heads;
  shape.kv_heads = text.sliding.kv_heads;
  shape.head_dim = text.sliding.head_dim;
  shape.radius = text.sliding_window;
  const auto rope = must(model.ropes().sliding.get(*exec.call, packed.longest));
  shape.rope = rope.get();
  shape.positions = packed.positions.data();
  shape.starts = packed.starts;
  LayerWork work = must(LayerWork::make(exec, 9, 16, text.q_width(0) + 2 * text.kv_width(0), 32));
  Matrix h = must(Matrix::make(nullptr, 9, 16, "test"));
  std::copy_n(packed.tokens.data(), 9 * 16, h.data());
  must(attention_block(exec, layer, shape, h.view(), &work));
  near("B1 attention", h.data(), {-0.81983334, -0.64282308, 1.43959617, -0.33607761});
  must(mlp_block(exec, layer, shape, h.view(), &work));
  near("B1 MLP", h.data(), {-0.51927549, -0.47623189, 4.30686586, 0.57280632});
}

void test_b1(void**) {
  const GemmaPtr model = make_gemma(kConfig1, DType::kF32, golden_b_values);
  Call call;
  const Exec exec{&call, nullptr};
  const auto ids = ids_from(1, 9);
  const std::vector<Sequence> one{of_ids(ids)};
  const PackedTokens packed = must(embed_tokens(*model, exec, one));
  near("B1 embedding", packed.tokens.data(), {-0.31086051, -0.47407603, -0.87175810, -0.56861150});
  Matrix input = must(Matrix::make(nullptr, 9, 8, "test"));
  must(per_layer_input(*model, exec, 0, packed.tokens.view(), input.view()));
  near("B1 PLE 0", input.data(), {-0.09840398, -0.25912827, -0.89894600, 1.50333486});
  must(per_layer_input(*model, exec, 3, packed.tokens.view(), input.view()));
  near("B1 PLE 3", input.view().row(1), {-0.96567381, -0.86029148, -0.07895553, 1.14869514});
  check_b1_blocks(*model, exec, packed);
  const std::vector<std::vector<double>> layers{{-0.15514667, 0.91555020, 3.50114765, 0.49451891},
                                                {-3.25256202, 1.66208809, 2.37163510, 0.38970062},
                                                {0.27200473, 1.73929031, 1.20294242, 0.53301129},
                                                {1.57375604, 2.44431732, -1.00096173, -2.99897861}};
  size_t seen = 0;
  const Matrix h =
      must(run_text_encoder(*model, exec, packed, [&](size_t i, ConstMatrixView tokens) {
        near("B1 layer", tokens.row(0), layers[i]);
        ++seen;
      }));
  assert_int_equal(seen, 4);
  const size_t first[] = {0, 1};
  const Matrix normed = must(pool_tokens(
      exec, {model->weights().text.norm, model->config().text.rms_norm_eps}, h.view(), first));
  Matrix projected = must(Matrix::make(nullptr, 1, 12, "test"));
  must(npuseg::compute::linear(exec, normed.view(), model->weights().text.embedding_projection,
                               projected.view()));
  near("B1 token 0", projected.data(), {-0.41652173, 0.75698190, -0.65142763, 0.96560345});
  const Matrix got = must(model->embed(call, one, nullptr));
  near("B1", got.data(),
       {-0.379889794, -0.003592709, 0.102076606, 0.207947847, 0.025670536, 0.081881416,
        -0.441750984, -0.312277745, 0.109857445, 0.355947334, -0.413080792, 0.438840664});
}

void test_b2(void**) {
  const GemmaPtr model = make_gemma(kConfig2, DType::kF32, golden_b_values);
  Call call;
  const Exec exec{&call, nullptr};
  const Picture picture = golden_picture();
  Matrix tokens = must(embed_patches(*model, exec, picture.patches));
  near("B2 patch 9", tokens.view().row(9), {-0.21049294, -0.21257485, -0.12294397, -0.07084239});
  const std::vector<std::vector<double>> layers{{0.23171256, -0.21747313, 0.75780096, -0.20743805},
                                                {0.38482947, 1.51079162, -0.36909786, 0.47832771}};
  must(run_vision_encoder(*model, exec, 8, 4, tokens.view(), [&](size_t i, ConstMatrixView at) {
    near("B2 vision layer", at.row(9), layers[i]);
  }));
  const Matrix pooled = must(pool_patches(exec, tokens.view(), 8, model->config().vision->pooling));
  near("B2 cell 5", pooled.view().row(5), {9.36595795, 7.55675466, -3.55599639, 16.36309974});
  const Matrix soft = must(project_soft_tokens(*model, exec, pooled.view()));
  near("B2 soft token 5", soft.view().row(5), {0.00022359, -0.39204489, 0.59197449, -0.51226598});
  near("B2", embed_picture(*model, call).data(),
       {-0.013744353, -0.365405118, -0.257577103, -0.079643973, 0.289114516, -0.359032818,
        0.054935682, 0.055097998, 0.321504030, 0.493130617, -0.201858528, 0.433319821});
}

// Section 21, item 3: the same models with weights in bfloat16.
void test_bf16(void**) {
  Call call;
  const auto ids = ids_from(1, 9);
  const std::vector<Sequence> one{of_ids(ids)};
  const GemmaPtr exact = make_gemma(kConfig1, DType::kF32, golden_b_values);
  const GemmaPtr half = make_gemma(kConfig1, DType::kBF16, golden_b_values);
  assert_string_equal(half->dtype(), "BF16");
  assert_int_equal(2 * half->weight_bytes(), exact->weight_bytes());
  const Matrix a = must(exact->embed(call, one, nullptr));
  const Matrix b = must(half->embed(call, one, nullptr));
  double cosine = 0.0;
  for (size_t i = 0; i < 12; ++i) {
    cosine += static_cast<double>(a.data()[i]) * static_cast<double>(b.data()[i]);
  }
  assert_true(cosine > 0.999 && cosine < 0.9999999);
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(test_a1), cmocka_unit_test(test_a2), cmocka_unit_test(test_rule_b),
      cmocka_unit_test(test_b1), cmocka_unit_test(test_b2), cmocka_unit_test(test_bf16),
  };
  return cmocka_run_group_tests_name("embeddinggemma2 golden values", tests, nullptr, nullptr);
}

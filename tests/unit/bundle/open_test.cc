// SPDX-License-Identifier: Apache-2.0
// Whole bundles: those that open, of odd sizes too, and damaged ones, each refused at open with
// file and reason (spec iron-bundle-sam3, 18; iron-bundle-embeddinggemma2, 20 and 24).
#include <functional>
#include <string>
#include <vector>

#include "bundle/bundle.h"
#include "bundle_files.h"
// Behind all others.
#include "../checkpoint/folder.h"

namespace {

using namespace npuseg::bundle;
using npuseg::test::BundleFiles;
using npuseg::test::Folder;
using npuseg::test::GemmaBundleOptions;
using npuseg::test::make_gemma_bundle;
using npuseg::test::make_sam3_bundle;
using npuseg::test::Sam3BundleOptions;

npuseg::core::Result<Bundle> open(const BundleFiles& files, const Folder& folder) {
  files.write(folder.path);
  return Bundle::open(folder.path);
}

void expect_opens(const BundleFiles& files) {
  const Folder folder;
  const auto bundle = open(files, folder);
  if (!bundle.ok()) print_error("%s\n", bundle.status().message().c_str());
  assert_true(bundle.ok());
}

void test_sam3(void**) {
  const BundleFiles files = make_sam3_bundle();
  const Folder folder;
  auto opened = open(files, folder);
  assert_true(opened.ok());
  // A bundle may be moved; views stay good.
  const Bundle bundle = std::move(opened).value();
  assert_true(Bundle::is_bundle(folder.path));
  assert_true(Bundle::probe(folder.path).value() == BundleKind::kSam3);
  assert_true(bundle.kind() == BundleKind::kSam3);
  assert_int_equal(bundle.kernels().size(), 21);
  assert_int_equal(bundle.contexts(), 15);
  const Sam3Manifest& manifest = bundle.sam3();
  assert_int_equal(manifest.format, 2);
  assert_int_equal(manifest.params.tokens(), 64);
  assert_true(manifest.params.vit_device && manifest.params.vit_res_f32);
  assert_true(manifest.params.vit_global == std::vector<size_t>{1});
  assert_int_equal(manifest.gemms.at("conv").lda, 384);
  assert_int_equal(manifest.mhas.at("mha_d").elems, 64 * 128);
  assert_string_equal(manifest.ref_image.c_str(), "cases/synth.png");
  assert_string_equal(manifest.ref_prompt.c_str(), "cat");
  const auto stream = bundle.instructions("v_fc1");
  assert_int_equal(stream.size(), 3180);
  assert_int_equal(bundle.instructions("nothing").size(), 0);
  assert_null(bundle.find_kernel("v_fc"));
  const std::string& blob = files.files.at("tensors.bin");
  const StoredTensor* perm = bundle.tensors().find("v.perm");
  assert_memory_equal(perm->view.data, blob.data(), 64 * 4);
  assert_true(bundle.tensors().packed("v.0.fc1", manifest.gemms.at("v_fc1").b.bytes()).ok());
}

void test_gemma(void**) {
  const Folder folder;
  const auto opened = open(make_gemma_bundle(), folder);
  assert_true(opened.ok());
  const Bundle& bundle = opened.value();
  assert_true(bundle.kind() == BundleKind::kEmbeddingGemma2);
  assert_int_equal(bundle.contexts(), 3);
  const Gemma2Manifest& manifest = bundle.gemma2();
  assert_int_equal(manifest.gemms.at("v_qkv").chunks.size(), 6);
  assert_string_equal(manifest.gemms.at("t_o").chunks[3].key.c_str(), "t_o_x4");
  assert_int_equal(manifest.mhas.size(), 2);
  assert_int_equal(manifest.mhas[1].rows, 96);
  assert_int_equal(manifest.mhas[0].kv_words.size(), 32);
  assert_string_equal(manifest.prompts[2].first.c_str(), "Empty");
  assert_string_equal(manifest.prompts[0].second.c_str(), "task: search result | query: ");
  assert_int_equal(manifest.added_tokens.size(), 8);
  assert_int_equal(bundle.instructions("mha_96").size(), 1664);
  assert_int_equal(bundle.instructions("v_patch_x6").size(), 3180);
}

void test_variants(void**) {
  Sam3BundleOptions sam3;
  sam3.format = 1;
  expect_opens(make_sam3_bundle(sam3));
  sam3.host_vit = true;
  expect_opens(make_sam3_bundle(sam3));
  sam3.format = 2;
  sam3.tracker = false;
  expect_opens(make_sam3_bundle(sam3));
  sam3 = {};
  sam3.grid = 6;
  sam3.window = 3;
  sam3.vit_heads = 3;
  sam3.vit_dim = 192;
  sam3.d_model = 96;
  sam3.d_heads = 3;
  sam3.queries = 7;
  sam3.mid = 32;
  sam3.m = 8;
  sam3.m2 = 40;
  sam3.tracker_channels = {8, 16, 96};
  expect_opens(make_sam3_bundle(sam3));
  GemmaBundleOptions gemma;
  gemma.planes = 2;
  expect_opens(make_gemma_bundle(gemma));
  gemma.image_only = true;
  expect_opens(make_gemma_bundle(gemma));
  // Biases of linear layers may be missing, comments and other tags are passed over.
  sam3 = {};
  sam3.drop = {"dec.0.sa.q.b", "m.inst.b", "d.0.ca.k.b", "score.text_mlp.1.b"};
  BundleFiles files = make_sam3_bundle(sam3);
  files.add_line("# the end");
  files.add_line("future record 1");
  expect_opens(files);
}

struct Damage {
  const char* what;
  std::function<void(BundleFiles*)> make;
  const char* word;
};

Damage line(const char* begin, const char* text, const char* word) {
  return {text, [=](BundleFiles* files) { assert_true(files->replace_line(begin, text) > 0); },
          word};
}

Damage without(const char* begin, const char* word) { return line(begin, "", word); }

// Changes the first place in a file.
Damage change(const char* file, const char* from, const char* to, const char* word) {
  return {to,
          [=](BundleFiles* files) {
            std::string& text = files->files.at(file);
            const size_t at = text.find(from);
            assert_true(at != std::string::npos);
            text.replace(at, std::string(from).size(), to);
          },
          word};
}

void expect_refused(const BundleFiles& whole, const std::vector<Damage>& damages) {
  for (const Damage& damage : damages) {
    BundleFiles files = whole;
    damage.make(&files);
    const Folder folder;
    const auto bundle = open(files, folder);
    const std::string message = bundle.ok() ? "it opens" : bundle.status().message();
    if (message.find(damage.word) == std::string::npos) {
      print_error("%s: \"%s\" is expected: %s\n", damage.what, damage.word, message.c_str());
    }
    assert_true(message.find(damage.word) != std::string::npos);
    assert_true(message.find(folder.path) != std::string::npos);
  }
}

void test_damaged_sam3(void**) {
  const std::vector<Damage> damages = {
      line("version ", "version 3", "version 3, this version of npuseg reads version 1 and 2"),
      without("param grid ", "param grid is missing"),
      line("param grid ", "param grid 0", "param grid is 0"),
      line("param grid ", "param grid 9", "image_size is 112, grid * patch is 126"),
      line("param window ", "param window 3", "no multiple of window 3"),
      line("param mask_size ", "param mask_size 31", "mask_size is 31, 4 * grid is 32"),
      line("param neck_splits ", "param neck_splits 384,256", "has 2 items"),
      line("param neck_splits ", "param neck_splits 384,256,65", "n_in N and the sum"),
      line("param vit_global ", "param vit_global 3", "names layer 3 of 3"),
      line("param vit_res_f32 ", "param vit_res_f32 0", "vit_res_f32 is not 1"),
      line("param vit_device ", "param vit_device true", "v.rope.win.cos is missing"),
      line("param vit_heads ", "param vit_heads 3", "does not divide its width"),
      line("param d_model ", "param d_model 68", "a multiple of 8"),
      line("param text_eps ", "param text_eps nan", "is not between 0 and 1"),
      line("param eos ", "param eos 99999", "param eos is 99999"),
      line("param queries ", "param queries 32", "m_head N is 32, at least 33"),
      line("param text_len ", "param text_len 16", "d_s N and d_heads * text_len"),
      without("gemm d_o ", "no kernel d_o"),
      without("mha mha_glob ", "no MHA mha_glob"),
      without("op rope ", "no kernel rope"),
      without("xclbin g1 ", "runs on unknown xclbin g1"),
      change("manifest.txt", "lda=128 tile_k=32", "lda=130 tile_k=32",
             "v_qkv lda and K must agree"),
      change("manifest.txt", "M=32", "M=0", "M is 0"),
      change("manifest.txt", "M=32 K=128 N=192", "M=40 K=128 N=192", "80 rows of v_fc1"),
      change("manifest.txt", "tile_n=32 ct_k=64", "tile_n=48 ct_k=64", "N 128 is no multiple of"),
      change("manifest.txt", "b_bytes=", "b_bytes=9", "K, N, ct_k and bias give"),
      change("manifest.txt", "bias=1", "bias=0", "K, N, ct_k and bias give"),
      change("manifest.txt", "token_major=0", "token_major=1", "token_major of mha_win"),
      change("manifest.txt", "elems=8192", "elems=8191", "elems of mha_win is 8191"),
      change("manifest.txt", "ref_image cases", "ref_image ../cases", "leaves the bundle's folder"),
      change("manifest.txt", "insts=kernels", "insts=/kernels", "is an absolute path"),
      {"gemm twice",
       [](BundleFiles* files) {
         files->add_line(
             "gemm v_o ctx=g1 insts=kernels/v_o.insts.bin M=48 K=128 N=128 lda=128 tile_k=32 "
             "tile_n=32 ct_k=32 bias=1 b_bytes=23040");
       },
       "gemm v_o defined twice"},
      {"a gemm named as an op",
       [](BundleFiles* files) {
         files->add_line("op v_o xclbin=kernels/g1.xclbin insts=kernels/v_o.insts.bin");
       },
       "kernel v_o defined twice"},
      {"no tensors.txt", [](BundleFiles* files) { files->files.erase("tensors.txt"); },
       "tensors.txt: No such file"},
      {"no tensors.bin", [](BundleFiles* files) { files->files.erase("tensors.bin"); },
       "tensors.bin: No such file"},
      {"tensors.bin cut", [](BundleFiles* files) { files->files["tensors.bin"].resize(1000000); },
       "runs past the end of tensors.bin"},
      change("tensors.txt", "v.0.fc1 u8", "v.9.fc1 u8", "tensor v.0.fc1 is missing"),
      change("tensors.txt", "m.sem.b f32", "m.sem.c f32", "tensor m.sem.b is missing"),
      change("tensors.txt", "v.perm i32 64 0 256", "v.perm i32 63 0 252", "v.perm has shape [63]"),
      change("tensors.txt", "v.pos f32", "v.pos i32", "tensor v.pos is I32, wanted F32"),
      change("tensors.txt", "dec.query_embed f32 20,64", "dec.query_embed f32 10,64",
             "shape and type ask for"),
      change("tensors.txt", "t.tok_emb bf16", "t.tok_emb u8", "shape and type ask for"),
      {"a short packed tensor",
       [](BundleFiles* files) {
         std::string& text = files->files["tensors.txt"];
         const size_t at = text.find("v.0.qkv u8 69120 ");
         const size_t end = text.find('\n', at);
         text.replace(at, end - at, "v.0.qkv u8 69119 64 69119");
       },
       "v.0.qkv has 69119 bytes, its kernel needs 69120"},
      {"no xclbin", [](BundleFiles* files) { files->files.erase("kernels/g5.xclbin"); },
       "g5.xclbin: No such file"},
      {"an xclbin cut", [](BundleFiles* files) { files->files["kernels/g5.xclbin"].resize(900); },
       "g5.xclbin: xclbin truncated"},
      {"no stream", [](BundleFiles* files) { files->files.erase("kernels/d_c.insts.bin"); },
       "d_c.insts.bin: No such file"},
      {"an empty stream", [](BundleFiles* files) { files->files["kernels/d_c.insts.bin"] = ""; },
       "0 bytes are no instruction stream"},
      {"a short stream",
       [](BundleFiles* files) { files->files["kernels/d_c.insts.bin"].resize(3); },
       "3 bytes are no instruction stream"},
      {"another NPU", [](BundleFiles* files) { files->files["kernels/d_c.insts.bin"][2] = 3; },
       "use a bundle for NPU2"},
      change("manifest.txt", "g0.xclbin MLIR_AIE", "g0.xclbin OTHER",
             "kernel v_embed asks for OTHER"),
      {"git-lfs pointers",
       [](BundleFiles* files) {
         files->files["tensors.bin"] = "version https://git-lfs.github.com/spec/v1\n";
       },
       "git lfs pull"},
      {"an empty manifest", [](BundleFiles* files) { files->files["manifest.txt"] = ""; },
       "no version record"},
      {"another model",
       [](BundleFiles* files) { files->files["manifest.txt"] = "version 1\nparam width 3\n"; },
       "neither SAM 3 nor EmbeddingGemma 2"},
  };
  expect_refused(make_sam3_bundle(), damages);
}

void test_damaged_gemma(void**) {
  const std::vector<Damage> damages = {
      line("version ", "version 2", "version 2, this version of npuseg reads version 1"),
      line("param layer_types ", "param layer_types s,s,x,s,s,g", "has the layer type x"),
      line("param layer_types ", "param layer_types s,s,s,s,g", "has 5 items"),
      line("param hd ", "param hd 32,32,32", "has 3 items, the model 6 layers"),
      line("param kv_heads ", "param kv_heads 2,2,2,2,2,3", "does not divide heads"),
      line("param v.D ", "param v.D 193", "is not 3 * v.patch^2"),
      line("param o_width ", "param o_width 64", "at most o_width"),
      line("param no_window ", "param no_window 4294967296", "no 32-bit number"),
      line("param max_text_tokens ", "param max_text_tokens 65", "t.rows 64"),
      line("param bos ", "param bos 600", "below the 600 rows"),
      without("param eos ", "params bos and eos"),
      line("param v.rows ", "param v.rows 95", "a bucket of 96 rows"),
      without("gemm t_o ", "gemm_chunks t_o before its gemm"),
      without("gemm_chunks v_o 3 ", "gemm_chunks v_o 4 out of order"),
      without("mha ", "no MHA"),
      change("manifest.txt", "kv_words=8,", "kv_words=,", "bad instruction word"),
      change("manifest.txt", "kv_words=8,", "kv_words=99999,", "instruction word 99999 is past"),
      change("manifest.txt", "a_elems=3072", "a_elems=3073", "a_elems or c_elems"),
      change("manifest.txt", "q_elems=27648", "q_elems=100", "q_elems is 100"),
      change("manifest.txt", "added 374 ", "added 374 zz", "bad hex zz"),
      change("manifest.txt", "N=768 lda=192 c_stride=384", "N=768 lda=192 c_stride=768",
             "a_elems or c_elems"),
      change("tensors.txt", "v0.qkv u8", "v9.qkv u8", "tensor v0.qkv is missing"),
      change("tensors.txt", "t.embed bf16", "t.embex bf16", "tensor t.embed is missing"),
      change("tensors.txt", "tok.merges i32", "tok.mergex i32", "tok.merges is missing"),
      change("tensors.txt", "v.pos bf16 2,64,192", "v.pos bf16 24576", "v.pos is not a BF16 table"),
      {"no stream", [](BundleFiles* files) { files->files.erase("kernels/v_o_x4.insts.bin"); },
       "v_o_x4.insts.bin: No such file"},
      {"mha twice",
       [](BundleFiles* files) {
         std::string& text = files->files["manifest.txt"];
         const size_t at = text.find("mha 48 ");
         text += text.substr(at, text.find('\n', at) - at + 1);
       },
       "mha 48 defined twice"},
  };
  expect_refused(make_gemma_bundle(), damages);
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(test_sam3),          cmocka_unit_test(test_gemma),
      cmocka_unit_test(test_variants),      cmocka_unit_test(test_damaged_sam3),
      cmocka_unit_test(test_damaged_gemma),
  };
  return cmocka_run_group_tests_name("bundle open", tests, nullptr, nullptr);
}

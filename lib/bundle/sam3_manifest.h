// SPDX-License-Identifier: Apache-2.0
// The manifest of a SAM 3 bundle as typed data, with everything checked that its parts must agree
// on (spec iron-bundle-sam3, 2, 3, 18).
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "bundle/kernels.h"
#include "bundle/manifest.h"
#include "bundle/tensors.h"

namespace npuseg::bundle {

// Names are those of the params.
struct Sam3Params {
  size_t grid = 0, window = 0, vit_dim = 0, vit_heads = 0, vit_layers = 0, vit_ffn_pad = 0;
  std::vector<size_t> vit_global;
  size_t patch = 0, image_size = 0;
  size_t d_model = 0, d_heads = 0, d_layers = 0, d_ffn = 0;
  size_t text_len = 0, text_dim = 0, text_heads = 0, text_layers = 0, text_ffn = 0;
  float text_eps = 0, vit_eps = 0;
  size_t queries = 0, dec_layers = 0, mask_size = 0;
  std::vector<size_t> neck_splits;  // columns of the levels 0, 1, 2 in n_in's output
  size_t bos = 0, eos = 0, pad = 0;
  bool vit_device = false;   // ViT layers wholly on the device
  bool vit_res_f32 = false;  // their residual stream in float32
  bool tracker = false;

  [[nodiscard]] size_t tokens() const { return grid * grid; }
};

// C[M, N] = A[M, K] * B[K, N] (+ bias); rows of A are lda elements apart.
struct Sam3Gemm {
  KernelFiles files;
  size_t m = 0;
  size_t lda = 0;
  PackedLayout b;
};

struct Sam3Mha {
  KernelFiles files;
  size_t heads = 0, seq = 0, d = 0;
  bool token_major = false;
  size_t elems = 0;  // of each of q, k, v, o
};

struct Sam3Case {
  size_t index = 0;  // of the tensors case.<index>.*
  std::string image;
  std::string prompt;
};

struct Sam3PointCase {
  size_t index = 0;
  std::string image;
  std::string points;  // "x,y[,label];..."
  std::string box;     // "x1,y1,x2,y2"
};

struct Sam3TokenTest {
  size_t index = 0;
  std::string text;
};

struct Sam3Manifest {
  uint32_t format = 0;  // 1 or 2
  Sam3Params params;
  std::map<std::string, Sam3Gemm, std::less<>> gemms;
  std::map<std::string, Sam3Mha, std::less<>> mhas;
  std::map<std::string, KernelFiles, std::less<>> ops;  // rope, addln
  std::string ref_image;
  std::string ref_prompt;
  std::vector<Sam3Case> cases;
  std::vector<Sam3PointCase> point_cases;
  std::vector<Sam3TokenTest> token_tests;

  // Refuses: another version, missing or malformed params and records, duplicates, kernels that
  // are missing, sizes that do not fit together.
  static core::Result<Sam3Manifest> read(const Manifest& manifest);

  // All kernels, sorted by key.
  [[nodiscard]] std::vector<KernelFiles> kernels() const;
  // Every tensor that a picture with a text needs.
  [[nodiscard]] std::vector<NeededTensor> tensors() const;
};

}  // namespace npuseg::bundle

// SPDX-License-Identifier: Apache-2.0
// The manifest of an EmbeddingGemma 2 bundle as typed data, with everything checked that its parts
// must agree on (spec iron-bundle-embeddinggemma2, 4, 5, 20, 24).
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "bundle/kernels.h"
#include "bundle/manifest.h"
#include "bundle/tensors.h"

namespace npuseg::bundle {

// v_* are the params v.*; the others have the params' names.
struct Gemma2Params {
  size_t v_dim = 0, v_inner = 0, v_layers = 0, v_heads = 0, v_head_dim = 0, v_patch = 0, v_pool = 0;
  float v_theta = 0, v_eps = 0;
  size_t v_rows = 0;  // patch rows of the device's buffers
  size_t dim = 0, inner = 0, layers = 0, heads = 0;
  float eps = 0;
  std::vector<size_t> head_dims;  // one a layer
  std::vector<size_t> kv_heads;   // one a layer
  std::vector<bool> global;       // one a layer: full attention, else a window
  float theta_sliding = 0, theta_global = 0;
  size_t ple = 0, out = 0;
  size_t window = 0;   // visible distance to each side, inclusive
  size_t t_rows = 0;   // token rows of the device's buffers
  size_t o_width = 0;  // row stride of the text attention buffer
  size_t max_soft_tokens = 0;
  uint32_t no_window = 0;      // word that switches the MHA's window off
  size_t max_text_tokens = 0;  // 0: no text path
  // Present with a tokenizer.
  std::optional<uint32_t> bos, eos;

  [[nodiscard]] size_t qkv_width(size_t layer) const {
    return (heads + 2 * kv_heads[layer]) * head_dims[layer];
  }
};

// One GEMM with a stream for each count of row chunks: chunks[n - 1] covers n * m rows.
struct Gemma2Gemm {
  struct Chunk {
    std::string key;  // <gemm>, <gemm>_x2, ...
    std::string insts;
    size_t a_elems = 0, c_elems = 0;
    size_t line = 0;
  };
  KernelFiles files;
  size_t m = 0, k = 0, n = 0, lda = 0, c_stride = 0;
  std::vector<Chunk> chunks;
  // tile_k, tile_n, ct_k where the record has them, else 0.
  size_t tile_k = 0, tile_n = 0, ct_k = 0;
};

// Attention over up to `rows` patches.
struct Gemma2Mha {
  KernelFiles files;  // key mha_<rows>
  size_t rows = 0;
  size_t q_elems = 0, k_elems = 0, v_elems = 0, o_elems = 0;
  std::vector<uint32_t> kv_words;   // of the stream: count of valid keys
  std::vector<uint32_t> win_words;  // of the stream: window
};

struct Gemma2Text {
  std::string label;
  std::string text;
};

struct Gemma2TextCase {
  size_t index = 0;    // of the tensors tref.<index>.*
  std::string prompt;  // name, "-": none
  std::string text;
};

struct Gemma2Picture {
  std::string name;  // of the tensors ref.<name>.*
  size_t width = 0, height = 0;
};

struct Gemma2Manifest {
  Gemma2Params params;
  std::map<std::string, Gemma2Gemm, std::less<>> gemms;
  std::vector<Gemma2Mha> mhas;  // ascending rows
  std::vector<std::pair<size_t, std::string>> added_tokens;
  std::vector<std::pair<std::string, std::string>> prompts;  // name, text
  std::vector<Gemma2Picture> pictures;
  std::vector<Gemma2Text> texts;  // row r of ref.texts
  std::vector<Gemma2TextCase> text_cases;

  // Refuses: another version, missing or malformed params and records, duplicates, chunks out of
  // order, kernels that are missing, sizes that do not fit together.
  static core::Result<Gemma2Manifest> read(const Manifest& manifest);

  [[nodiscard]] std::vector<KernelFiles> kernels() const;
  // Tensors whose size the params give. Packed weights are not among them: how many planes they
  // have is told by their size.
  [[nodiscard]] std::vector<NeededTensor> tensors() const;
  // Names and [K, N] of all packed weights of a picture and a text.
  struct PackedWeight {
    std::string name;
    std::string gemm;
  };
  [[nodiscard]] std::vector<PackedWeight> packed_weights() const;
};

}  // namespace npuseg::bundle

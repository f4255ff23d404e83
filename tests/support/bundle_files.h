// SPDX-License-Identifier: Apache-2.0
// Synthetic IRON bundles in memory: every record, tensor and file of a real one, random weights,
// placeholder kernels. The same bytes as tests/oracle/make_bundle.py with the same options, so that
// the golden values of the specs hold; sizes may be changed for other tests.
//
// A real NPU must never be given these files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace npuseg::test {

// Path below the bundle's folder -> content.
struct BundleFiles {
  std::map<std::string, std::string> files;

  // Writes all of them, making folders.
  void write(const std::string& folder) const;
  // Lines of manifest.txt that begin with `begin` become `line` (none: the line goes). How many.
  size_t replace_line(const std::string& begin, const std::string& line);
  void add_line(const std::string& line) { files["manifest.txt"] += line + "\n"; }
  // A tensor behind the others. dtype as in tensors.txt.
  void add_tensor(const std::string& name, const std::string& dtype,
                  const std::vector<size_t>& shape, const std::string& bytes);
  // Its bytes; there must be one of that name.
  char* find_tensor(const std::string& name);
  size_t tensor_bytes(const std::string& name);
};

struct Sam3BundleOptions {
  uint32_t seed = 1;
  int format = 2;
  bool host_vit = false;
  bool tracker = true;
  std::set<std::string> drop;  // tensors, manifest tags, or "tag field"
  // Sizes; the defaults are make_bundle.py's --tiny.
  size_t grid = 8, window = 4, vit_dim = 128, vit_heads = 2, vit_layers = 3, vit_ffn = 176,
         vit_ffn_pad = 192;
  std::vector<size_t> vit_global = {1};
  size_t patch = 14, d_model = 64, d_heads = 2, d_layers = 2, d_ffn = 128, text_len = 32,
         text_dim = 64, text_heads = 4, text_layers = 2, text_ffn = 128, queries = 20,
         dec_layers = 2, mid = 96, score = 96;
  std::vector<size_t> tracker_channels = {8, 16, 64};
  size_t tracker_up = 16;
  // Rows of a dispatch of the three families of GEMMs, and columns of m_head.
  size_t m = 32, m2 = 48, mask_m = 256, mask_columns = 32;
};

struct GemmaBundleOptions {
  uint32_t seed = 1;
  bool image_only = false;
  std::set<std::string> drop;
  size_t v_dim = 192, v_inner = 384, v_layers = 2, v_heads = 3, v_head_dim = 64, v_patch = 8,
         v_rows = 96, dim = 64, inner = 128, layers = 6, heads = 2, t_rows = 64,
         max_soft_tokens = 10, positions = 64, vocabulary = 600, max_text_tokens = 48, m = 16,
         out = 48, window = 16, head_dim = 32, global_head_dim = 64;
  std::vector<size_t> buckets = {48, 96};
  // 2: packed matrices are followed by a second one of the same layout, 2^-8 as large, to be added.
  size_t planes = 1;
};

BundleFiles make_sam3_bundle(const Sam3BundleOptions& options = {});
BundleFiles make_gemma_bundle(const GemmaBundleOptions& options = {});

// The pieces, for tests of single files.
enum class StreamKind : uint32_t { kGemm = 1, kMha = 2, kRope = 3, kAddNorm = 4 };
std::string make_stream(StreamKind kind, const std::string& name,
                        const std::vector<uint32_t>& params, uint32_t mode = 0, uint32_t work = 1);
std::string make_xclbin(uint32_t number, uint16_t columns = 8, size_t buffers = 5);

}  // namespace npuseg::test

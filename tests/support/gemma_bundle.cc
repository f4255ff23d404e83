// SPDX-License-Identifier: Apache-2.0
// A synthetic EmbeddingGemma 2 bundle. Numbers are drawn in the order of
// tests/oracle/make_bundle.py.
#include <algorithm>

#include "bundle_builder.h"

namespace npuseg::test {

namespace {

std::string hex(const std::string& text) {
  if (text.empty()) return "-";
  constexpr const char* kDigits = "0123456789abcdef";
  std::string out;
  for (const char c : text) {
    out.push_back(kDigits[static_cast<unsigned char>(c) >> 4]);
    out.push_back(kDigits[static_cast<unsigned char>(c) & 15]);
  }
  return out;
}

class Maker {
 public:
  explicit Maker(const GemmaBundleOptions& options) : o_(options), b_(options.seed, options.drop) {
    for (size_t i = 0; i < o_.layers; ++i) {
      const bool global = i % 6 == 5;
      types_ += std::string(i == 0 ? "" : ",") + (global ? "g" : "s");
      head_dims_.push_back(global ? o_.global_head_dim : o_.head_dim);
      kv_heads_.push_back(global ? 1 : 2);
      o_width_ = std::max(o_width_, o_.heads * head_dims_.back());
      widths_.insert(qkv_width(i));
    }
  }

  BundleFiles make() {
    params();
    gemms();
    attention();
    vision();
    text();
    if (!o_.image_only) tokenizer();
    return b_.finish();
  }

 private:
  [[nodiscard]] size_t qkv_width(size_t i) const {
    return (o_.heads + 2 * kv_heads_[i]) * head_dims_[i];
  }

  void params() {
    b_.line("version 1");
    b_.param("v.D", o_.v_dim);
    b_.param("v.I", o_.v_inner);
    b_.param("v.layers", o_.v_layers);
    b_.param("v.heads", o_.v_heads);
    b_.param("v.hd", o_.v_head_dim);
    b_.param("v.patch", o_.v_patch);
    b_.param("v.pool", 3);
    b_.param("v.theta", "100.0");
    b_.param("v.eps", "1e-06");
    b_.param("v.rows", o_.v_rows);
    b_.param("D", o_.dim);
    b_.param("I", o_.inner);
    b_.param("layers", o_.layers);
    b_.param("heads", o_.heads);
    b_.param("eps", "1e-06");
    b_.param("hd", head_dims_);
    b_.param("kv_heads", kv_heads_);
    b_.param("layer_types", types_);
    b_.param("theta_s", "10000.0");
    b_.param("theta_g", "1000000.0");
    b_.param("ple", o_.dim);
    b_.param("out", o_.out);
    b_.param("window", o_.window);
    b_.param("t.rows", o_.t_rows);
    b_.param("o_width", o_width_);
    b_.param("max_soft_tokens", o_.max_soft_tokens);
    b_.param("no_window", size_t{1} << 30);
    if (!o_.image_only) {
      b_.param("max_text_tokens", o_.max_text_tokens);
      b_.param("bos", 2);
      b_.param("eos", 1);
    }
    for (const std::string context : {"vis", "txt", "mha"}) {
      b_.xclbin(context);
      b_.line("xclbin " + context + " kernels/" + context + ".xclbin MLIR_AIE");
    }
  }

  void add_gemm(const std::string& key, const std::string& context, size_t k, size_t n, size_t lda,
                size_t stride, size_t most, uint32_t mode = 0, bool pair = false) {
    b_.gemms[key] = {o_.m, lda, {k, n, 16, 16, 16, false}};
    for (size_t count = 1; count <= most; ++count) {
      const std::string file =
          "kernels/" + key + (count == 1 ? "" : "_x" + std::to_string(count)) + ".insts.bin";
      std::vector<uint32_t> numbers;
      for (const size_t number : {count * o_.m, k, n, lda, stride, size_t{16}, size_t{16},
                                  size_t{16}, size_t{0}, o_.planes, size_t{pair}}) {
        numbers.push_back(static_cast<uint32_t>(number));
      }
      b_.file(file,
              make_stream(StreamKind::kGemm, key, numbers, mode, static_cast<uint32_t>(n / 16)));
      const std::string sizes = " a_elems=" + std::to_string(count * o_.m * lda) +
                                " c_elems=" + std::to_string(count * o_.m * stride);
      if (count == 1) {
        b_.line("gemm " + key + " ctx=" + context + " insts=" + file + " M=" +
                std::to_string(o_.m) + " K=" + std::to_string(k) + " N=" + std::to_string(n) +
                " lda=" + std::to_string(lda) + " c_stride=" + std::to_string(stride) + sizes);
      } else {
        b_.line("gemm_chunks " + key + " " + std::to_string(count) + " insts=" + file + sizes);
      }
    }
  }

  void gemms() {
    const size_t v = o_.v_dim;
    const size_t d = o_.dim;
    const size_t nv = o_.v_rows / o_.m;
    const size_t nt = o_.t_rows / o_.m;
    add_gemm("v_patch", "vis", v, v, v, v, nv);
    add_gemm("v_qkv", "vis", v, 3 * v, v, 3 * v, nv);
    add_gemm("v_o", "vis", v, v, v, v, nv);
    add_gemm("v_gu", "vis", v, 2 * o_.v_inner, v, o_.v_inner, nv, 0, true);
    add_gemm("v_down", "vis", v, v, o_.v_inner, v, nv);
    add_gemm("v_ev", "vis", v, d, v, d, std::min<size_t>(nv, 2));
    add_gemm("t_ple", "txt", d, o_.layers * d, d, o_.layers * d, nt);
    for (const size_t width : widths_) {
      add_gemm("t_qkv" + std::to_string(width), "txt", d, width, d, width, nt);
    }
    add_gemm("t_o", "txt", d, d, o_width_, d, nt);
    add_gemm("t_gu", "txt", d, 2 * o_.inner, d, o_.inner, nt, 0, true);
    add_gemm("t_down", "txt", d, d, o_.inner, d, nt);
    add_gemm("t_pleg", "txt", d, d, d, d, nt, 5);
    add_gemm("t_plep", "txt", d, d, d, d, nt);
  }

  void attention() {
    std::vector<size_t> key_words;
    std::vector<size_t> window_words;
    for (size_t core = 0; core < 32; ++core) {
      key_words.push_back(8 + 12 * core);
      window_words.push_back(14 + 12 * core);
    }
    for (const size_t rows : o_.buckets) {
      const std::string key = "mha_" + std::to_string(rows);
      std::vector<uint32_t> numbers;
      const size_t v = o_.v_dim;
      for (const size_t number : {size_t{1}, rows, o_.v_heads, size_t{64}, size_t{0}, 3 * v, v,
                                  3 * v, 2 * v, 3 * v, size_t{0}, v}) {
        numbers.push_back(static_cast<uint32_t>(number));
      }
      for (const uint32_t last : {float_bits(1.0f), 1u, 8u, 14u}) numbers.push_back(last);
      b_.file("kernels/" + key + ".insts.bin", make_stream(StreamKind::kMha, key, numbers));
      const std::string in = std::to_string(rows * 3 * v);
      b_.line("mha " + std::to_string(rows) + " ctx=mha insts=kernels/" + key +
              ".insts.bin q_elems=" + in + " k_elems=" + in + " v_elems=" + in +
              " o_elems=" + std::to_string(rows * v) + " kv_words=" + joined(key_words) +
              " win_words=" + joined(window_words));
    }
  }

  void packed(const std::string& name, const std::string& key) {
    const bundle::PackedLayout& layout = b_.gemms.at(key).b;
    const double scale = inverse_root(layout.k);
    const size_t values = layout.k * layout.n;
    std::string high = values > (size_t{1} << 18)
                           ? b_.pack_noise(layout, scale, nullptr)
                           : b_.pack(layout, b_.random(values, scale), nullptr);
    if (o_.planes == 2) {
      std::string low = high;
      for (size_t at = 0; at < low.size(); at += bundle::kBlockBytes) {
        low[at] = static_cast<char>(low[at] - 8);
        std::rotate(low.begin() + static_cast<std::ptrdiff_t>(at + 1),
                    low.begin() + static_cast<std::ptrdiff_t>(at + 8),
                    low.begin() + static_cast<std::ptrdiff_t>(at + 9));
      }
      high += low;
    }
    b_.tensor(name, "u8", {high.size()}, high);
  }

  void scale_vector(const std::string& name, size_t size) {
    Floats values = b_.random(size, 0.1);
    for (float& value : values) value = 1 + value;
    b_.floats(name, {size}, values);
  }

  void vision() {
    packed("v.patch", "v_patch");
    packed("v.ev", "v_ev");
    b_.halves("v.pos", {2, o_.positions, o_.v_dim}, b_.random(2 * o_.positions * o_.v_dim, 0.2));
    for (size_t i = 0; i < o_.v_layers; ++i) {
      const std::string p = "v" + std::to_string(i) + ".";
      packed(p + "qkv", "v_qkv");
      packed(p + "o", "v_o");
      packed(p + "gu", "v_gu");
      for (size_t s = 0; s < o_.v_inner / o_.v_dim; ++s) {
        packed(p + "down" + std::to_string(s), "v_down");
      }
      scale_vector(p + "q_norm", o_.v_head_dim);
      scale_vector(p + "k_norm", o_.v_head_dim);
      scale_vector(p + "post_attn", o_.v_dim);
      scale_vector(p + "post_ff", o_.v_dim);
    }
  }

  void text() {
    const size_t d = o_.dim;
    packed("t.ple", "t_ple");
    scale_vector("t.ple_norm", d);
    scale_vector("t.norm", d);
    b_.random_floats("t.tok", {4, d}, 1);
    b_.random_floats("t.proj", {o_.out, d}, inverse_root(d));
    Floats scalars;
    for (size_t i = 0; i < o_.layers; ++i) {
      scalars.push_back(static_cast<float>(1 - 0.05 * static_cast<double>(i % 3)));
    }
    b_.floats("t.layer_scalar", {o_.layers}, scalars);
    for (size_t i = 0; i < o_.layers; ++i) {
      const std::string p = "t" + std::to_string(i) + ".";
      packed(p + "qkv", "t_qkv" + std::to_string(qkv_width(i)));
      for (size_t s = 0; s < o_.heads * head_dims_[i] / d; ++s) {
        packed(p + "o" + std::to_string(s), "t_o");
      }
      packed(p + "gu", "t_gu");
      for (size_t s = 0; s < o_.inner / d; ++s) packed(p + "down" + std::to_string(s), "t_down");
      packed(p + "pleg", "t_pleg");
      packed(p + "plep", "t_plep");
      scale_vector(p + "q_norm", head_dims_[i]);
      scale_vector(p + "k_norm", head_dims_[i]);
      for (const char* norm : {"post_attn", "post_ff", "post_ple"}) scale_vector(p + norm, d);
    }
  }

  void tokenizer() {
    b_.halves("t.embed", {o_.vocabulary, o_.dim}, b_.random(o_.vocabulary * o_.dim, 0.1));
    std::vector<std::string> tokens = {"<pad>", "<eos>", "<bos>", "<unk>"};
    for (int i = 0; i < 256; ++i) {
      char name[8];
      std::snprintf(name, sizeof name, "<0x%02X>", i);
      tokens.emplace_back(name);
    }
    for (char c = 33; c < 127; ++c) tokens.emplace_back(1, c);
    const std::string blank = "\xe2\x96\x81";
    tokens.insert(tokens.end(), {blank, "\n", "\t", "\xc3\xa9", "\xe4\xb8\xad"});
    std::map<std::string, int32_t> first;
    for (size_t i = 0; i < tokens.size(); ++i) first[tokens[i]] = static_cast<int32_t>(i);
    const auto add = [&](const std::string& token) {
      if (first.try_emplace(token, static_cast<int32_t>(tokens.size())).second) {
        tokens.push_back(token);
      }
      return first[token];
    };
    std::vector<int32_t> merges;
    const std::pair<std::string, std::string> pairs[] = {
        {blank, "t"}, {blank + "t", "h"}, {blank + "th", "e"}, {"a", "a"}, {"aa", "a"},
        {"e", "r"},   {blank, blank},     {"\n", "\n"},        {"i", "n"}, {"in", "g"},
        {"c", "a"},   {"ca", "t"},        {blank, "cat"},      {"o", "n"}, {"<0xF0>", "<0x9F>"}};
    for (const auto& [left, right] : pairs) {
      const int32_t merged = add(left + right);
      merges.insert(merges.end(), {first[left], first[right], merged});
    }
    const std::vector<std::string> added = {"<bos>",    "<eos>",    "<mask>",       "<|image|>",
                                            "<|image>", "<image|>", "[multimodal]", "<mas"};
    for (const std::string& token : added) add(token);
    while (tokens.size() < o_.vocabulary) {
      tokens.push_back("<unused" + std::to_string(tokens.size()) + ">");
    }
    std::string all;
    std::vector<int32_t> offsets = {0};
    for (const std::string& token : tokens) {
      all += token;
      offsets.push_back(static_cast<int32_t>(all.size()));
    }
    b_.tensor("tok.vocab", "u8", {all.size()}, all);
    b_.integers("tok.vocab_off", {offsets.size()}, offsets);
    b_.integers("tok.merges", {merges.size() / 3, 3}, merges);
    for (const std::string& token : added) {
      b_.line("added " + std::to_string(first[token]) + " " + hex(token));
    }
    b_.line("prompt SearchQuery " + hex("task: search result | query: "));
    b_.line("prompt Document " + hex("title: none | text: "));
    b_.line("prompt Empty " + hex(""));
  }

  const GemmaBundleOptions& o_;
  BundleBuilder b_;
  std::string types_;
  std::vector<size_t> head_dims_;
  std::vector<size_t> kv_heads_;
  size_t o_width_ = 0;
  std::set<size_t> widths_;
};

}  // namespace

BundleFiles make_gemma_bundle(const GemmaBundleOptions& options) { return Maker(options).make(); }

}  // namespace npuseg::test

// SPDX-License-Identifier: Apache-2.0
// A synthetic SAM 3 bundle. Numbers are drawn in the order of tests/oracle/make_bundle.py.
#include <cmath>
#include <numbers>

#include "bundle_builder.h"
#include "core/bf16.h"

namespace npuseg::test {

namespace {

constexpr size_t kHeadDim = 64;  // of DETR's attention kernel, and of a real ViT

// GPT-2's printable stand-ins for bytes, as UTF-8.
std::vector<std::string> byte_symbols() {
  std::vector<uint32_t> order;
  std::vector<std::string> symbols;
  const auto put = [&](uint32_t code) {
    std::string text;
    if (code < 0x80) {
      text.push_back(static_cast<char>(code));
    } else {
      text.push_back(static_cast<char>(0xc0 | (code >> 6)));
      text.push_back(static_cast<char>(0x80 | (code & 0x3f)));
    }
    symbols.push_back(text);
  };
  std::set<uint32_t> printable;
  for (uint32_t c = 33; c < 127; ++c) printable.insert(c);
  for (uint32_t c = 0xa1; c < 0xad; ++c) printable.insert(c);
  for (uint32_t c = 0xae; c < 0x100; ++c) printable.insert(c);
  for (const uint32_t c : printable) put(c);
  uint32_t next = 256;
  for (uint32_t c = 0; c < 256; ++c) {
    if (printable.count(c) == 0) put(next++);
  }
  return symbols;
}

// A JSON string with what is not ASCII escaped. Only two-byte UTF-8 occurs.
std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    if (c == '"' || c == '\\') {
      out += std::string("\\") + static_cast<char>(c);
    } else if (c < 0x80) {
      out.push_back(static_cast<char>(c));
    } else {
      const unsigned code = ((c & 0x1fu) << 6) | (static_cast<unsigned char>(text[++i]) & 0x3fu);
      char escape[8];
      std::snprintf(escape, sizeof escape, "\\u%04x", code);
      out += escape;
    }
  }
  return out + "\"";
}

class Maker {
 public:
  explicit Maker(const Sam3BundleOptions& options)
      : o_(options),
        b_(options.seed, options.drop),
        tokens_(o_.grid * o_.grid),
        padded_(kHeadDim * o_.d_heads),
        head_(o_.d_model / o_.d_heads) {}

  BundleFiles make() {
    params();
    gemms();
    attention();
    vit();
    for (const std::string neck : {"n", "tn"}) {
      if (neck == "n" || o_.tracker) make_neck(neck);
    }
    text();
    encoder();
    decoder();
    mask_decoder();
    if (o_.tracker) tracker();
    checks();
    return b_.finish();
  }

 private:
  void params() {
    b_.line("# synthetic bundle (make_bundle.py); the kernels are placeholders");
    b_.line("version " + std::to_string(o_.format));
    b_.param("grid", o_.grid);
    b_.param("window", o_.window);
    b_.param("vit_dim", o_.vit_dim);
    b_.param("vit_heads", o_.vit_heads);
    b_.param("vit_layers", o_.vit_layers);
    b_.param("vit_ffn_pad", o_.vit_ffn_pad);
    b_.param("vit_global", o_.vit_global);
    b_.param("patch", o_.patch);
    b_.param("image_size", o_.grid * o_.patch);
    b_.param("d_model", o_.d_model);
    b_.param("d_heads", o_.d_heads);
    b_.param("d_layers", o_.d_layers);
    b_.param("d_ffn", o_.d_ffn);
    b_.param("text_len", o_.text_len);
    b_.param("text_dim", o_.text_dim);
    b_.param("text_heads", o_.text_heads);
    b_.param("text_layers", o_.text_layers);
    b_.param("text_ffn", o_.text_ffn);
    b_.param("text_eps", "1e-05");
    b_.param("vit_eps", "1e-06");
    b_.param("queries", o_.queries);
    b_.param("dec_layers", o_.dec_layers);
    b_.param("neck_splits", std::vector<size_t>{4 * o_.mid, 4 * o_.d_model, o_.d_model});
    b_.param("mask_size", 4 * o_.grid);
    if (!o_.host_vit) b_.param("vit_device", 1);
    if (!o_.host_vit && o_.format == 2) b_.param("vit_res_f32", 1);
    tokenizer();
    if (!o_.tracker) return;
    b_.param("tracker", 1);
    b_.param("trk_heads", o_.d_heads);
    b_.param("trk_layers", 2);
    b_.param("trk_mask_tokens", 4);
    b_.param("trk_out_ch", o_.tracker_channels);
    b_.param("trk_stability_delta", "0.05");
    b_.param("trk_stability_thresh", "0.98");
    for (int i = 0; i < 2; ++i) b_.param("trk." + std::to_string(i) + ".mlp.depth", 2);
    for (int i = 0; i < 4; ++i) b_.param("trk.hyper" + std::to_string(i) + ".depth", 3);
    b_.param("trk.iou_head.depth", 3);
    b_.param("trk.obj_head.depth", 3);
  }

  void tokenizer() {
    const std::vector<std::string> merges = {
        "c a",     "ca t</w>", "d o",      "do g</w>",    "r e",      "re d</w>", "p e",
        "r s",     "pe rs",    "o n</w>",  "pers on</w>", "ca r</w>", "t h",      "th e</w>",
        "' s</w>", "a n",      "an d</w>", "e r</w>",     "i n",      "in g</w>", "l a",
        "la p",    "t o",      "to p</w>", "lap top</w>"};
    std::vector<std::string> all = byte_symbols();
    for (size_t i = 0; i < 256; ++i) all.push_back(all[i] + "</w>");
    for (std::string merge : merges) all.push_back(merge.erase(merge.find(' '), 1));
    all.insert(all.end(), {"<|startoftext|>", "<|endoftext|>"});
    std::map<std::string, size_t> seen;
    std::string json;
    for (const std::string& token : all) {
      if (!seen.try_emplace(token, seen.size()).second) continue;
      json += (json.empty() ? "{" : ", ") + quoted(token) + ": " + std::to_string(seen.size() - 1);
    }
    b_.file("vocab.json", json + "}");
    std::string lines = "#version: 0.2\n";
    for (const std::string& merge : merges) lines += merge + "\n";
    b_.file("merges.txt", lines);
    vocabulary_ = seen.size();
    b_.param("bos", seen["<|startoftext|>"]);
    b_.param("eos", seen["<|endoftext|>"]);
    b_.param("pad", seen["<|endoftext|>"]);
  }

  void gemms() {
    struct Spec {
      const char* key;
      size_t k, n, lda;
      bool bias;
      uint32_t mode;
      size_t m, tile_k, tile_n, ct_k;
      const char* context;
    };
    const size_t d = o_.d_model;
    const size_t v = o_.vit_dim;
    const size_t split = 4 * o_.mid + 5 * d;
    const size_t keys = o_.d_heads * o_.text_len;
    const size_t up = o_.mid % 32 == 0 ? 32 : 16;
    embed_k_ = (3 * o_.patch * o_.patch + 127) / 128 * 128;
    const Spec specs[] = {
        {"v_embed", embed_k_, v, embed_k_, false, 0, o_.m, 128, 32, 64, "g0"},
        {"v_qkv", v, 3 * v, v, true, 0, o_.m, 32, 32, 32, "g1"},
        {"v_o", v, v, v, true, 0, o_.m2, 32, 32, 32, "g1"},
        {"v_fc1", v, o_.vit_ffn_pad, v, true, 5, o_.m, 32, 32, 32, "g2"},
        {"v_fc2", o_.vit_ffn_pad, v, o_.vit_ffn_pad, false, 0, o_.m, 32, 32, 32, "g3"},
        {"n_in", v, split, v, true, 0, o_.m2, 32, 32, 32, "g1"},
        {"n_up", o_.mid, 4 * d, o_.mid, true, 0, o_.m, up, 32, up, "g4"},
        {"conv", 12 * d, 2 * d, 6 * d, false, 0, o_.m, 32, 32, 32, "g5"},
        {"d_qkv", 2 * d, 3 * padded_, 2 * d, true, 0, o_.m, 16, 16, 16, "g6"},
        {"d_o", padded_, d, padded_, true, 0, o_.m, 16, 16, 16, "g6"},
        {"d_s", d, keys, d, true, 0, o_.m, 32, 32, 32, "g7"},
        {"d_c", keys, d, keys, true, 0, o_.m2, 32, 32, 32, "g7"},
        {"d_fc1", d, o_.d_ffn, d, true, 4, o_.m, 32, 32, 32, "g8"},
        {"d_fc2", o_.d_ffn, d, o_.d_ffn, false, 0, o_.m, 32, 32, 32, "g9"},
        {"dec_kv", 2 * d, 2 * d * o_.dec_layers, 2 * d, true, 0, o_.m2, 16, 16, 16, "g6"},
        {"m_head", d, o_.mask_columns, d, true, 0, o_.mask_m, 32, 32, 32, "g7"},
    };
    for (int i = 0; i < 10; ++i) {
      const std::string context = "g" + std::to_string(i);
      b_.xclbin(context);
      b_.line("xclbin " + context + " kernels/" + context + ".xclbin MLIR_AIE");
    }
    for (const Spec& spec : specs) {
      const std::string key = spec.key;
      const bundle::PackedLayout layout{spec.k,      spec.n,    spec.tile_k,
                                        spec.tile_n, spec.ct_k, spec.bias};
      b_.gemms[key] = {spec.m, spec.lda, layout};
      std::vector<uint32_t> numbers;
      for (const size_t number :
           {spec.m, spec.k, spec.n, spec.lda, spec.n, spec.tile_k, spec.tile_n, spec.ct_k,
            size_t{spec.bias}, size_t{1}, size_t{0}}) {
        numbers.push_back(static_cast<uint32_t>(number));
      }
      b_.file("kernels/" + key + ".insts.bin",
              make_stream(StreamKind::kGemm, key, numbers, spec.mode,
                          static_cast<uint32_t>(spec.n / spec.tile_n)));
      std::string line =
          "gemm " + key + " ctx=" + spec.context + " insts=kernels/" + key + ".insts.bin";
      const std::pair<const char*, size_t> fields[] = {
          {"M", spec.m},       {"K", spec.k},           {"N", spec.n},
          {"lda", spec.lda},   {"tile_k", spec.tile_k}, {"tile_n", spec.tile_n},
          {"ct_k", spec.ct_k}, {"bias", spec.bias},     {"b_bytes", layout.bytes()}};
      for (const auto& [name, value] : fields) {
        line += std::string(" ") + name + "=" + std::to_string(value);
      }
      b_.line(line);
    }
  }

  void add_mha(const std::string& key, size_t heads, size_t length, size_t width, bool token_major,
               size_t elements, const std::vector<size_t>& numbers) {
    b_.xclbin(key);
    std::vector<uint32_t> params;
    for (const size_t number : numbers) params.push_back(static_cast<uint32_t>(number));
    const auto scale = static_cast<float>(inverse_root(width));
    for (const uint32_t last : {float_bits(scale), 0u, 0u, 0u}) params.push_back(last);
    b_.file("kernels/" + key + ".insts.bin", make_stream(StreamKind::kMha, key, params));
    b_.line("mha " + key + " xclbin=kernels/" + key + ".xclbin insts=kernels/" + key +
            ".insts.bin name=MLIR_AIE heads=" + std::to_string(heads) +
            " seq=" + std::to_string(length) + " d=" + std::to_string(width) + " token_major=" +
            std::to_string(token_major ? 1 : 0) + " elems=" + std::to_string(elements));
  }

  void attention() {
    const size_t v = o_.vit_dim;
    const size_t area = o_.window * o_.window;
    const size_t windows = tokens_ / area;
    const size_t heads = o_.vit_heads;
    const size_t width = v / heads;
    if (!o_.host_vit) {
      const std::vector<size_t> rows = {0, 2 * v, v, 2 * v, 2 * v, 3 * v, 0, v};
      const auto with = [&](size_t count, size_t length) {
        std::vector<size_t> numbers = {count, length, heads, width};
        numbers.insert(numbers.end(), rows.begin(), rows.end());
        return numbers;
      };
      add_mha("mha_win", windows * heads, area, width, false, tokens_ * v, with(windows, area));
      add_mha("mha_glob", heads, tokens_, width, true, tokens_ * v, with(1, tokens_));
    } else {
      add_mha("mha_win", windows * heads, area, width, false, tokens_ * v,
              {windows * heads, area, 1, width, 0, width, 0, width, 0, width, 0, width});
      add_mha("mha_glob", heads, tokens_, width, true, tokens_ * v,
              {1, tokens_, heads, width, 0, v, 0, v, 0, v, 0, v});
    }
    add_mha("mha_d", o_.d_heads, tokens_, kHeadDim, true, tokens_ * padded_,
            {1, tokens_, o_.d_heads, kHeadDim, 0, padded_, 0, padded_, 0, padded_, 0, padded_});
    if (o_.host_vit) return;
    const auto small = [](size_t value) { return static_cast<uint32_t>(value); };
    const auto add = [&](const std::string& key, StreamKind kind,
                         const std::vector<uint32_t>& numbers) {
      b_.xclbin(key);
      b_.file("kernels/" + key + ".insts.bin", make_stream(kind, key, numbers));
      b_.line("op " + key + " xclbin=kernels/" + key + ".xclbin insts=kernels/" + key +
              ".insts.bin");
    };
    add("rope", StreamKind::kRope,
        {small(tokens_), small(2 * heads), small(width), small(3 * v), small(2 * v)});
    add("addln", StreamKind::kAddNorm,
        {small(tokens_), small(v), float_bits(1e-6f), o_.format == 2 ? 1u : 0u});
  }

  void vit() {
    const size_t v = o_.vit_dim;
    const size_t w = o_.window;
    const size_t g = o_.grid;
    const size_t area = w * w;
    std::vector<int32_t> order(tokens_);
    struct Angles {
      const char* name;
      std::vector<double> values;
    };
    Angles angles[2] = {{"win", {}}, {"glob", {}}};
    for (size_t j = 0; j < tokens_; ++j) {
      const size_t window = j / area;
      const size_t y = window / (g / w) * w;
      const size_t x = window % (g / w) * w;
      const size_t sy = j % area / w;
      const size_t sx = j % w;
      order[j] = static_cast<int32_t>((y + sy) * g + x + sx);
      const double ratio = static_cast<double>(w) / static_cast<double>(g);
      const size_t head = v / o_.vit_heads;
      const double at[2][2] = {
          {static_cast<double>(sx), static_cast<double>(sy)},
          {static_cast<double>(x + sx) * ratio, static_cast<double>(y + sy) * ratio}};
      for (size_t kind = 0; kind < 2; ++kind) {
        for (size_t axis = 0; axis < 2; ++axis) {
          for (size_t p = 0; p < head / 4; ++p) {
            const double step = -4.0 * static_cast<double>(p) / static_cast<double>(head);
            angles[kind].values.push_back(at[kind][axis] * std::pow(10000.0, step));
          }
        }
      }
    }
    b_.integers("v.perm", {tokens_}, order);
    const Floats tile = b_.random(area * v, 0.3);
    Floats positions;
    for (size_t i = 0; i < tokens_ / area; ++i) {
      positions.insert(positions.end(), tile.begin(), tile.end());
    }
    b_.floats("v.pos", {tokens_, v}, positions);
    b_.norm("v.ln_pre", v);
    const size_t pixels = 3 * o_.patch * o_.patch;
    Floats embed = b_.random(pixels * v, inverse_root(pixels));
    embed.resize(embed_k_ * v);
    b_.packed("v.embed", "v_embed", &embed);
    for (const Angles& table : angles) {
      Floats cosines, sines, pairs;
      for (const double angle : table.values) {
        cosines.push_back(static_cast<float>(std::cos(angle)));
        sines.push_back(static_cast<float>(std::sin(angle)));
        pairs.push_back(cosines.back());
        pairs.push_back(sines.back());
      }
      const std::string name = table.name;
      if (o_.host_vit) {
        b_.floats("v.rope." + name + ".cos", {tokens_, cosines.size() / tokens_}, cosines);
        b_.floats("v.rope." + name + ".sin", {tokens_, sines.size() / tokens_}, sines);
      } else {
        b_.halves("v.rope_tab." + name, {tokens_, pairs.size() / tokens_}, pairs);
      }
    }
    for (size_t i = 0; i < o_.vit_layers; ++i) vit_layer("v." + std::to_string(i) + ".");
  }

  void vit_layer(const std::string& p) {
    const size_t v = o_.vit_dim;
    const size_t f = o_.vit_ffn;
    const size_t wide = o_.vit_ffn_pad;
    Floats fc1 = b_.random(v * wide, inverse_root(v));
    for (size_t r = 0; r < v; ++r) {
      for (size_t c = f; c < wide; ++c) fc1[r * wide + c] = 0;
    }
    Floats fc2 = b_.random(wide * v, 0.3 * inverse_root(f));
    std::fill(fc2.begin() + static_cast<std::ptrdiff_t>(f * v), fc2.end(), 0.0f);
    Floats bias = b_.random(wide, 0.1);
    std::fill(bias.begin() + static_cast<std::ptrdiff_t>(f), bias.end(), 0.0f);
    // A spare column carries fc2's bias: GELU(4) is about 4.
    bias[wide - 1] = 4.0f;
    const Floats carried = b_.random(v, 0.1);
    for (size_t c = 0; c < v; ++c) fc2[(wide - 1) * v + c] = carried[c] / 4;
    b_.packed(p + "qkv", "v_qkv");
    b_.packed(p + "o", "v_o", nullptr, nullptr, 0.3 * inverse_root(v));
    b_.packed(p + "fc1", "v_fc1", &fc1, &bias);
    b_.packed(p + "fc2", "v_fc2", &fc2);
    if (!o_.host_vit) return;
    b_.norm(p + "ln1", v);
    b_.norm(p + "ln2", v);
    b_.random_floats(p + "fc2.b", {v}, 0.1);
  }

  // Channels from `real` on are zero.
  void convolution(const std::string& name, size_t real) {
    const size_t d = o_.d_model;
    const Floats kernel = b_.random(d * d * 9, inverse_root(9 * d));  // [out, in, dy, dx]
    Floats bias = b_.random(d, 0.1);
    Floats banded(12 * d * 2 * d);
    for (size_t out = 0; out < real; ++out) {
      for (size_t in = 0; in < d; ++in) {
        for (size_t tap = 0; tap < 9; ++tap) {
          for (size_t pixel = 0; pixel < 2; ++pixel) {
            const size_t row = (pixel + tap % 3) * 3 * d + tap / 3 * d + in;
            banded[row * 2 * d + pixel * d + out] = kernel[(out * d + in) * 9 + tap];
          }
        }
      }
    }
    std::fill(bias.begin() + static_cast<std::ptrdiff_t>(real), bias.end(), 0.0f);
    b_.packed(name, "conv", &banded);
    b_.floats(name + ".b", {d}, bias);
  }

  void make_neck(const std::string& prefix) {
    b_.packed(prefix + ".in", "n_in");
    b_.packed(prefix + ".up", "n_up");
    for (size_t i = 0; i < 3; ++i) {
      convolution(prefix + ".conv" + std::to_string(i),
                  prefix == "tn" && i < 2 ? o_.tracker_channels[i] : o_.d_model);
    }
  }

  void text() {
    const size_t width = o_.text_dim;
    b_.halves("t.tok_emb", {vocabulary_, width}, b_.random(vocabulary_ * width, 0.5));
    b_.random_floats("t.pos_emb", {o_.text_len, width}, 0.2);
    for (size_t i = 0; i < o_.text_layers; ++i) {
      const std::string p = "t." + std::to_string(i) + ".";
      b_.norm(p + "ln1", width);
      b_.norm(p + "ln2", width);
      b_.linear(p + "qkv", 3 * width, width, {true});
      b_.linear(p + "o", width, width, {true, 0.3});
      b_.linear(p + "fc1", o_.text_ffn, width, {true});
      b_.linear(p + "fc2", width, o_.text_ffn, {true, 0.3});
    }
    b_.norm("t.final_ln", width);
    b_.linear("t.proj", o_.d_model, width);
  }

  void encoder() {
    const size_t d = o_.d_model;
    const size_t half = d / 2;
    Floats positions(tokens_ * d);
    for (size_t token = 0; token < tokens_; ++token) {
      const size_t at[2] = {token / o_.grid, token % o_.grid};
      for (size_t axis = 0; axis < 2; ++axis) {
        for (size_t i = 0; i < half; ++i) {
          const double angle =
              static_cast<double>(at[axis] + 1) / (static_cast<double>(o_.grid) + 1e-6) * 2 *
              std::numbers::pi /
              std::pow(10000.0, static_cast<double>(2 * (i / 2)) / static_cast<double>(half));
          positions[token * d + axis * half + i] =
              static_cast<float>(i % 2 == 0 ? std::sin(angle) : std::cos(angle));
        }
      }
    }
    b_.floats("d.pos", {tokens_, d}, positions);
    for (size_t i = 0; i < o_.d_layers; ++i) encoder_layer("d." + std::to_string(i) + ".");
  }

  void encoder_layer(const std::string& p) {
    const size_t d = o_.d_model;
    for (const char* norm : {"ln1", "ln2", "ln3"}) b_.norm(p + norm, d);
    const size_t wide = 3 * padded_;
    Floats qkv(2 * d * wide);
    Floats bias(wide);
    for (size_t part = 0; part < 3; ++part) {
      // Of q: the root that makes the kernel's scale that of the unpadded head.
      const float scale = part == 0 ? static_cast<float>(std::sqrt(2.0)) : 1.0f;
      for (size_t head = 0; head < o_.d_heads; ++head) {
        const size_t col = part * padded_ + head * kHeadDim;
        const Floats weight = b_.random(d * head_, inverse_root(d));
        for (size_t r = 0; r < d; ++r) {
          for (size_t c = 0; c < head_; ++c) {
            qkv[((part < 2 ? 0 : d) + r) * wide + col + c] =
                static_cast<float>(weight[r * head_ + c] * scale);
          }
        }
        const Floats shift = b_.random(head_, 0.1);
        for (size_t c = 0; c < head_; ++c) bias[col + c] = shift[c] * scale;
      }
    }
    b_.packed(p + "qkv", "d_qkv", &qkv, &bias);
    Floats out(padded_ * d);
    for (size_t head = 0; head < o_.d_heads; ++head) {
      const Floats weight = b_.random(head_ * d, 0.5 * inverse_root(d));
      std::copy(weight.begin(), weight.end(),
                out.begin() + static_cast<std::ptrdiff_t>(head * kHeadDim * d));
    }
    b_.packed(p + "o", "d_o", &out);
    for (const char* part : {"q", "k", "v", "o"}) b_.linear(p + "ca." + part, d, d);
    b_.packed(p + "fc1", "d_fc1");
    b_.packed(p + "fc2", "d_fc2", nullptr, nullptr, 0.5 * inverse_root(o_.d_ffn));
    b_.random_floats(p + "fc2.b", {d}, 0.1);
  }

  void decoder() {
    const size_t d = o_.d_model;
    const size_t wide = 2 * d * o_.dec_layers;
    Floats kv(2 * d * wide);
    for (size_t layer = 0; layer < o_.dec_layers; ++layer) {
      for (size_t part = 0; part < 2; ++part) {
        const Floats weight = b_.random(d * d, inverse_root(d));
        for (size_t r = 0; r < d; ++r) {
          for (size_t c = 0; c < d; ++c) {
            kv[(part * d + r) * wide + (2 * layer + part) * d + c] = weight[r * d + c];
          }
        }
      }
    }
    b_.packed("dec.kv", "dec_kv", &kv);
    b_.random_floats("dec.reference_points", {o_.queries, 4}, 1);
    b_.random_floats("dec.query_embed", {o_.queries, d}, 1);
    b_.random_floats("dec.presence_token", {d}, 1);
    b_.linear("dec.ref_point_head.1", d, 2 * d);
    b_.linear("dec.ref_point_head.2", d, d);
    for (const std::string axis : {"x", "y"}) {
      b_.linear("dec.rpb_" + axis + ".1", d, 2);
      b_.linear("dec.rpb_" + axis + ".2", o_.d_heads, d);
    }
    for (size_t layer = 0; layer < o_.dec_layers; ++layer) {
      const std::string p = "dec." + std::to_string(layer) + ".";
      for (const char* part :
           {"sa.q", "sa.k", "sa.v", "sa.o", "tca.q", "tca.k", "tca.v", "tca.o", "vca.q", "vca.o"}) {
        b_.linear(p + part, d, d);
      }
      for (const char* norm : {"sa_ln", "tca_ln", "vca_ln", "mlp_ln"}) b_.norm(p + norm, d);
      b_.linear(p + "fc1", o_.d_ffn, d);
      b_.linear(p + "fc2", d, o_.d_ffn);
    }
    b_.norm("dec.out_ln", d);
    b_.norm("dec.presence_ln", d);
    const Floats present = {2.5f};
    b_.linear("dec.box_head.1", d, d);
    b_.linear("dec.box_head.2", d, d);
    b_.linear("dec.box_head.3", 4, d);
    b_.linear("dec.presence_head.1", d, d);
    b_.linear("dec.presence_head.2", d, d);
    b_.linear("dec.presence_head.3", 1, d, {false, 1, &present});
    b_.linear("score.text_mlp.1", o_.score, d);
    b_.linear("score.text_mlp.2", d, o_.score);
    b_.norm("score.text_ln", d);
    b_.linear("score.text_proj", d, d);
    b_.linear("score.query_proj", d, d, {false, 4});
  }

  void mask_decoder() {
    const size_t d = o_.d_model;
    for (const char* part : {"q", "k", "v", "o"}) b_.linear(std::string("m.ca.") + part, d, d);
    b_.norm("m.ca_ln", d);
    for (const std::string i : {"0", "1"}) {
      convolution("m.conv" + i, d);
      b_.norm("m.gn" + i, d);
    }
    for (const std::string i : {"0", "1", "2"}) b_.linear("m.embed." + i, d, d);
    b_.linear("m.inst", d, d);
    b_.random_floats("m.sem.w", {d}, inverse_root(d));
    b_.random_floats("m.sem.b", {1}, 0.1);
  }

  void tracker() {
    const size_t d = o_.d_model;
    const size_t first = o_.tracker_channels[0];
    b_.random_floats("trk.pe_gauss", {2, d / 2}, 1);
    b_.random_floats("trk.point_embed", {4, d}, 0.5);
    b_.random_floats("trk.not_a_point", {d}, 0.5);
    b_.random_floats("trk.no_mask", {d}, 0.1);
    b_.random_floats("trk.tokens", {6, d}, 0.5);
    b_.random_floats("trk.image_pe", {tokens_, d}, 0.5);
    for (int i = 0; i < 2; ++i) {
      const std::string p = "trk." + std::to_string(i) + ".";
      for (const std::string part : {"sa", "t2i", "i2t"}) {
        const size_t width = part == "sa" ? d : d / 2;
        for (const char* input : {".q", ".k", ".v"}) b_.linear(p + part + input, width, d);
        b_.linear(p + part + ".o", d, width);
      }
      for (int k = 1; k < 5; ++k) b_.norm(p + "ln" + std::to_string(k), d);
      b_.linear(p + "mlp.0", 2 * d, d);
      b_.linear(p + "mlp.1", d, 2 * d);
    }
    for (const char* input : {"q", "k", "v"}) {
      b_.linear(std::string("trk.final.") + input, d / 2, d);
    }
    b_.linear("trk.final.o", d, d / 2);
    b_.norm("trk.final_ln", d);
    b_.random_floats("trk.up1.w", {d, o_.tracker_up, 2, 2}, inverse_root(d));
    b_.random_floats("trk.up1.b", {o_.tracker_up}, 0.1);
    b_.norm("trk.up_ln", o_.tracker_up);
    b_.random_floats("trk.up2.w", {o_.tracker_up, first, 2, 2}, inverse_root(o_.tracker_up));
    b_.random_floats("trk.up2.b", {first}, 0.1);
    for (int i = 0; i < 4; ++i) {
      const std::string p = "trk.hyper" + std::to_string(i) + ".";
      b_.linear(p + "0", d, d);
      b_.linear(p + "1", d, d);
      b_.linear(p + "2", first, d);
    }
    for (const auto& [name, out] : {std::pair("trk.iou_head.", 4), std::pair("trk.obj_head.", 1)}) {
      b_.linear(std::string(name) + "0", d, d);
      b_.linear(std::string(name) + "1", d, d);
      b_.linear(std::string(name) + "2", static_cast<size_t>(out), d);
    }
  }

  void checks() {
    const bundle::PackedLayout& layout = b_.gemms.at("d_s").b;
    const Floats b = b_.random(layout.k * layout.n, 1);
    const Floats bias = b_.random(layout.n, 1);
    b_.floats("pack_test.B", {layout.k, layout.n}, b);
    b_.floats("pack_test.bias", {layout.n}, bias);
    b_.tensor("pack_test.packed", "u8", {layout.bytes()}, b_.pack(layout, b, &bias));
    const std::string rgb = test_picture(120, 90);
    b_.file("cases/synth.png", plain_png(120, 90, rgb));
    b_.line("ref_image cases/synth.png");
    b_.line("ref_prompt cat");
    b_.tensor("ref.rgb", "u8", {90, 120, 3}, rgb);
  }

  const Sam3BundleOptions& o_;
  BundleBuilder b_;
  size_t tokens_;
  size_t padded_;  // DETR heads padded to kHeadDim
  size_t head_;
  size_t embed_k_ = 0;
  size_t vocabulary_ = 0;
};

}  // namespace

BundleFiles make_sam3_bundle(const Sam3BundleOptions& options) { return Maker(options).make(); }

}  // namespace npuseg::test

// SPDX-License-Identifier: Apache-2.0
// Which tensors a SAM 3 bundle must hold, and how large (spec iron-bundle-sam3, 3).
#include "bundle/sam3_manifest.h"

namespace npuseg::bundle {

namespace {

using core::DType;
using core::Shape;

class List {
 public:
  void floats(const std::string& name, Shape shape) { add(name, DType::kF32, shape); }
  void halves(const std::string& name, Shape shape) { add(name, DType::kBF16, shape); }
  void integers(const std::string& name, Shape shape) { add(name, DType::kI32, shape); }
  void norm(const std::string& name, size_t size) {
    floats(name + ".w", {size});
    floats(name + ".b", {size});
  }
  void linear(const std::string& name, size_t out, size_t in, bool bias_optional = true) {
    floats(name + ".w", {out, in});
    floats(name + ".b", {out});
    all.back().optional = bias_optional;
  }
  void half_linear(const std::string& name, size_t out, size_t in) {
    halves(name + ".w", {out, in});
    floats(name + ".b", {out});
  }
  void packed(const std::string& name, size_t bytes) {
    NeededTensor& tensor = add(name, DType::kU8, {bytes});
    tensor.packed_bytes = bytes;
  }

  std::vector<NeededTensor> all;

 private:
  NeededTensor& add(const std::string& name, DType dtype, Shape shape) {
    NeededTensor& tensor = all.emplace_back();
    tensor.name = name;
    tensor.dtype = dtype;
    tensor.shape = shape;
    return tensor;
  }
};

std::string numbered(const std::string& prefix, size_t i) {
  return prefix + std::to_string(i) + ".";
}

void add_vit(const Sam3Manifest& m, List* list) {
  const Sam3Params& p = m.params;
  const auto packed = [&](const std::string& name, const char* key) {
    list->packed(name, m.gemms.find(key)->second.b.bytes());
  };
  const size_t tokens = p.tokens();
  const size_t half = p.vit_dim / p.vit_heads / 2;
  packed("v.embed", "v_embed");
  list->integers("v.perm", {tokens});
  list->floats("v.pos", {tokens, p.vit_dim});
  list->norm("v.ln_pre", p.vit_dim);
  for (const std::string table : {"win", "glob"}) {
    if (p.vit_device) {
      list->packed("v.rope_tab." + table, tokens * 2 * half * 2);
    } else {
      list->floats("v.rope." + table + ".cos", {tokens, half});
      list->floats("v.rope." + table + ".sin", {tokens, half});
    }
  }
  for (size_t i = 0; i < p.vit_layers; ++i) {
    const std::string layer = numbered("v.", i);
    packed(layer + "qkv", "v_qkv");
    packed(layer + "o", "v_o");
    packed(layer + "fc1", "v_fc1");
    packed(layer + "fc2", "v_fc2");
    if (p.vit_device) continue;
    list->norm(layer + "ln1", p.vit_dim);
    list->norm(layer + "ln2", p.vit_dim);
    list->floats(layer + "fc2.b", {p.vit_dim});
  }
}

void add_neck(const Sam3Manifest& m, const std::string& prefix, List* list) {
  const auto packed = [&](const std::string& name, const char* key) {
    list->packed(prefix + name, m.gemms.find(key)->second.b.bytes());
  };
  packed(".in", "n_in");
  packed(".up", "n_up");
  for (const std::string i : {"0", "1", "2"}) {
    packed(".conv" + i, "conv");
    list->floats(prefix + ".conv" + i + ".b", {m.params.d_model});
  }
}

void add_text(const Sam3Params& p, List* list) {
  const size_t width = p.text_dim;
  list->floats("t.pos_emb", {p.text_len, width});
  for (size_t i = 0; i < p.text_layers; ++i) {
    const std::string layer = numbered("t.", i);
    list->norm(layer + "ln1", width);
    list->norm(layer + "ln2", width);
    list->half_linear(layer + "qkv", 3 * width, width);
    list->half_linear(layer + "o", width, width);
    list->half_linear(layer + "fc1", p.text_ffn, width);
    list->half_linear(layer + "fc2", width, p.text_ffn);
  }
  list->norm("t.final_ln", width);
  list->linear("t.proj", p.d_model, width, false);
}

void add_cross(const std::string& name, size_t d, List* list) {
  list->linear(name + ".q", d, d, false);
  list->linear(name + ".k", d, d);
  list->linear(name + ".v", d, d);
  list->linear(name + ".o", d, d, false);
}

void add_encoder(const Sam3Manifest& m, List* list) {
  const Sam3Params& p = m.params;
  const auto packed = [&](const std::string& name, const char* key) {
    list->packed(name, m.gemms.find(key)->second.b.bytes());
  };
  list->floats("d.pos", {p.tokens(), p.d_model});
  for (size_t i = 0; i < p.d_layers; ++i) {
    const std::string layer = numbered("d.", i);
    for (const char* norm : {"ln1", "ln2", "ln3"}) list->norm(layer + norm, p.d_model);
    packed(layer + "qkv", "d_qkv");
    packed(layer + "o", "d_o");
    add_cross(layer + "ca", p.d_model, list);
    packed(layer + "fc1", "d_fc1");
    packed(layer + "fc2", "d_fc2");
    list->floats(layer + "fc2.b", {p.d_model});
  }
}

void add_decoder(const Sam3Manifest& m, List* list) {
  const Sam3Params& p = m.params;
  const size_t d = p.d_model;
  list->packed("dec.kv", m.gemms.find("dec_kv")->second.b.bytes());
  list->floats("dec.reference_points", {p.queries, 4});
  list->floats("dec.query_embed", {p.queries, d});
  list->floats("dec.presence_token", {d});
  list->linear("dec.ref_point_head.1", d, 2 * d);
  list->linear("dec.ref_point_head.2", d, d);
  for (const std::string axis : {"x", "y"}) {
    list->linear("dec.rpb_" + axis + ".1", d, 2);
    list->linear("dec.rpb_" + axis + ".2", p.d_heads, d);
  }
  for (size_t i = 0; i < p.dec_layers; ++i) {
    const std::string layer = numbered("dec.", i);
    for (const char* part :
         {"sa.q", "sa.k", "sa.v", "sa.o", "tca.q", "tca.k", "tca.v", "tca.o", "vca.q", "vca.o"}) {
      list->linear(layer + part, d, d);
    }
    for (const char* norm : {"sa_ln", "tca_ln", "vca_ln", "mlp_ln"}) list->norm(layer + norm, d);
    list->linear(layer + "fc1", p.d_ffn, d);
    list->linear(layer + "fc2", d, p.d_ffn);
  }
  list->norm("dec.out_ln", d);
  list->norm("dec.presence_ln", d);
  for (const auto& [head, out] :
       {std::pair("dec.box_head", size_t{4}), std::pair("dec.presence_head", size_t{1})}) {
    list->linear(std::string(head) + ".1", d, d);
    list->linear(std::string(head) + ".2", d, d);
    list->linear(std::string(head) + ".3", out, d);
  }
  list->norm("score.text_ln", d);
  list->linear("score.text_proj", d, d);
  list->linear("score.query_proj", d, d);
}

void add_mask(const Sam3Manifest& m, List* list) {
  const size_t d = m.params.d_model;
  add_cross("m.ca", d, list);
  list->norm("m.ca_ln", d);
  for (const std::string i : {"0", "1"}) {
    list->packed("m.conv" + i, m.gemms.find("conv")->second.b.bytes());
    list->floats("m.conv" + i + ".b", {d});
    list->norm("m.gn" + i, d);
  }
  for (const std::string i : {"0", "1", "2"}) list->linear("m.embed." + i, d, d);
  list->linear("m.inst", d, d);
  list->floats("m.sem.w", {d});
  list->floats("m.sem.b", {1});
}

}  // namespace

std::vector<NeededTensor> Sam3Manifest::tensors() const {
  List list;
  add_vit(*this, &list);
  add_neck(*this, "n", &list);
  if (params.tracker) add_neck(*this, "tn", &list);
  add_text(params, &list);
  add_encoder(*this, &list);
  add_decoder(*this, &list);
  add_mask(*this, &list);
  return list.all;
}

}  // namespace npuseg::bundle

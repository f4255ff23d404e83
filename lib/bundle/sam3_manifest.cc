// SPDX-License-Identifier: Apache-2.0
#include "bundle/sam3_manifest.h"

#include <string_view>
#include <utility>

#include "bundle/text_forms.h"

namespace npuseg::bundle {

using core::Code;
using core::format;
using core::Result;
using core::Status;

namespace {

constexpr const char* kGemms[] = {"v_embed", "v_qkv", "v_o",    "v_fc1", "v_fc2", "n_in",
                                  "n_up",    "conv",  "d_qkv",  "d_o",   "d_s",   "d_c",
                                  "d_fc1",   "d_fc2", "dec_kv", "m_head"};

Status read_params(const Manifest& manifest, Sam3Params* p) {
  const struct {
    const char* name;
    size_t* value;
  } sizes[] = {{"grid", &p->grid},
               {"window", &p->window},
               {"vit_dim", &p->vit_dim},
               {"vit_heads", &p->vit_heads},
               {"vit_layers", &p->vit_layers},
               {"vit_ffn_pad", &p->vit_ffn_pad},
               {"patch", &p->patch},
               {"image_size", &p->image_size},
               {"d_model", &p->d_model},
               {"d_heads", &p->d_heads},
               {"d_layers", &p->d_layers},
               {"d_ffn", &p->d_ffn},
               {"text_len", &p->text_len},
               {"text_dim", &p->text_dim},
               {"text_heads", &p->text_heads},
               {"text_layers", &p->text_layers},
               {"text_ffn", &p->text_ffn},
               {"queries", &p->queries},
               {"dec_layers", &p->dec_layers},
               {"mask_size", &p->mask_size}};
  for (const auto& size : sizes) {
    NPUSEG_ASSIGN_OR_RETURN(*size.value, manifest.size(size.name));
  }
  NPUSEG_ASSIGN_OR_RETURN(p->vit_global, manifest.list("vit_global"));
  NPUSEG_ASSIGN_OR_RETURN(p->neck_splits, manifest.list("neck_splits"));
  NPUSEG_ASSIGN_OR_RETURN(p->text_eps, manifest.number("text_eps"));
  NPUSEG_ASSIGN_OR_RETURN(p->vit_eps, manifest.number("vit_eps"));
  for (const auto& [name, value] :
       {std::pair("bos", &p->bos), std::pair("eos", &p->eos), std::pair("pad", &p->pad)}) {
    NPUSEG_ASSIGN_OR_RETURN(*value, manifest.integer(name));
  }
  p->vit_device = manifest.is_one("vit_device");
  p->vit_res_f32 = manifest.is_one("vit_res_f32");
  p->tracker = manifest.is_one("tracker");
  return {};
}

Status check_params(const Manifest& manifest, uint32_t version, const Sam3Params& p) {
  if (p.grid > 1024 || p.patch > 1024) {
    return manifest.refuse_param("grid", "or patch is above 1024");
  }
  if (p.image_size != p.grid * p.patch) {
    return manifest.refuse_param(
        "image_size", format("is %zu, grid * patch is %zu", p.image_size, p.grid * p.patch));
  }
  if (p.grid % p.window != 0) {
    return manifest.refuse_param("grid",
                                 format("%zu is no multiple of window %zu", p.grid, p.window));
  }
  if (p.mask_size != 4 * p.grid) {
    return manifest.refuse_param("mask_size",
                                 format("is %zu, 4 * grid is %zu", p.mask_size, 4 * p.grid));
  }
  if (p.vit_dim % p.vit_heads != 0 || p.text_dim % p.text_heads != 0) {
    return manifest.refuse_param("vit_heads", "or text_heads does not divide its width");
  }
  if (p.d_model % 8 != 0 || p.d_model % p.d_heads != 0) {
    return manifest.refuse_param("d_model", format("is %zu, a multiple of 8 and of d_heads %zu is "
                                                   "needed",
                                                   p.d_model, p.d_heads));
  }
  for (const size_t layer : p.vit_global) {
    if (layer >= p.vit_layers) {
      return manifest.refuse_param("vit_global",
                                   format("names layer %zu of %zu", layer, p.vit_layers));
    }
  }
  if (p.neck_splits.size() != 3) {
    return manifest.refuse_param("neck_splits",
                                 format("has %zu items, 3 are needed", p.neck_splits.size()));
  }
  if (!(p.text_eps > 0) || !(p.vit_eps > 0) || p.text_eps > 1 || p.vit_eps > 1) {
    return manifest.refuse_param("text_eps", "or vit_eps is not between 0 and 1");
  }
  // What tells the formats apart (spec 1.3).
  if (version == 2 && p.vit_device && !p.vit_res_f32) {
    return manifest.refuse_param("vit_res_f32", "is not 1 in a bundle of version 2");
  }
  return {};
}

Status read_gemm(const Record& record, const Manifest& manifest, Sam3Manifest* out) {
  Sam3Gemm gemm;
  NPUSEG_ASSIGN_OR_RETURN(gemm.files, read_kernel_files(record, true, manifest));
  const struct {
    const char* name;
    size_t* value;
  } sizes[] = {{"M", &gemm.m},        {"K", &gemm.b.k},           {"N", &gemm.b.n},
               {"lda", &gemm.lda},    {"tile_k", &gemm.b.tile_k}, {"tile_n", &gemm.b.tile_n},
               {"ct_k", &gemm.b.ct_k}};
  for (const auto& size : sizes) {
    NPUSEG_ASSIGN_OR_RETURN(*size.value, record.size(size.name));
  }
  NPUSEG_ASSIGN_OR_RETURN(gemm.b.bias, record.flag("bias"));
  NPUSEG_ASSIGN_OR_RETURN(const size_t bytes, record.integer("b_bytes"));
  NPUSEG_RETURN_IF_ERROR(check_layout(gemm.b, format("%s:%zu: gemm %s", manifest.where().c_str(),
                                                     record.line(), gemm.files.key.c_str())));
  if (bytes != gemm.b.bytes()) {
    return record.refuse(
        format("b_bytes is %zu, K, N, ct_k and bias give %zu", bytes, gemm.b.bytes()));
  }
  if (!out->gemms.try_emplace(gemm.files.key, gemm).second) {
    return record.refuse("gemm " + gemm.files.key + " defined twice");
  }
  return {};
}

Status read_mha(const Record& record, const Manifest& manifest, Sam3Manifest* out) {
  Sam3Mha mha;
  NPUSEG_ASSIGN_OR_RETURN(mha.files, read_kernel_files(record, false, manifest));
  for (const auto& [name, value] : {std::pair("heads", &mha.heads), std::pair("seq", &mha.seq),
                                    std::pair("d", &mha.d), std::pair("elems", &mha.elems)}) {
    NPUSEG_ASSIGN_OR_RETURN(*value, record.integer(name));
  }
  NPUSEG_ASSIGN_OR_RETURN(mha.token_major, record.flag("token_major"));
  if (!out->mhas.try_emplace(mha.files.key, mha).second) {
    return record.refuse("mha " + mha.files.key + " defined twice");
  }
  return {};
}

Status read_tests(const Record& record, Sam3Manifest* out) {
  const std::string& tag = record.tag();
  if (tag == "ref_image") {
    out->ref_image = record.rest(0);
    const std::string why = bad_path(out->ref_image);
    return why.empty() ? Status() : record.refuse("ref_image " + why);
  }
  if (tag == "ref_prompt") {
    out->ref_prompt = record.rest(0);
  } else if (tag == "tok_test") {
    NPUSEG_RETURN_IF_ERROR(record.need_fields(1));
    Sam3TokenTest test;
    NPUSEG_ASSIGN_OR_RETURN(test.index, record.integer_field(0));
    test.text = unescape(record.rest(1));
    out->token_tests.push_back(std::move(test));
  } else if (tag == "case") {
    NPUSEG_RETURN_IF_ERROR(record.need_fields(3));
    Sam3Case one;
    NPUSEG_ASSIGN_OR_RETURN(one.index, record.integer_field(0));
    NPUSEG_ASSIGN_OR_RETURN(one.image, record.path_field(1));
    one.prompt = record.rest(2);
    out->cases.push_back(std::move(one));
  } else if (tag == "pcase") {
    NPUSEG_RETURN_IF_ERROR(record.need_fields(2));
    Sam3PointCase one;
    NPUSEG_ASSIGN_OR_RETURN(one.index, record.integer_field(0));
    NPUSEG_ASSIGN_OR_RETURN(one.image, record.path_field(1));
    for (const auto& [name, text] :
         {std::pair("points=", &one.points), std::pair("box=", &one.box)}) {
      for (size_t i = 2; i < record.fields(); ++i) {
        const std::string_view word = record.field(i);
        if (word.starts_with(name)) *text = word.substr(std::string_view(name).size());
      }
    }
    out->point_cases.push_back(std::move(one));
  }
  return {};
}

// "What must be equal" between kernels and params, each with its names.
struct Coupling {
  std::string what;
  size_t found;
  size_t wanted;
};

Status check_kernels(const Manifest& manifest, const Sam3Manifest& m) {
  const auto refuse = [&](const std::string& why) { return manifest.refuse(why); };
  for (const char* key : kGemms) {
    if (m.gemms.find(key) == m.gemms.end()) return refuse(format("no kernel %s", key));
  }
  for (const char* key : {"mha_win", "mha_glob", "mha_d"}) {
    if (m.mhas.find(key) == m.mhas.end()) return refuse(format("no MHA %s", key));
  }
  for (const char* key : {"rope", "addln"}) {
    if (m.params.vit_device && m.ops.find(key) == m.ops.end()) {
      return refuse(format("no kernel %s, which a ViT on the device needs", key));
    }
  }
  const Sam3Params& p = m.params;
  const auto gemm = [&](const char* key) -> const Sam3Gemm& { return m.gemms.find(key)->second; };
  const auto mha = [&](const char* key) -> const Sam3Mha& { return m.mhas.find(key)->second; };
  const size_t d = p.d_model;
  const size_t tokens = p.tokens();
  const size_t area = p.window * p.window;
  const size_t head = mha("mha_d").d;
  if (head == 0 || head > kMostSize || head < d / p.d_heads) {
    return refuse(
        format("mha_d has heads of %zu, those of the model are %zu", head, d / p.d_heads));
  }
  const size_t padded = head * p.d_heads;
  const size_t split = p.neck_splits[0] + p.neck_splits[1] + p.neck_splits[2];
  const PackedLayout& conv = gemm("conv").b;
  const size_t lda = gemm("conv").lda;
  std::vector<Coupling> equal = {
      {"v_qkv K and vit_dim", gemm("v_qkv").b.k, p.vit_dim},
      {"v_embed N and vit_dim", gemm("v_embed").b.n, p.vit_dim},
      {"v_qkv N and 3 * vit_dim", gemm("v_qkv").b.n, 3 * p.vit_dim},
      {"v_o K and vit_dim", gemm("v_o").b.k, p.vit_dim},
      {"v_o N and vit_dim", gemm("v_o").b.n, p.vit_dim},
      {"v_fc1 K and vit_dim", gemm("v_fc1").b.k, p.vit_dim},
      {"v_fc1 N and vit_ffn_pad", gemm("v_fc1").b.n, p.vit_ffn_pad},
      {"v_fc2 K and vit_ffn_pad", gemm("v_fc2").b.k, p.vit_ffn_pad},
      {"v_fc2 N and vit_dim", gemm("v_fc2").b.n, p.vit_dim},
      {"n_in K and vit_dim", gemm("n_in").b.k, p.vit_dim},
      {"n_in N and the sum of neck_splits", gemm("n_in").b.n, split},
      {"neck_splits[0] and 4 * K of n_up", p.neck_splits[0], 4 * gemm("n_up").b.k},
      {"neck_splits[1] and 4 * d_model", p.neck_splits[1], 4 * d},
      {"neck_splits[2] and d_model", p.neck_splits[2], d},
      {"n_up N and 4 * d_model", gemm("n_up").b.n, 4 * d},
      {"conv K and 12 * d_model", conv.k, 12 * d},
      {"conv lda and 6 * d_model", lda, 6 * d},
      {"conv N and 2 * d_model", conv.n, 2 * d},
      {"d_qkv K and 2 * d_model", gemm("d_qkv").b.k, 2 * d},
      {"d_qkv N and 3 * d(mha_d) * d_heads", gemm("d_qkv").b.n, 3 * padded},
      {"d_o K and d(mha_d) * d_heads", gemm("d_o").b.k, padded},
      {"d_o N and d_model", gemm("d_o").b.n, d},
      {"d_s K and d_model", gemm("d_s").b.k, d},
      {"d_s N and d_heads * text_len", gemm("d_s").b.n, p.d_heads * p.text_len},
      {"d_c K and N of d_s", gemm("d_c").b.k, gemm("d_s").b.n},
      {"d_c N and d_model", gemm("d_c").b.n, d},
      {"d_fc1 K and d_model", gemm("d_fc1").b.k, d},
      {"d_fc1 N and d_ffn", gemm("d_fc1").b.n, p.d_ffn},
      {"d_fc2 K and d_ffn", gemm("d_fc2").b.k, p.d_ffn},
      {"d_fc2 N and d_model", gemm("d_fc2").b.n, d},
      {"dec_kv K and 2 * d_model", gemm("dec_kv").b.k, 2 * d},
      {"dec_kv N and 2 * d_model * dec_layers", gemm("dec_kv").b.n, 2 * d * p.dec_layers},
      {"m_head K and d_model", gemm("m_head").b.k, d},
      {"mha_win heads and windows * vit_heads", mha("mha_win").heads, tokens / area * p.vit_heads},
      {"mha_win seq and window^2", mha("mha_win").seq, area},
      {"mha_win d and vit_dim / vit_heads", mha("mha_win").d, p.vit_dim / p.vit_heads},
      {"mha_glob heads and vit_heads", mha("mha_glob").heads, p.vit_heads},
      {"mha_glob seq and grid^2", mha("mha_glob").seq, tokens},
      {"mha_glob d and vit_dim / vit_heads", mha("mha_glob").d, p.vit_dim / p.vit_heads},
      {"mha_d heads and d_heads", mha("mha_d").heads, p.d_heads},
      {"mha_d seq and grid^2", mha("mha_d").seq, tokens},
      {"token_major of mha_win", mha("mha_win").token_major ? 1u : 0u, 0},
      {"token_major of mha_glob", mha("mha_glob").token_major ? 1u : 0u, 1},
      {"token_major of mha_d", mha("mha_d").token_major ? 1u : 0u, 1},
  };
  for (const char* key : kGemms) {
    if (std::string_view(key) == "conv") continue;
    equal.push_back({format("%s lda and K", key), gemm(key).lda, gemm(key).b.k});
  }
  for (const char* key : {"d_s", "d_c", "m_head"}) {
    equal.push_back({format("bias of %s", key), gemm(key).b.bias ? 1u : 0u, 1});
  }
  // Biases of these are added by the host.
  for (const char* key : {"conv", "d_fc2"}) {
    equal.push_back({format("bias of %s", key), gemm(key).b.bias ? 1u : 0u, 0});
  }
  for (const Coupling& one : equal) {
    if (one.found != one.wanted) {
      return refuse(format("%s must agree: %zu and %zu", one.what.c_str(), one.found, one.wanted));
    }
  }
  const Coupling least[] = {
      {"v_embed K", gemm("v_embed").b.k, 3 * p.patch * p.patch},
      {"m_head N", gemm("m_head").b.n, p.queries + 1},
      {"elems of mha_win", mha("mha_win").elems, tokens * p.vit_dim},
      {"elems of mha_glob", mha("mha_glob").elems, tokens * p.vit_dim},
      {"elems of mha_d", mha("mha_d").elems, tokens * padded},
  };
  for (const Coupling& one : least) {
    if (one.found < one.wanted) {
      return refuse(
          format("%s is %zu, at least %zu is needed", one.what.c_str(), one.found, one.wanted));
    }
  }
  // A chained stage runs on the rows of its producer.
  for (const auto& [first, second] : {std::pair("v_fc1", "v_fc2"), std::pair("d_fc1", "d_fc2")}) {
    const size_t m1 = gemm(first).m;
    const size_t rows = (tokens + m1 - 1) / m1 * m1;
    if (rows % gemm(second).m != 0) {
      return refuse(format("%zu rows of %s are no multiple of M %zu of %s", rows, first,
                           gemm(second).m, second));
    }
  }
  return {};
}

}  // namespace

Result<Sam3Manifest> Sam3Manifest::read(const Manifest& manifest) {
  Sam3Manifest out;
  NPUSEG_ASSIGN_OR_RETURN(out.format, manifest.version({1, 2}));
  NPUSEG_RETURN_IF_ERROR(read_params(manifest, &out.params));
  NPUSEG_RETURN_IF_ERROR(check_params(manifest, out.format, out.params));
  for (const Record& record : manifest.records()) {
    if (record.tag() == "gemm") {
      NPUSEG_RETURN_IF_ERROR(read_gemm(record, manifest, &out));
    } else if (record.tag() == "mha") {
      NPUSEG_RETURN_IF_ERROR(read_mha(record, manifest, &out));
    } else if (record.tag() == "op") {
      NPUSEG_ASSIGN_OR_RETURN(const KernelFiles files, read_kernel_files(record, false, manifest));
      if (!out.ops.try_emplace(files.key, files).second) {
        return record.refuse("op " + files.key + " defined twice");
      }
    } else {
      NPUSEG_RETURN_IF_ERROR(read_tests(record, &out));
    }
  }
  NPUSEG_RETURN_IF_ERROR(check_kernels(manifest, out));
  return out;
}

std::vector<KernelFiles> Sam3Manifest::kernels() const {
  std::vector<KernelFiles> all;
  for (const auto& [key, gemm] : gemms) all.push_back(gemm.files);
  for (const auto& [key, mha] : mhas) all.push_back(mha.files);
  for (const auto& [key, op] : ops) all.push_back(op);
  return all;
}

}  // namespace npuseg::bundle

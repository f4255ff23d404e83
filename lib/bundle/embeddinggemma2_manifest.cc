// SPDX-License-Identifier: Apache-2.0
#include "bundle/embeddinggemma2_manifest.h"

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

#include "bundle/text_forms.h"

namespace npuseg::bundle {

using core::Code;
using core::format;
using core::Result;
using core::Status;

namespace {

Result<uint32_t> read_word(const Manifest& manifest, const char* name) {
  NPUSEG_ASSIGN_OR_RETURN(const size_t value, manifest.integer(name));
  if (value > std::numeric_limits<uint32_t>::max()) {
    return manifest.refuse_param(name, format("is %zu, which is no 32-bit number", value));
  }
  return static_cast<uint32_t>(value);
}

// Lists with one item a layer.
Status read_lists(const Manifest& manifest, Gemma2Params* p) {
  for (const auto& [name, list] :
       {std::pair("hd", &p->head_dims), std::pair("kv_heads", &p->kv_heads)}) {
    NPUSEG_ASSIGN_OR_RETURN(*list, manifest.list(name));
    if (list->size() != p->layers) {
      return manifest.refuse_param(
          name, format("has %zu items, the model %zu layers", list->size(), p->layers));
    }
    for (const size_t value : *list) {
      if (value == 0 || value > kMostSize) {
        return manifest.refuse_param(name, format("holds %zu", value));
      }
    }
  }
  NPUSEG_ASSIGN_OR_RETURN(const std::vector<std::string> types, manifest.words("layer_types"));
  for (const std::string& type : types) {
    if (type != "g" && type != "s") {
      return manifest.refuse_param("layer_types", "has the layer type " + type.substr(0, 100));
    }
    p->global.push_back(type == "g");
  }
  if (types.size() != p->layers) {
    return manifest.refuse_param(
        "layer_types", format("has %zu items, the model %zu layers", types.size(), p->layers));
  }
  return {};
}

Status read_params(const Manifest& manifest, Gemma2Params* p) {
  const struct {
    const char* name;
    size_t* value;
  } sizes[] = {
      {"v.D", &p->v_dim},       {"v.I", &p->v_inner},     {"v.layers", &p->v_layers},
      {"v.heads", &p->v_heads}, {"v.hd", &p->v_head_dim}, {"v.patch", &p->v_patch},
      {"v.pool", &p->v_pool},   {"v.rows", &p->v_rows},   {"D", &p->dim},
      {"I", &p->inner},         {"layers", &p->layers},   {"heads", &p->heads},
      {"ple", &p->ple},         {"out", &p->out},         {"window", &p->window},
      {"t.rows", &p->t_rows},   {"o_width", &p->o_width}, {"max_soft_tokens", &p->max_soft_tokens}};
  for (const auto& size : sizes) {
    NPUSEG_ASSIGN_OR_RETURN(*size.value, manifest.size(size.name));
  }
  const struct {
    const char* name;
    float* value;
  } numbers[] = {{"v.theta", &p->v_theta},
                 {"v.eps", &p->v_eps},
                 {"eps", &p->eps},
                 {"theta_s", &p->theta_sliding},
                 {"theta_g", &p->theta_global}};
  for (const auto& number : numbers) {
    NPUSEG_ASSIGN_OR_RETURN(*number.value, manifest.number(number.name));
    if (!(*number.value > 0) || *number.value > 1e12f) {
      return manifest.refuse_param(number.name, "is no positive number");
    }
  }
  NPUSEG_RETURN_IF_ERROR(read_lists(manifest, p));
  NPUSEG_ASSIGN_OR_RETURN(p->no_window, read_word(manifest, "no_window"));
  if (manifest.find_param("max_text_tokens") != nullptr) {
    NPUSEG_ASSIGN_OR_RETURN(p->max_text_tokens, manifest.integer("max_text_tokens"));
  }
  for (const auto& [name, value] : {std::pair("bos", &p->bos), std::pair("eos", &p->eos)}) {
    if (manifest.find_param(name) == nullptr) continue;
    NPUSEG_ASSIGN_OR_RETURN(*value, read_word(manifest, name));
  }
  return {};
}

Status check_params(const Manifest& manifest, const Gemma2Params& p) {
  if (p.v_patch > 1024 || p.v_dim != 3 * p.v_patch * p.v_patch) {
    return manifest.refuse_param("v.D", "is not 3 * v.patch^2");
  }
  if (p.v_dim != p.v_heads * p.v_head_dim || p.v_head_dim % 4 != 0) {
    return manifest.refuse_param("v.D", "is not v.heads * v.hd with v.hd a multiple of 4");
  }
  if (p.v_inner % p.v_dim != 0) return manifest.refuse_param("v.I", "is no multiple of v.D");
  if (p.inner % p.dim != 0) return manifest.refuse_param("I", "is no multiple of D");
  if (p.ple != p.dim) return manifest.refuse_param("ple", "differs from D");
  for (size_t i = 0; i < p.layers; ++i) {
    const size_t width = p.heads * p.head_dims[i];
    if (width % p.dim != 0 || width > p.o_width || p.head_dims[i] % 2 != 0) {
      return manifest.refuse_param(
          "hd", format("of layer %zu: heads * %zu must be a multiple of D, at most o_width and "
                       "even",
                       i, p.head_dims[i]));
    }
    if (p.heads % p.kv_heads[i] != 0) {
      return manifest.refuse_param("kv_heads", format("of layer %zu does not divide heads", i));
    }
  }
  if (p.max_soft_tokens > kMostSize / (p.v_pool * p.v_pool)) {
    return manifest.refuse_param("max_soft_tokens", "is too large");
  }
  if (p.max_text_tokens > p.t_rows) {
    return manifest.refuse_param(
        "max_text_tokens",
        format("is %zu, the device's buffers have t.rows %zu", p.max_text_tokens, p.t_rows));
  }
  return {};
}

Status read_chunk(const Record& record, Gemma2Gemm* gemm) {
  Gemma2Gemm::Chunk chunk;
  const size_t count = gemm->chunks.size() + 1;
  chunk.key = gemm->files.key + (count == 1 ? "" : "_x" + std::to_string(count));
  chunk.line = record.line();
  NPUSEG_ASSIGN_OR_RETURN(chunk.insts, record.path("insts"));
  NPUSEG_ASSIGN_OR_RETURN(chunk.a_elems, record.integer("a_elems"));
  NPUSEG_ASSIGN_OR_RETURN(chunk.c_elems, record.integer("c_elems"));
  // The views begin at a column, so A's may be as long as whole rows.
  const size_t rows = count * gemm->m;
  if (rows > kMostSize || chunk.a_elems < (rows - 1) * gemm->lda + gemm->k ||
      chunk.a_elems > rows * gemm->lda || chunk.c_elems < (rows - 1) * gemm->c_stride + 1 ||
      chunk.c_elems > rows * gemm->c_stride) {
    return record.refuse(format("a_elems or c_elems is not that of %zu rows of %zu and %zu", rows,
                                gemm->lda, gemm->c_stride));
  }
  gemm->chunks.push_back(std::move(chunk));
  return {};
}

Status read_gemm(const Record& record, const Manifest& manifest, Gemma2Manifest* out) {
  Gemma2Gemm gemm;
  NPUSEG_ASSIGN_OR_RETURN(gemm.files, read_kernel_files(record, true, manifest));
  const struct {
    const char* name;
    size_t* value;
    bool needed;
  } sizes[] = {{"M", &gemm.m, true},
               {"K", &gemm.k, true},
               {"N", &gemm.n, true},
               {"lda", &gemm.lda, true},
               {"c_stride", &gemm.c_stride, true},
               {"tile_k", &gemm.tile_k, false},
               {"tile_n", &gemm.tile_n, false},
               {"ct_k", &gemm.ct_k, false}};
  for (const auto& size : sizes) {
    if (!size.needed && record.find(size.name) == nullptr) continue;
    NPUSEG_ASSIGN_OR_RETURN(*size.value, record.size(size.name));
  }
  if (gemm.lda < gemm.k) return record.refuse("lda is below K");
  NPUSEG_RETURN_IF_ERROR(read_chunk(record, &gemm));
  if (!out->gemms.try_emplace(gemm.files.key, gemm).second) {
    return record.refuse("gemm " + gemm.files.key + " defined twice");
  }
  return {};
}

Status read_chunks(const Record& record, Gemma2Manifest* out) {
  NPUSEG_RETURN_IF_ERROR(record.need_fields(2));
  const auto at = out->gemms.find(record.field(0));
  if (at == out->gemms.end()) {
    return record.refuse("gemm_chunks " + record.field(0) + " before its gemm");
  }
  NPUSEG_ASSIGN_OR_RETURN(const size_t count, record.integer_field(1));
  if (count != at->second.chunks.size() + 1) {
    return record.refuse("gemm_chunks " + record.field(0) + " " + record.field(1) +
                         " out of order");
  }
  return read_chunk(record, &at->second);
}

Status read_mha(const Record& record, const Manifest& manifest, Gemma2Manifest* out) {
  Gemma2Mha mha;
  NPUSEG_ASSIGN_OR_RETURN(mha.files, read_kernel_files(record, true, manifest));
  NPUSEG_ASSIGN_OR_RETURN(mha.rows, record.integer_field(0));
  mha.files.key = "mha_" + std::to_string(mha.rows);
  const Gemma2Params& p = out->params;
  if (mha.rows == 0 || mha.rows > p.v_rows) {
    return record.refuse(
        format("a bucket of %zu rows, the buffers have v.rows %zu", mha.rows, p.v_rows));
  }
  const size_t wide = mha.rows * 3 * p.v_dim;
  const struct {
    const char* name;
    size_t* value;
    size_t most;
    size_t least;
  } views[] = {{"q_elems", &mha.q_elems, wide, (mha.rows - 1) * 3 * p.v_dim + p.v_dim},
               {"k_elems", &mha.k_elems, wide, (mha.rows - 1) * 3 * p.v_dim + 2 * p.v_dim},
               {"v_elems", &mha.v_elems, wide, wide},
               {"o_elems", &mha.o_elems, mha.rows * p.v_dim, mha.rows * p.v_dim}};
  for (const auto& view : views) {
    NPUSEG_ASSIGN_OR_RETURN(*view.value, record.integer(view.name));
    if (*view.value < view.least || *view.value > view.most) {
      return record.refuse(format("%s is %zu, between %zu and %zu is possible", view.name,
                                  *view.value, view.least, view.most));
    }
  }
  NPUSEG_ASSIGN_OR_RETURN(mha.kv_words, record.words("kv_words"));
  NPUSEG_ASSIGN_OR_RETURN(mha.win_words, record.words("win_words"));
  for (const Gemma2Mha& other : out->mhas) {
    if (other.rows == mha.rows) return record.refuse("mha " + record.field(0) + " defined twice");
  }
  out->mhas.push_back(std::move(mha));
  return {};
}

Status read_texts(const Record& record, Gemma2Manifest* out) {
  const std::string& tag = record.tag();
  if (tag == "added") {
    NPUSEG_RETURN_IF_ERROR(record.need_fields(2));
    NPUSEG_ASSIGN_OR_RETURN(const size_t id, record.integer_field(0));
    NPUSEG_ASSIGN_OR_RETURN(std::string text, decode_hex_text(record.field(1), record));
    out->added_tokens.emplace_back(id, std::move(text));
  } else if (tag == "prompt") {
    NPUSEG_RETURN_IF_ERROR(record.need_fields(2));
    NPUSEG_ASSIGN_OR_RETURN(std::string text, decode_hex_text(record.field(1), record));
    for (const auto& [name, other] : out->prompts) {
      if (name == record.field(0)) return record.refuse("prompt " + name + " defined twice");
    }
    out->prompts.emplace_back(record.field(0), std::move(text));
  } else if (tag == "ref") {
    NPUSEG_RETURN_IF_ERROR(record.need_fields(1));
    Gemma2Picture picture;
    picture.name = record.field(0);
    NPUSEG_ASSIGN_OR_RETURN(picture.width, record.integer("w"));
    NPUSEG_ASSIGN_OR_RETURN(picture.height, record.integer("h"));
    out->pictures.push_back(std::move(picture));
  } else if (tag == "text") {
    NPUSEG_RETURN_IF_ERROR(record.need_fields(2));
    NPUSEG_ASSIGN_OR_RETURN(std::string text, decode_hex_text(record.field(1), record));
    out->texts.push_back({record.field(0), std::move(text)});
  } else if (tag == "tref") {
    NPUSEG_RETURN_IF_ERROR(record.need_fields(3));
    Gemma2TextCase one;
    NPUSEG_ASSIGN_OR_RETURN(one.index, record.integer_field(0));
    one.prompt = record.field(1);
    NPUSEG_ASSIGN_OR_RETURN(one.text, decode_hex_text(record.field(2), record));
    out->text_cases.push_back(std::move(one));
  }
  return {};
}

Status check_kernels(const Manifest& manifest, const Gemma2Manifest& m) {
  const auto refuse = [&](const std::string& why) { return manifest.refuse(why); };
  const Gemma2Params& p = m.params;
  struct Wanted {
    std::string key;
    size_t k, n, lda, c_stride;
  };
  const size_t v = p.v_dim;
  const size_t d = p.dim;
  std::vector<Wanted> all = {{"v_patch", v, v, v, v},
                             {"v_qkv", v, 3 * v, v, 3 * v},
                             {"v_o", v, v, v, v},
                             {"v_gu", v, 2 * p.v_inner, v, 0},
                             {"v_down", v, v, 0, v},
                             {"v_ev", v, d, v, d},
                             {"t_ple", d, p.layers * d, d, p.layers * d},
                             {"t_o", d, d, p.o_width, d},
                             {"t_gu", d, 2 * p.inner, d, 0},
                             {"t_down", d, d, 0, d},
                             {"t_pleg", d, d, d, d},
                             {"t_plep", d, d, d, d}};
  std::set<size_t> widths;
  for (size_t i = 0; i < p.layers; ++i) widths.insert(p.qkv_width(i));
  for (const size_t width : widths) {
    all.push_back({"t_qkv" + std::to_string(width), d, width, d, width});
  }
  for (const Wanted& one : all) {
    const auto at = m.gemms.find(one.key);
    if (at == m.gemms.end()) return refuse("no GEMM " + one.key);
    const Gemma2Gemm& gemm = at->second;
    if (gemm.k != one.k || gemm.n != one.n || (one.lda != 0 && gemm.lda != one.lda) ||
        (one.c_stride != 0 && gemm.c_stride != one.c_stride)) {
      return refuse(
          format("gemm %s has K %zu, N %zu, lda %zu, c_stride %zu, the params ask for K "
                 "%zu, N %zu",
                 one.key.c_str(), gemm.k, gemm.n, gemm.lda, gemm.c_stride, one.k, one.n));
    }
  }
  for (const auto& [gu, down, inner] :
       {std::tuple("v_gu", "v_down", p.v_inner), std::tuple("t_gu", "t_down", p.inner)}) {
    const size_t stride = m.gemms.find(gu)->second.c_stride;
    if (stride < inner || m.gemms.find(down)->second.lda != stride) {
      return refuse(format("lda of %s must be c_stride of %s, at least %zu", down, gu, inner));
    }
  }
  if (m.mhas.empty()) return refuse("no MHA");
  return {};
}

}  // namespace

Result<Gemma2Manifest> Gemma2Manifest::read(const Manifest& manifest) {
  Gemma2Manifest out;
  NPUSEG_RETURN_IF_ERROR(manifest.version({1}).status());
  NPUSEG_RETURN_IF_ERROR(read_params(manifest, &out.params));
  NPUSEG_RETURN_IF_ERROR(check_params(manifest, out.params));
  for (const Record& record : manifest.records()) {
    if (record.tag() == "gemm") {
      NPUSEG_RETURN_IF_ERROR(read_gemm(record, manifest, &out));
    } else if (record.tag() == "gemm_chunks") {
      NPUSEG_RETURN_IF_ERROR(read_chunks(record, &out));
    } else if (record.tag() == "mha") {
      NPUSEG_RETURN_IF_ERROR(read_mha(record, manifest, &out));
    } else {
      NPUSEG_RETURN_IF_ERROR(read_texts(record, &out));
    }
  }
  std::sort(out.mhas.begin(), out.mhas.end(),
            [](const Gemma2Mha& a, const Gemma2Mha& b) { return a.rows < b.rows; });
  NPUSEG_RETURN_IF_ERROR(check_kernels(manifest, out));
  return out;
}

std::vector<KernelFiles> Gemma2Manifest::kernels() const {
  std::vector<KernelFiles> all;
  for (const auto& [key, gemm] : gemms) {
    for (const Gemma2Gemm::Chunk& chunk : gemm.chunks) {
      KernelFiles files = gemm.files;
      files.key = chunk.key;
      files.insts = chunk.insts;
      files.line = chunk.line;
      all.push_back(std::move(files));
    }
  }
  for (const Gemma2Mha& mha : mhas) all.push_back(mha.files);
  return all;
}

std::vector<Gemma2Manifest::PackedWeight> Gemma2Manifest::packed_weights() const {
  const Gemma2Params& p = params;
  std::vector<PackedWeight> all = {{"v.patch", "v_patch"}, {"v.ev", "v_ev"}, {"t.ple", "t_ple"}};
  for (size_t i = 0; i < p.v_layers; ++i) {
    const std::string layer = "v" + std::to_string(i) + ".";
    all.push_back({layer + "qkv", "v_qkv"});
    all.push_back({layer + "o", "v_o"});
    all.push_back({layer + "gu", "v_gu"});
    for (size_t s = 0; s < p.v_inner / p.v_dim; ++s) {
      all.push_back({layer + "down" + std::to_string(s), "v_down"});
    }
  }
  for (size_t i = 0; i < p.layers; ++i) {
    const std::string layer = "t" + std::to_string(i) + ".";
    all.push_back({layer + "qkv", "t_qkv" + std::to_string(p.qkv_width(i))});
    for (size_t s = 0; s < p.heads * p.head_dims[i] / p.dim; ++s) {
      all.push_back({layer + "o" + std::to_string(s), "t_o"});
    }
    all.push_back({layer + "gu", "t_gu"});
    for (size_t s = 0; s < p.inner / p.dim; ++s) {
      all.push_back({layer + "down" + std::to_string(s), "t_down"});
    }
    all.push_back({layer + "pleg", "t_pleg"});
    all.push_back({layer + "plep", "t_plep"});
  }
  return all;
}

std::vector<NeededTensor> Gemma2Manifest::tensors() const {
  const Gemma2Params& p = params;
  std::vector<NeededTensor> all;
  const auto floats = [&](const std::string& name, core::Shape shape) {
    NeededTensor& tensor = all.emplace_back();
    tensor.name = name;
    tensor.shape = shape;
  };
  for (size_t i = 0; i < p.v_layers; ++i) {
    const std::string layer = "v" + std::to_string(i) + ".";
    floats(layer + "q_norm", {p.v_head_dim});
    floats(layer + "k_norm", {p.v_head_dim});
    floats(layer + "post_attn", {p.v_dim});
    floats(layer + "post_ff", {p.v_dim});
  }
  floats("t.ple_norm", {p.dim});
  for (size_t i = 0; i < p.layers; ++i) {
    const std::string layer = "t" + std::to_string(i) + ".";
    floats(layer + "q_norm", {p.head_dims[i]});
    floats(layer + "k_norm", {p.head_dims[i]});
    for (const char* norm : {"post_attn", "post_ff", "post_ple"}) floats(layer + norm, {p.dim});
  }
  floats("t.layer_scalar", {p.layers});
  floats("t.norm", {p.dim});
  floats("t.tok", {4, p.dim});
  floats("t.proj", {p.out, p.dim});
  return all;
}

}  // namespace npuseg::bundle

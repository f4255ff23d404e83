// SPDX-License-Identifier: Apache-2.0
#include "npu/soft/checks.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "bundle/bfp16.h"
#include "bundle/instructions.h"
#include "npu/soft/kernels.h"

namespace npuseg::npu::soft {

using core::Code;
using core::format;
using core::Result;
using core::Status;

namespace {

// Far above every model; products of two stay far below an overflow.
constexpr size_t kMost = size_t{1} << 26;
// Of the published GEMM.
constexpr size_t kUsualTile = 64;
constexpr size_t kUsualSlice = 128;

Status refuse(const std::string& key, const std::string& why) {
  return {Code::kCorruptData,
          "cannot use bundle: kernel " + key + ": " + why + "; export the bundle again"};
}

struct Size {
  const char* name;
  size_t value;
};

Status check_sizes(const std::string& key, std::initializer_list<Size> sizes) {
  for (const Size& size : sizes) {
    if (size.value == 0 || size.value > kMost) {
      return refuse(
          key, format("%s is %zu, between 1 and %zu is possible", size.name, size.value, kMost));
    }
  }
  return {};
}

Status check(const std::string& key, const Gemm& gemm) {
  NPUSEG_RETURN_IF_ERROR(check_sizes(key, {{"M", gemm.rows},
                                           {"K", gemm.k},
                                           {"N", gemm.n},
                                           {"lda", gemm.lda},
                                           {"c_stride", gemm.c_stride}}));
  NPUSEG_RETURN_IF_ERROR(bundle::check_layout(packed_layout(gemm), "kernel " + key));
  if (gemm.c_stride < gemm.out_columns()) {
    return refuse(key, format("c_stride %zu is below the %zu columns of the result", gemm.c_stride,
                              gemm.out_columns()));
  }
  if (gemm.pair && (gemm.bias || gemm.activation != GemmActivation::kNone)) {
    return refuse(key, "pairs of gate and value with a bias or an activation are unknown");
  }
  return {};
}

Status check(const std::string& key, const Attention& attention) {
  NPUSEG_RETURN_IF_ERROR(check_sizes(key, {{"windows", attention.windows},
                                           {"length", attention.length},
                                           {"heads", attention.heads},
                                           {"head size", attention.head_dim}}));
  NPUSEG_RETURN_IF_ERROR(check_sizes(key, {{"rows", attention.windows * attention.length},
                                           {"width", attention.heads * attention.head_dim}}));
  for (const HeadRows* rows : {&attention.q, &attention.k, &attention.v, &attention.o}) {
    NPUSEG_RETURN_IF_ERROR(
        check_sizes(key, {{"stride", rows->stride}, {"offset + 1", rows->first + 1}}));
    if (rows->stride < attention.heads * attention.head_dim) {
      return refuse(key, format("rows of %zu columns cannot lie %zu apart",
                                attention.heads * attention.head_dim, rows->stride));
    }
  }
  if (!attention.key_words.empty() && attention.windows != 1) {
    return refuse(key, "a patched number of keys with several windows is unknown");
  }
  if (!(attention.scale > 0.0f)) return refuse(key, "the scale of scores is not positive");
  return {};
}

Status check(const std::string& key, const Rope& rope) {
  NPUSEG_RETURN_IF_ERROR(check_sizes(key, {{"rows", rope.rows},
                                           {"heads", rope.heads},
                                           {"head size", rope.head_dim},
                                           {"columns", rope.heads * rope.head_dim},
                                           {"stride", rope.in_stride},
                                           {"stride", rope.out_stride}}));
  const size_t columns = rope.heads * rope.head_dim;
  if (rope.head_dim % 2 != 0 || rope.in_stride < columns || rope.out_stride < columns) {
    return refuse(key, format("heads of %zu columns, rows %zu and %zu apart do not fit together",
                              rope.head_dim, rope.in_stride, rope.out_stride));
  }
  return {};
}

Status check(const std::string& key, const AddNorm& norm) {
  return check_sizes(key, {{"rows", norm.rows}, {"columns", norm.columns}});
}

uint32_t word(size_t value) { return static_cast<uint32_t>(value); }

uint32_t first_word(const std::vector<uint32_t>& words) { return words.empty() ? 0 : words[0]; }

// Words of a trailer that say what the manifest says too, by the manifest.
std::vector<uint32_t> expected(const Gemm& gemm) {
  return {word(gemm.rows),   word(gemm.k),        word(gemm.n),
          word(gemm.lda),    word(gemm.c_stride), word(gemm.tile_k),
          word(gemm.tile_n), word(gemm.ct_k),     gemm.bias ? 1u : 0u};
}

std::vector<uint32_t> expected(const Attention& a) {
  return {word(a.windows),
          word(a.length),
          word(a.heads),
          word(a.head_dim),
          word(a.q.first),
          word(a.q.stride),
          word(a.k.first),
          word(a.k.stride),
          word(a.v.first),
          word(a.v.stride),
          word(a.o.first),
          word(a.o.stride),
          std::bit_cast<uint32_t>(a.scale),
          a.base2 ? 1u : 0u,
          first_word(a.key_words),
          first_word(a.window_words)};
}

std::vector<uint32_t> expected(const Rope& rope) {
  return {word(rope.rows), word(rope.heads), word(rope.head_dim), word(rope.in_stride),
          word(rope.out_stride)};
}

std::vector<uint32_t> expected(const AddNorm& norm) {
  return {word(norm.rows), word(norm.columns), std::bit_cast<uint32_t>(norm.eps),
          norm.residual_f32 ? 1u : 0u};
}

constexpr size_t kPairParam = 10;

uint32_t trailer_kind(const Operation& operation) {
  return static_cast<uint32_t>(operation.index()) + bundle::StreamTrailer::kGemm;
}

Status confirm_trailer(const std::string& key, const Operation& operation,
                       const bundle::StreamTrailer& trailer) {
  if (trailer.kind != trailer_kind(operation)) {
    return refuse(key,
                  format("the manifest says %s, its instruction stream is of another kind (%u)",
                         operation_name(operation), trailer.kind));
  }
  const std::vector<uint32_t> wanted =
      std::visit([](const auto& kind) { return expected(kind); }, operation);
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (i < trailer.params.size() && trailer.params[i] == wanted[i]) continue;
    return refuse(key, format("value %zu of its instruction stream's description is %u, by the "
                              "manifest it should be %u",
                              i, i < trailer.params.size() ? trailer.params[i] : 0, wanted[i]));
  }
  const auto* gemm = std::get_if<Gemm>(&operation);
  if (gemm != nullptr && trailer.params.size() > kPairParam &&
      (trailer.params[kPairParam] != 0) != gemm->pair) {
    return refuse(key, "the instruction stream disagrees about pairs of gate and value");
  }
  return {};
}

const char* activation_name(GemmActivation activation) {
  switch (activation) {
    case GemmActivation::kRelu:
      return "ReLU";
    case GemmActivation::kGeluTanh:
      return "tanh-GELU";
    case GemmActivation::kNone:
      break;
  }
  return "no activation";
}

// Numbers of activations that are not known for sure may be any that means nothing else.
Status confirm_activation(const std::string& key, const Gemm& gemm,
                          std::span<const unsigned char> stream) {
  const std::optional<uint32_t> mode = bundle::find_epilogue(stream);
  if (!mode || gemm.pair) return {};
  bool same = true;
  switch (gemm.activation) {
    case GemmActivation::kNone:
      same = *mode == bundle::kEpilogueNone;
      break;
    case GemmActivation::kGeluTanh:
      same = *mode == bundle::kEpilogueGeluTanh;
      break;
    case GemmActivation::kRelu:
      same = *mode >= bundle::kEpilogueRelu && *mode != bundle::kEpilogueGeluTanh;
      break;
  }
  if (same) return {};
  return refuse(key, format("the kernel should have %s, its instruction stream says activation %u",
                            activation_name(gemm.activation), *mode));
}

void complete(const std::string& key, const std::optional<bundle::StreamTrailer>& trailer,
              const core::Logger& log, Gemm* gemm) {
  if (gemm->tile_n != 0) return;
  if (trailer && trailer->kind == bundle::StreamTrailer::kGemm && trailer->params.size() > 7) {
    gemm->tile_k = trailer->params[5];
    gemm->tile_n = trailer->params[6];
    gemm->ct_k = trailer->params[7];
    return;
  }
  gemm->tile_n = kUsualTile;
  gemm->ct_k = gemm->tile_k = kUsualSlice;
  log(core::LogLevel::kWarn, "npu.soft",
      format("kernel %s: the bundle does not say in which order its weights are packed; taking "
             "tiles of %zu columns and slices of %zu inputs; check results with the bundle's "
             "references",
             key.c_str(), kUsualTile, kUsualSlice));
}

}  // namespace

Result<Operation> complete_operation(const std::string& key, const Operation& operation,
                                     std::span<const unsigned char> stream,
                                     const core::Logger& log) {
  Operation completed = operation;
  const std::optional<bundle::StreamTrailer> trailer = bundle::find_trailer(stream);
  if (auto* gemm = std::get_if<Gemm>(&completed)) {
    complete(key, trailer, log, gemm);
    NPUSEG_RETURN_IF_ERROR(confirm_activation(key, *gemm, stream));
  }
  NPUSEG_RETURN_IF_ERROR(std::visit([&](const auto& kind) { return check(key, kind); }, completed));
  if (trailer) NPUSEG_RETURN_IF_ERROR(confirm_trailer(key, completed, *trailer));
  return completed;
}

ArgumentNeed argument_need(const Operation& operation, size_t index) {
  constexpr size_t kHalf = sizeof(uint16_t);
  if (const auto* gemm = std::get_if<Gemm>(&operation)) {
    if (index == 0) return {gemm->a_elements() * kHalf, kHalf};
    if (index == 1) return {packed_layout(*gemm).bytes(), 1};
    return {gemm->c_elements() * kHalf, kHalf};
  }
  if (const auto* attention = std::get_if<Attention>(&operation)) {
    const HeadRows* rows[] = {&attention->q, &attention->k, &attention->v, &attention->o};
    return {attention->elements(*rows[index]) * kHalf, kHalf};
  }
  if (const auto* rope = std::get_if<Rope>(&operation)) {
    const size_t columns = rope->heads * rope->head_dim;
    if (index == 1) return {rope->rows * rope->head_dim * kHalf, kHalf};
    const size_t stride = index == 0 ? rope->in_stride : rope->out_stride;
    return {((rope->rows - 1) * stride + columns) * kHalf, kHalf};
  }
  const auto& norm = std::get<AddNorm>(operation);
  const bool residual = index == 0 || index == 2;
  const size_t value = residual && norm.residual_f32 ? sizeof(float) : kHalf;
  return {norm.rows * norm.columns * value, value};
}

Result<size_t> weight_planes(const std::string& key, const Gemm& gemm,
                             std::span<const unsigned char> b) {
  const bundle::PackedLayout layout = packed_layout(gemm);
  const size_t plane = layout.bytes();
  if (b.size() == plane) return size_t{1};
  if (b.size() != 2 * plane || gemm.bias) {
    return refuse(key, format("its weights have %zu bytes; %zu x %zu values%s take %zu, or twice "
                              "that when split",
                              b.size(), gemm.k, gemm.n, gemm.bias ? " with biases" : "", plane));
  }
  // What is left of a value is at most half a unit of its block, or of a saturated 127.
  for (size_t at = 0; at < plane; at += bundle::kBlockBytes) {
    float high[bundle::kBlockValues];
    float low[bundle::kBlockValues];
    bundle::unpack_block(b.data() + at, high);
    bundle::unpack_block(b.data() + plane + at, low);
    const float unit = std::ldexp(1.0f, static_cast<int>(b[at]) - 133);
    for (size_t i = 0; i < bundle::kBlockValues; ++i) {
      const auto mantissa = static_cast<int8_t>(b[at + 1 + i]);
      const float most = mantissa == 127 ? unit : unit / 2;
      if (b[at] != 0 && std::fabs(low[i]) > most) {
        return refuse(key,
                      "the second half of its weights is not what rounding to the first half "
                      "leaves; the order of split weights must be another one");
      }
    }
  }
  return size_t{2};
}

}  // namespace npuseg::npu::soft

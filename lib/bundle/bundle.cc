// SPDX-License-Identifier: Apache-2.0
#include "bundle/bundle.h"

#include <algorithm>
#include <set>
#include <utility>

#include "bundle/instructions.h"
#include "bundle/xclbin.h"

namespace npuseg::bundle {

using core::Code;
using core::DType;
using core::format;
using core::Result;
using core::Status;

namespace {

Status refuse(const std::string& where, const std::string& why,
              const char* remedy = "export the bundle again") {
  return {Code::kCorruptData, "cannot use bundle: " + where + ": " + why + "; " + remedy};
}

Result<Manifest> read_manifest(const std::string& directory) {
  const std::string path = core::join_path(directory, "manifest.txt");
  NPUSEG_ASSIGN_OR_RETURN(const std::string text, core::read_file(path, kMaxManifestBytes));
  return Manifest::parse(text, path);
}

Result<BundleKind> kind_of(const Manifest& manifest) {
  if (manifest.find_param("v.D") != nullptr) return BundleKind::kEmbeddingGemma2;
  if (manifest.find_param("queries") != nullptr || manifest.find_param("vit_dim") != nullptr) {
    return BundleKind::kSam3;
  }
  // An empty or cut file is better told by its missing version than by its missing params.
  NPUSEG_RETURN_IF_ERROR(manifest.version({1, 2}).status());
  return Status(Code::kUnsupported,
                "cannot use bundle: " + manifest.where() +
                    ": of a model that is neither SAM 3 nor EmbeddingGemma 2; use a bundle of one "
                    "of these");
}

// Tensors of SAM 3 whose size the params do not give alone.
Status check_sam3_shapes(const Sam3Manifest& manifest, const Tensors& tensors) {
  const auto& p = manifest.params;
  const StoredTensor* embedding = tensors.find("t.tok_emb");
  if (embedding == nullptr) return refuse(tensors.index_path(), "tensor t.tok_emb is missing");
  const core::Shape& shape = embedding->view.shape;
  if (embedding->view.dtype != DType::kBF16 || shape.rank != 2 || shape[1] != p.text_dim ||
      shape[0] == 0) {
    return refuse(tensors.index_path(),
                  format("tensor t.tok_emb is not a BF16 table of %zu columns", p.text_dim));
  }
  for (const auto& [name, id] :
       {std::pair("bos", p.bos), std::pair("eos", p.eos), std::pair("pad", p.pad)}) {
    if (id >= shape[0]) {
      return refuse(tensors.index_path(),
                    format("t.tok_emb has %zu rows, param %s is %zu", shape[0], name, id));
    }
  }
  const StoredTensor* first = tensors.find("score.text_mlp.1.w");
  if (first == nullptr || first->view.shape.elements() % p.d_model != 0 ||
      first->view.shape.elements() == 0) {
    return refuse(tensors.index_path(), "tensor score.text_mlp.1.w is missing or of odd size");
  }
  const size_t width = first->view.shape.elements() / p.d_model;
  NPUSEG_RETURN_IF_ERROR(
      tensors.get("score.text_mlp.1.w", DType::kF32, {width, p.d_model}).status());
  NPUSEG_RETURN_IF_ERROR(
      tensors.get("score.text_mlp.2.w", DType::kF32, {p.d_model, width}).status());
  for (const auto& [name, size] :
       {std::pair("score.text_mlp.1.b", width), std::pair("score.text_mlp.2.b", p.d_model)}) {
    if (tensors.find(name) == nullptr) continue;
    NPUSEG_RETURN_IF_ERROR(tensors.get(name, DType::kF32, {size}).status());
  }
  return {};
}

// The same of EmbeddingGemma 2: tables with their own row counts, weights of one or two planes.
Status check_gemma2_shapes(const Gemma2Manifest& manifest, const Tensors& tensors) {
  const auto& p = manifest.params;
  for (const auto& weight : manifest.packed_weights()) {
    const Gemma2Gemm& gemm = manifest.gemms.find(weight.gemm)->second;
    const size_t plane = gemm.k * gemm.n / kBlockValues * kBlockBytes;
    const StoredTensor* tensor = tensors.find(weight.name);
    if (tensor != nullptr && tensor->view.bytes() == 2 * plane) continue;
    NPUSEG_RETURN_IF_ERROR(tensors.packed(weight.name, plane).status());
  }
  const auto table = [&](const char* name, size_t rank) -> Status {
    const StoredTensor* tensor = tensors.find(name);
    if (tensor == nullptr) {
      return refuse(tensors.index_path(), format("tensor %s is missing", name));
    }
    const core::Shape& shape = tensor->view.shape;
    const size_t columns = rank == 3 ? p.v_dim : p.dim;
    if (tensor->view.dtype != DType::kBF16 || shape.rank != rank || shape[rank - 1] != columns ||
        (rank == 3 && shape[0] != 2) || shape[rank - 2] == 0) {
      return refuse(tensors.index_path(),
                    format("tensor %s is not a BF16 table of %zu columns", name, columns));
    }
    return {};
  };
  NPUSEG_RETURN_IF_ERROR(table("v.pos", 3));
  if (p.max_text_tokens == 0 && tensors.find("tok.vocab") == nullptr) return {};
  NPUSEG_RETURN_IF_ERROR(table("t.embed", 2));
  const size_t vocabulary = tensors.find("t.embed")->view.shape[0];
  NPUSEG_RETURN_IF_ERROR(tensors.get("tok.vocab_off", DType::kI32, {vocabulary + 1}).status());
  const StoredTensor* merges = tensors.find("tok.merges");
  const StoredTensor* text = tensors.find("tok.vocab");
  if (merges == nullptr || merges->view.dtype != DType::kI32 ||
      merges->view.shape.elements() % 3 != 0) {
    return refuse(tensors.index_path(), "tensor tok.merges is missing or not I32 [n, 3]");
  }
  if (text == nullptr || text->view.dtype != DType::kU8) {
    return refuse(tensors.index_path(), "tensor tok.vocab is missing or not U8");
  }
  if (!p.bos || !p.eos || *p.bos >= vocabulary || *p.eos >= vocabulary) {
    return refuse(
        tensors.index_path(),
        format("params bos and eos are not ids below the %zu rows of t.embed", vocabulary));
  }
  return {};
}

}  // namespace

bool Bundle::is_bundle(const std::string& directory) {
  return core::file_exists(core::join_path(directory, "manifest.txt"));
}

Result<BundleKind> Bundle::probe(const std::string& directory) {
  NPUSEG_ASSIGN_OR_RETURN(const Manifest manifest, read_manifest(directory));
  return kind_of(manifest);
}

Result<Bundle> Bundle::open(const std::string& directory) {
  Bundle bundle;
  bundle.directory_ = directory;
  NPUSEG_ASSIGN_OR_RETURN(bundle.manifest_, read_manifest(directory));
  NPUSEG_ASSIGN_OR_RETURN(const BundleKind kind, kind_of(bundle.manifest_));
  if (kind == BundleKind::kSam3) {
    NPUSEG_ASSIGN_OR_RETURN(bundle.sam3_, Sam3Manifest::read(bundle.manifest_));
    bundle.kernels_ = bundle.sam3_->kernels();
  } else {
    NPUSEG_ASSIGN_OR_RETURN(bundle.gemma2_, Gemma2Manifest::read(bundle.manifest_));
    bundle.kernels_ = bundle.gemma2_->kernels();
  }
  std::sort(bundle.kernels_.begin(), bundle.kernels_.end(),
            [](const KernelFiles& a, const KernelFiles& b) { return a.key < b.key; });
  const auto twin =
      std::adjacent_find(bundle.kernels_.begin(), bundle.kernels_.end(),
                         [](const KernelFiles& a, const KernelFiles& b) { return a.key == b.key; });
  if (twin != bundle.kernels_.end()) {
    return bundle.manifest_.refuse("kernel " + twin->key + " defined twice");
  }
  NPUSEG_ASSIGN_OR_RETURN(bundle.tensors_,
                          Tensors::open(core::join_path(directory, "tensors.txt"),
                                        core::join_path(directory, "tensors.bin")));
  NPUSEG_RETURN_IF_ERROR(bundle.check_tensors());
  NPUSEG_RETURN_IF_ERROR(bundle.open_kernels());
  return bundle;
}

Status Bundle::check_tensors() const {
  for (const NeededTensor& needed : sam3_ ? sam3_->tensors() : gemma2_->tensors()) {
    if (needed.optional && tensors_.find(needed.name) == nullptr) continue;
    NPUSEG_RETURN_IF_ERROR(needed.packed_bytes != 0
                               ? tensors_.packed(needed.name, needed.packed_bytes).status()
                               : tensors_.get(needed.name, needed.dtype, needed.shape).status());
  }
  return sam3_ ? check_sam3_shapes(*sam3_, tensors_) : check_gemma2_shapes(*gemma2_, tensors_);
}

Status Bundle::open_kernels() {
  std::map<std::string, std::vector<std::string>> names;  // of the kernels in an xclbin
  for (const KernelFiles& kernel : kernels_) {
    const std::string place = format("%s:%zu", manifest_.where().c_str(), kernel.line);
    const std::string file = path(kernel.xclbin);
    if (names.find(kernel.xclbin) == names.end()) {
      Result<core::MappedFile> mapped = core::MappedFile::open(file);
      if (!mapped.ok()) return std::move(mapped).status().with_context(place);
      NPUSEG_ASSIGN_OR_RETURN(Xclbin xclbin, parse_xclbin(mapped.value().bytes(), file));
      names[kernel.xclbin] = std::move(xclbin.kernels);
    }
    const std::vector<std::string>& known = names[kernel.xclbin];
    if (!known.empty() &&
        std::find(known.begin(), known.end(), kernel.kernel_name) == known.end()) {
      return refuse(place, "kernel " + kernel.key + " asks for " + kernel.kernel_name + ", " +
                               file + " has " + known.front());
    }
    if (instructions_.find(kernel.insts) != instructions_.end()) continue;
    Result<core::MappedFile> mapped = core::MappedFile::open(path(kernel.insts));
    if (!mapped.ok()) return std::move(mapped).status().with_context(place);
    NPUSEG_RETURN_IF_ERROR(check_stream(mapped.value().bytes(), path(kernel.insts)));
    instructions_.emplace(kernel.insts, std::move(mapped).value());
  }
  if (!gemma2_) return {};
  for (const Gemma2Mha& mha : gemma2_->mhas) {
    const size_t words = instructions(mha.files.key).size() / 4;
    for (const auto* list : {&mha.kv_words, &mha.win_words}) {
      for (const uint32_t word : *list) {
        if (word >= words) {
          return refuse(format("%s:%zu", manifest_.where().c_str(), mha.files.line),
                        format("instruction word %u is past the stream of %zu words", word, words));
        }
      }
    }
  }
  return {};
}

const KernelFiles* Bundle::find_kernel(std::string_view key) const {
  const auto at = std::lower_bound(
      kernels_.begin(), kernels_.end(), key,
      [](const KernelFiles& kernel, std::string_view wanted) { return kernel.key < wanted; });
  return at == kernels_.end() || at->key != key ? nullptr : &*at;
}

std::span<const unsigned char> Bundle::instructions(std::string_view key) const {
  const KernelFiles* kernel = find_kernel(key);
  if (kernel == nullptr) return {};
  const auto at = instructions_.find(kernel->insts);
  return at == instructions_.end() ? std::span<const unsigned char>() : at->second.bytes();
}

std::string Bundle::path(const std::string& relative) const {
  return core::join_path(directory_, relative);
}

size_t Bundle::contexts() const {
  std::set<std::pair<std::string, std::string>> all;
  for (const KernelFiles& kernel : kernels_) all.emplace(kernel.xclbin, kernel.kernel_name);
  return all.size();
}

}  // namespace npuseg::bundle

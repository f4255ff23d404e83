// SPDX-License-Identifier: Apache-2.0
#include "bundle/tensors.h"

#include <bit>
#include <utility>

#include "bundle/manifest.h"
#include "bundle/text_forms.h"
#include "core/json.h"

namespace npuseg::bundle {

using core::Code;
using core::DType;
using core::format;
using core::Result;
using core::Status;

// Numbers of the files are little-endian and read in place.
static_assert(std::endian::native == std::endian::little);

namespace {

constexpr size_t kOffsetAlignment = 8;

Status refuse_file(
    const std::string& where, const std::string& why,
    const std::string& remedy = "the bundle is damaged or incomplete, get it again") {
  return {Code::kCorruptData, "cannot read bundle: " + where + ": " + why + "; " + remedy};
}

bool parse_dtype(std::string_view name, DType* out) {
  constexpr std::pair<std::string_view, DType> kTypes[] = {
      {"f32", DType::kF32}, {"bf16", DType::kBF16}, {"u8", DType::kU8}, {"i32", DType::kI32}};
  for (const auto& [known, type] : kTypes) {
    if (known != name) continue;
    *out = type;
    return true;
  }
  return false;
}

// Why the line is bad, empty when it is not.
std::string read_line(const std::vector<std::string>& words, std::span<const unsigned char> blob,
                      StoredTensor* tensor) {
  if (words.size() != 5) return "expected <name> <dtype> <shape> <offset> <bytes>";
  if (!parse_dtype(words[1], &tensor->view.dtype)) return "unknown dtype " + words[1];
  const size_t element = core::dtype_bytes(tensor->view.dtype);
  size_t wanted = element;
  for (const std::string& dim : split_at(words[2], ',')) {
    size_t size = 0;
    if (!parse_integer(dim, &size)) return "bad shape " + words[2];
    core::Shape& shape = tensor->view.shape;
    if (shape.rank == core::Shape::kMaxRank) {
      return format("shape %s has more than %zu dimensions", words[2].c_str(),
                    core::Shape::kMaxRank);
    }
    shape.dims[shape.rank++] = size;
    if (__builtin_mul_overflow(wanted, size, &wanted)) return "shape " + words[2] + " overflows";
  }
  size_t offset = 0;
  size_t bytes = 0;
  if (!parse_integer(words[3], &offset)) return "bad offset " + words[3];
  if (!parse_integer(words[4], &bytes)) return "bad byte count " + words[4];
  if (offset % kOffsetAlignment != 0) return "offset " + words[3] + " is not 8-byte aligned";
  if (bytes % element != 0) {
    return "byte count " + words[4] + " is not a whole number of elements";
  }
  if (bytes != wanted) {
    return format("shape and type ask for %zu bytes, the line says %zu", wanted, bytes);
  }
  if (offset > blob.size() || bytes > blob.size() - offset) {
    return format("offset %zu + size %zu runs past the end of tensors.bin (%zu bytes)", offset,
                  bytes, blob.size());
  }
  tensor->view.data = blob.data() + offset;
  return {};
}

std::string shape_text(const core::Shape& shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.rank; ++i) {
    if (i != 0) text += ", ";
    text += std::to_string(shape[i]);
  }
  return text + "]";
}

}  // namespace

Result<Tensors> Tensors::open(const std::string& index_path, const std::string& blob_path) {
  NPUSEG_ASSIGN_OR_RETURN(const std::string index, core::read_file(index_path, kMaxIndexBytes));
  NPUSEG_ASSIGN_OR_RETURN(core::MappedFile blob,
                          core::MappedFile::open(blob_path, core::MappedFile::Use::kLong));
  NPUSEG_ASSIGN_OR_RETURN(Tensors tensors, parse(index, index_path, blob.bytes(), blob_path));
  tensors.blob_ = std::move(blob);
  return tensors;
}

Result<Tensors> Tensors::parse(std::string_view index, const std::string& index_path,
                               std::span<const unsigned char> blob, const std::string& blob_path) {
  const std::string pull = "run 'git lfs pull'";
  if (core::is_lfs_pointer(index)) {
    return refuse_file(index_path, "this is a git-lfs pointer", pull);
  }
  if (core::is_lfs_pointer(blob)) return refuse_file(blob_path, "this is a git-lfs pointer", pull);
  if (!core::is_utf8(index)) return refuse_file(index_path, "is not UTF-8 text");
  Tensors tensors;
  tensors.index_path_ = index_path;
  size_t number = 0;
  for (const std::string_view line : split_lines(index)) {
    ++number;
    constexpr size_t kMostShown = 200;
    const std::string where = format("%s:%zu", index_path.c_str(), number);
    const std::string shown(line.substr(0, kMostShown));
    const std::vector<std::string> words = split_words(line);
    StoredTensor tensor;
    tensor.line = number;
    const std::string why = read_line(words, blob, &tensor);
    if (!why.empty()) return refuse_file(where, why + ", in: " + shown);
    if (!tensors.tensors_.try_emplace(words[0], tensor).second) {
      return refuse_file(where, "tensor defined twice, in: " + shown);
    }
  }
  return tensors;
}

const StoredTensor* Tensors::find(std::string_view name) const {
  const auto at = tensors_.find(name);
  return at == tensors_.end() ? nullptr : &at->second;
}

Status Tensors::refuse(const StoredTensor& tensor, const std::string& why) const {
  return refuse_file(format("%s:%zu", index_path_.c_str(), tensor.line), why,
                     "export the bundle again");
}

Result<core::TensorView> Tensors::get(std::string_view name, DType dtype,
                                      const core::Shape& shape) const {
  const StoredTensor* tensor = find(name);
  if (tensor == nullptr) {
    return refuse_file(index_path_, "tensor " + std::string(name) + " is missing");
  }
  if (tensor->view.dtype != dtype) {
    return refuse(*tensor, "tensor " + std::string(name) + " is " +
                               core::dtype_name(tensor->view.dtype) + ", wanted " +
                               core::dtype_name(dtype));
  }
  if (tensor->view.shape.elements() != shape.elements()) {
    return refuse(*tensor, "tensor " + std::string(name) + " has shape " +
                               shape_text(tensor->view.shape) + ", wanted " + shape_text(shape));
  }
  core::TensorView view = tensor->view;
  view.shape = shape;
  return view;
}

Result<std::span<const unsigned char>> Tensors::packed(std::string_view name, size_t bytes) const {
  const StoredTensor* tensor = find(name);
  if (tensor == nullptr) {
    return refuse_file(index_path_, "tensor " + std::string(name) + " is missing");
  }
  if (tensor->view.bytes() != bytes) {
    return refuse(*tensor, format("tensor %s has %zu bytes, its kernel needs %zu",
                                  std::string(name).c_str(), tensor->view.bytes(), bytes));
  }
  return tensor->bytes();
}

}  // namespace npuseg::bundle

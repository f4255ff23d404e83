// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/safetensors.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "core/json.h"

namespace npuseg::checkpoint {

using core::Code;
using core::DType;
using core::format;
using core::JsonValue;
using core::Result;
using core::Status;

namespace {

struct TypeName {
  std::string_view name;
  DType type;
  size_t bytes;  // of an element; 0 where an element is less than a byte or unknown
};

constexpr TypeName kTypes[] = {
    {"F32", DType::kF32, 4},       {"F16", DType::kF16, 2},       {"BF16", DType::kBF16, 2},
    {"F64", DType::kF64, 8},       {"I64", DType::kI64, 8},       {"I32", DType::kI32, 4},
    {"U8", DType::kU8, 1},         {"BOOL", DType::kOther, 1},    {"I8", DType::kOther, 1},
    {"I16", DType::kOther, 2},     {"U16", DType::kOther, 2},     {"U32", DType::kOther, 4},
    {"U64", DType::kOther, 8},     {"F8_E4M3", DType::kOther, 1}, {"F8_E5M2", DType::kOther, 1},
    {"F8_E8M0", DType::kOther, 1}, {"C64", DType::kOther, 8},
};

Status damaged(const std::string& where, const std::string& why) {
  return Status(Code::kCorruptData, "cannot read tensors: " + where + ": " + why +
                                        "; the file is damaged or incomplete, get it again");
}

class Reader {
 public:
  Reader(std::span<const unsigned char> data, const std::string& where)
      : data_(data), where_(where) {}

  Status read(std::string_view name, const JsonValue& value, NamedTensor* out) {
    const std::string tensor = "tensor " + std::string(name.substr(0, 200));
    if (!value.is_object()) return damaged(where_, tensor + " is not described by an object");
    std::string_view type_name;
    if (!value["dtype"].get(&type_name)) return damaged(where_, tensor + " has no dtype");
    out->name = name;
    out->entry.dtype_name = type_name;
    const auto* type = std::find_if(std::begin(kTypes), std::end(kTypes),
                                    [&](const TypeName& known) { return known.name == type_name; });
    const bool known = type != std::end(kTypes);
    out->entry.view.dtype = known ? type->type : DType::kOther;

    size_t elements = 1;
    bool deep = false;
    const JsonValue shape = value["shape"];
    if (!shape.is_array()) return damaged(where_, tensor + " has no shape");
    NPUSEG_RETURN_IF_ERROR(shape.for_each_element([&](const JsonValue& dim) -> Status {
      uint64_t size = 0;
      if (!dim.get(&size)) return damaged(where_, tensor + " has a dimension that is no count");
      if (__builtin_mul_overflow(elements, size, &elements)) {
        return damaged(where_, tensor + " has a shape whose product overflows");
      }
      core::Shape& dims = out->entry.view.shape;
      if (dims.rank == core::Shape::kMaxRank) {
        deep = true;
      } else {
        dims.dims[dims.rank++] = size;
      }
      return {};
    }));
    // More dimensions than any used tensor has: kept by name, refused when it is asked for.
    if (deep) out->entry.view.dtype = DType::kOther;

    uint64_t ends[2] = {};
    size_t count = 0;
    NPUSEG_RETURN_IF_ERROR(
        value["data_offsets"].for_each_element([&](const JsonValue& end) -> Status {
          if (count < 2 && !end.get(&ends[count])) {
            return damaged(where_, tensor + " has a data offset that is no count");
          }
          ++count;
          return {};
        }));
    if (count != 2) return damaged(where_, tensor + " needs two data offsets");
    if (ends[0] > ends[1] || ends[1] > data_.size()) {
      return damaged(where_, format("%s lies at bytes %llu to %llu of %zu present", tensor.c_str(),
                                    static_cast<unsigned long long>(ends[0]),
                                    static_cast<unsigned long long>(ends[1]), data_.size()));
    }
    size_t bytes = 0;
    if (known &&
        (__builtin_mul_overflow(elements, type->bytes, &bytes) || bytes != ends[1] - ends[0])) {
      return damaged(
          where_, format("%s holds %llu bytes, but shape and type %s ask for %zu", tensor.c_str(),
                         static_cast<unsigned long long>(ends[1] - ends[0]),
                         out->entry.dtype_name.c_str(), bytes));
    }
    out->entry.view.data = data_.data() + ends[0];
    spans_.emplace_back(ends[0], ends[1]);
    return {};
  }

  // The format leaves no hole, no overlap and nothing behind the last tensor.
  Status check_layout() {
    std::sort(spans_.begin(), spans_.end());
    uint64_t at = 0;
    for (const auto& [begin, end] : spans_) {
      if (begin < at) {
        return damaged(where_, format("two tensors overlap at data byte %llu",
                                      static_cast<unsigned long long>(begin)));
      }
      if (begin > at) {
        return damaged(where_, format("data bytes %llu to %llu belong to no tensor",
                                      static_cast<unsigned long long>(at),
                                      static_cast<unsigned long long>(begin)));
      }
      at = end;
    }
    if (at != data_.size()) {
      return damaged(where_, format("%zu bytes of data are present, the tensors take %llu",
                                    data_.size(), static_cast<unsigned long long>(at)));
    }
    return {};
  }

 private:
  std::span<const unsigned char> data_;
  const std::string& where_;
  std::vector<std::pair<uint64_t, uint64_t>> spans_;
};

}  // namespace

Result<std::vector<NamedTensor>> parse_safetensors(std::span<const unsigned char> bytes,
                                                   const std::string& where) {
  constexpr size_t kLengthBytes = 8;
  if (core::is_lfs_pointer(bytes)) {
    return Status(Code::kCorruptData,
                  "cannot read tensors: " + where +
                      ": this is a git-lfs pointer; run 'git lfs pull' to get the real file");
  }
  if (bytes.size() < kLengthBytes) {
    return damaged(where, format("%zu bytes are too few for a safetensors file", bytes.size()));
  }
  uint64_t length = 0;
  for (size_t i = 0; i < kLengthBytes; ++i) {
    length |= static_cast<uint64_t>(bytes[i]) << (8 * i);
  }
  if (length > kMaxHeaderBytes) {
    return damaged(where, format("the header claims %llu bytes, at most %zu are accepted; is this "
                                 "a safetensors file?",
                                 static_cast<unsigned long long>(length), kMaxHeaderBytes));
  }
  if (length > bytes.size() - kLengthBytes) {
    return damaged(where,
                   format("the header claims %llu bytes, %zu are present",
                          static_cast<unsigned long long>(length), bytes.size() - kLengthBytes));
  }
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()) + kLengthBytes,
                              static_cast<size_t>(length));
  NPUSEG_ASSIGN_OR_RETURN(const core::JsonDocument header,
                          core::JsonDocument::parse(text, where + " (header)"));
  if (!header.root().is_object()) return damaged(where, "the header is not an object");
  Reader reader(bytes.subspan(kLengthBytes + static_cast<size_t>(length)), where);
  std::vector<NamedTensor> tensors;
  NPUSEG_RETURN_IF_ERROR(
      header.root().for_each_member([&](std::string_view name, const JsonValue& value) -> Status {
        if (name == "__metadata__") return {};
        return reader.read(name, value, &tensors.emplace_back());
      }));
  std::sort(tensors.begin(), tensors.end(),
            [](const NamedTensor& a, const NamedTensor& b) { return a.name < b.name; });
  const auto twin = std::adjacent_find(
      tensors.begin(), tensors.end(),
      [](const NamedTensor& a, const NamedTensor& b) { return a.name == b.name; });
  if (twin != tensors.end()) return damaged(where, "tensor " + twin->name + " is there twice");
  NPUSEG_RETURN_IF_ERROR(reader.check_layout());
  return tensors;
}

}  // namespace npuseg::checkpoint

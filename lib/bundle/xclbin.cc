// SPDX-License-Identifier: Apache-2.0
#include "bundle/xclbin.h"

#include <algorithm>
#include <cstring>
#include <string_view>

#include "core/file.h"

namespace npuseg::bundle {

using core::Code;
using core::format;
using core::Result;
using core::Status;

namespace {

// Offsets of the file format.
constexpr size_t kLength = 304;
constexpr size_t kUuid = 416;
constexpr size_t kSectionCount = 448;
constexpr size_t kSectionTable = 456;
constexpr size_t kSectionBytes = 40;
constexpr uint32_t kIpLayout = 8;
constexpr uint32_t kAiePartition = 32;
constexpr size_t kPartitionBytes = 184;
constexpr size_t kPdiRecordBytes = 96;
constexpr size_t kIpRecordBytes = 80;
constexpr uint32_t kMostSections = 10000;  // as XRT

using Bytes = std::span<const unsigned char>;

template <class T>
T load(Bytes bytes, size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

bool holds(Bytes bytes, uint64_t offset, uint64_t size) {
  return offset <= bytes.size() && size <= bytes.size() - offset;
}

Status refuse(const std::string& where, const std::string& why,
              const char* remedy = "get the bundle again") {
  return {Code::kCorruptData, "cannot read kernel: " + where + ": " + why + "; " + remedy};
}

// The first section of a kind; empty data when there is none.
Result<Bytes> find_section(Bytes file, uint32_t kind, const std::string& where) {
  const auto count = load<uint32_t>(file, kSectionCount);
  for (uint32_t i = 0; i < count; ++i) {
    const size_t entry = kSectionTable + i * kSectionBytes;
    if (load<uint32_t>(file, entry) != kind) continue;
    const auto offset = load<uint64_t>(file, entry + 24);
    const auto size = load<uint64_t>(file, entry + 32);
    if (!holds(file, offset, size)) {
      return refuse(where, format("xclbin truncated: section %u lies outside the file", i));
    }
    return file.subspan(static_cast<size_t>(offset), static_cast<size_t>(size));
  }
  return Bytes{};
}

Status read_partition(Bytes part, const std::string& where, Xclbin* out) {
  if (part.size() < kPartitionBytes) {
    return refuse(where, format("AIE_PARTITION has %zu bytes, at least %zu are needed", part.size(),
                                kPartitionBytes));
  }
  out->operations_per_cycle = load<uint32_t>(part, 8);
  out->column_width = load<uint16_t>(part, 32);
  if (out->column_width == 0 || out->column_width > kNpu2Columns) {
    return refuse(
        where,
        format("made for an array of %u columns, an NPU2 has %zu", out->column_width, kNpu2Columns),
        "use a bundle for NPU2");
  }
  const auto pdis = load<uint32_t>(part, 120);
  if (pdis != 1) {
    return refuse(where, format("AIE_PARTITION holds %u PDIs, exactly one can be loaded", pdis),
                  "export the bundle again");
  }
  const auto record = load<uint32_t>(part, 124);
  if (!holds(part, record, kPdiRecordBytes)) return refuse(where, "PDI record outside the xclbin");
  const auto size = load<uint32_t>(part, record + 16);
  const auto offset = load<uint32_t>(part, record + 20);
  if (!holds(part, offset, size) || size == 0) return refuse(where, "PDI outside the xclbin");
  out->pdi = part.subspan(offset, size);
  return {};
}

Status read_kernels(Bytes layout, const std::string& where, Xclbin* out) {
  if (layout.empty()) return {};
  constexpr size_t kHeader = 8;
  const uint64_t count = layout.size() < kHeader ? UINT64_MAX : load<uint32_t>(layout, 0);
  if (count > layout.size() || !holds(layout, kHeader, count * kIpRecordBytes)) {
    return refuse(where, "IP_LAYOUT is shorter than its entries");
  }
  for (size_t i = 0; i < count; ++i) {
    const unsigned char* name = layout.data() + kHeader + i * kIpRecordBytes + 16;
    const std::string_view all(reinterpret_cast<const char*>(name), 64);
    out->kernels.emplace_back(all.substr(0, std::min(all.find('\0'), all.find(':'))));
  }
  return {};
}

}  // namespace

Result<Xclbin> parse_xclbin(Bytes bytes, const std::string& where) {
  const std::string_view begin(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (core::is_lfs_pointer(bytes)) {
    return refuse(where, "this is a git-lfs pointer", "run 'git lfs pull'");
  }
  constexpr std::string_view kMagic("xclbin2\0", 8);
  if (!begin.starts_with(kMagic)) return refuse(where, "not an xclbin (no xclbin2 magic)");
  if (bytes.size() < kSectionTable) return refuse(where, "xclbin truncated in its header");
  const auto length = load<uint64_t>(bytes, kLength);
  if (length != bytes.size()) {
    return refuse(where, format("xclbin %s: its header says %llu bytes, the file has %zu",
                                length > bytes.size() ? "truncated" : "too long",
                                static_cast<unsigned long long>(length), bytes.size()));
  }
  const auto sections = load<uint32_t>(bytes, kSectionCount);
  if (sections > kMostSections || !holds(bytes, kSectionTable, sections * kSectionBytes)) {
    return refuse(where, format("xclbin truncated: no room for its %u sections", sections));
  }
  Xclbin xclbin;
  std::copy_n(bytes.data() + kUuid, xclbin.uuid.size(), xclbin.uuid.begin());
  NPUSEG_ASSIGN_OR_RETURN(const Bytes partition, find_section(bytes, kAiePartition, where));
  if (partition.empty()) return refuse(where, "xclbin has no AIE_PARTITION section");
  NPUSEG_RETURN_IF_ERROR(read_partition(partition, where, &xclbin));
  NPUSEG_ASSIGN_OR_RETURN(const Bytes layout, find_section(bytes, kIpLayout, where));
  NPUSEG_RETURN_IF_ERROR(read_kernels(layout, where, &xclbin));
  return xclbin;
}

}  // namespace npuseg::bundle

// SPDX-License-Identifier: Apache-2.0
#include "bundle/instructions.h"

#include <cstring>
#include <string_view>

#include "core/file.h"

namespace npuseg::bundle {

using core::Code;
using core::format;
using core::Result;
using core::Status;

namespace {

constexpr size_t kHeaderBytes = 16;
constexpr uint32_t kNpu2Generation = 4;
// Cores of the array and the words of each one's first four operations.
constexpr uint32_t kCores = 32;
constexpr uint32_t kCoreWords = 24;
// Of the third operation of core 0, which writes the activation.
constexpr uint32_t kEpilogueAddress = 18;
constexpr uint32_t kEpilogueValue = 20;
constexpr uint32_t kEpilogueSize = 21;

// Operations of a transaction whose lengths are needed to walk over it.
constexpr uint32_t kWrite = 0;
constexpr uint32_t kBlockWrite = 1;
constexpr uint32_t kMaskWrite = 3;
constexpr uint32_t kMaskPoll = 4;
constexpr uint32_t kFirstCustom = 128;
constexpr uint32_t kTrailerMagic = 0x5455504e;  // "NPUT"
constexpr uint32_t kMostParams = 64;

Status refuse(const std::string& where, const std::string& why,
              const char* remedy = "get the bundle again") {
  return {Code::kCorruptData, "cannot read kernel: " + where + ": " + why + "; " + remedy};
}

uint32_t word_at(std::span<const unsigned char> stream, size_t index) {
  uint32_t value = 0;
  std::memcpy(&value, stream.data() + 4 * index, sizeof value);
  return value;
}

// Bytes of the operation that begins at `word`, 0 where that cannot be told.
size_t operation_bytes(std::span<const unsigned char> stream, size_t word) {
  const uint32_t opcode = word_at(stream, word) & 0xffu;
  size_t size_word = 0;
  switch (opcode) {
    case kWrite:
      size_word = 5;
      break;
    case kBlockWrite:
      size_word = 3;
      break;
    case kMaskWrite:
    case kMaskPoll:
      size_word = 6;
      break;
    default:
      if (opcode < kFirstCustom) return 0;
      size_word = 1;
  }
  const std::optional<uint32_t> bytes = stream_word(stream, word + size_word);
  if (!bytes || *bytes % 4 != 0 || *bytes < 4 * (size_word + 1)) return 0;
  return *bytes <= stream.size() - 4 * word ? *bytes : 0;
}

}  // namespace

Status check_stream(std::span<const unsigned char> stream, const std::string& where) {
  if (core::is_lfs_pointer(stream)) {
    return refuse(where, "this is a git-lfs pointer", "run 'git lfs pull'");
  }
  if (stream.size() < kHeaderBytes || stream.size() % 4 != 0) {
    return refuse(where, format("%zu bytes are no instruction stream", stream.size()));
  }
  // Byte 2 of the header is the generation of the array, its last word the length of all.
  const uint32_t generation = (word_at(stream, 0) >> 16) & 0xffu;
  if (generation != kNpu2Generation) {
    return refuse(where,
                  format("instructions of array generation %u, those of an NPU2 are of generation "
                         "%u",
                         generation, kNpu2Generation),
                  "use a bundle for NPU2");
  }
  if (word_at(stream, 3) != stream.size()) {
    return refuse(where, format("the header says %u bytes, the file has %zu", word_at(stream, 3),
                                stream.size()));
  }
  return {};
}

std::optional<uint32_t> stream_word(std::span<const unsigned char> stream, size_t index) {
  if (index >= stream.size() / 4) return std::nullopt;
  return word_at(stream, index);
}

std::optional<uint32_t> find_epilogue(std::span<const unsigned char> stream) {
  std::optional<uint32_t> found;
  for (uint32_t core = 0; core < kCores; ++core) {
    const uint32_t base = core * kCoreWords;
    const auto address = stream_word(stream, base + kEpilogueAddress);
    const auto value = stream_word(stream, base + kEpilogueValue);
    const auto size = stream_word(stream, base + kEpilogueSize);
    if (!size || (*address & 0xfffu) != 0x408u || *size != 0x18u) return std::nullopt;
    if (core != 0 && value != found) return std::nullopt;
    found = value;
  }
  return found;
}

std::vector<StreamWord> epilogue_words(std::span<const unsigned char> stream, uint32_t from,
                                       uint32_t to) {
  std::vector<StreamWord> words;
  if (find_epilogue(stream) != std::optional(from)) return words;
  for (uint32_t core = 0; core < kCores; ++core) {
    words.push_back({core * kCoreWords + kEpilogueValue, to});
  }
  return words;
}

Status patch_stream(std::span<unsigned char> stream, std::span<const StreamWord> words,
                    const std::string& where) {
  for (const StreamWord& word : words) {
    if (word.index < stream.size() / 4) continue;
    return {Code::kCorruptData,
            format("cannot patch kernel: %s: instruction word %u is past the stream of %zu words; "
                   "export the bundle again",
                   where.c_str(), word.index, stream.size() / 4)};
  }
  for (const StreamWord& word : words) {
    std::memcpy(stream.data() + size_t{4} * word.index, &word.value, sizeof word.value);
  }
  return {};
}

std::optional<StreamTrailer> find_trailer(std::span<const unsigned char> stream) {
  if (stream.size() < kHeaderBytes || stream.size() % 4 != 0) return std::nullopt;
  size_t last = 0;
  for (size_t word = kHeaderBytes / 4; word < stream.size() / 4;) {
    const size_t bytes = operation_bytes(stream, word);
    if (bytes == 0) return std::nullopt;
    last = word;
    word += bytes / 4;
  }
  // Behind the operation's four words: magic, version, kind, name (4 words), count, parameters.
  const size_t payload = last + 4;
  if (last == 0 || (word_at(stream, last) & 0xffu) != kBlockWrite ||
      stream_word(stream, payload) != std::optional(kTrailerMagic) ||
      stream_word(stream, payload + 1) != std::optional(1u)) {
    return std::nullopt;
  }
  const auto count = stream_word(stream, payload + 7);
  if (!count || *count > kMostParams || payload + 8 + *count > stream.size() / 4) {
    return std::nullopt;
  }
  StreamTrailer trailer;
  trailer.kind = word_at(stream, payload + 2);
  const std::string_view name(reinterpret_cast<const char*>(stream.data()) + 4 * (payload + 3), 16);
  trailer.name = name.substr(0, name.find('\0'));
  for (size_t i = 0; i < *count; ++i) trailer.params.push_back(word_at(stream, payload + 8 + i));
  return trailer;
}

}  // namespace npuseg::bundle

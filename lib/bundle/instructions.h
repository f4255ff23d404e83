// SPDX-License-Identifier: Apache-2.0
// Instruction streams: the transaction that starts a kernel, as a sequence of 32-bit words, and the
// few words of it that are rewritten (spec iron-bundle-sam3, 4.8;
// iron-bundle-embeddinggemma2, 8.5).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/status.h"

namespace npuseg::bundle {

// Activation that a GEMM applies before it rounds; other numbers are kept as they are.
constexpr uint32_t kEpilogueNone = 0;
constexpr uint32_t kEpilogueRelu = 4;
constexpr uint32_t kEpilogueGeluTanh = 5;

struct StreamWord {
  uint32_t index = 0;
  uint32_t value = 0;
};

// Placeholder streams of test bundles say in their last operation what the kernel does; streams for
// hardware have no such thing.
struct StreamTrailer {
  enum Kind : uint32_t { kGemm = 1, kMha = 2, kRope = 3, kAddNorm = 4 };
  uint32_t kind = 0;
  std::string name;
  std::vector<uint32_t> params;
};

// `where` names the file in messages. Refuses: no whole number of words, a header that is short, of
// another length than the stream or of another NPU generation.
core::Status check_stream(std::span<const unsigned char> stream, const std::string& where);

// The functions below take any bytes.

// Word `index`, nothing when the stream is shorter.
std::optional<uint32_t> stream_word(std::span<const unsigned char> stream, size_t index);

// The activation that all 32 cores have, with the addresses and sizes that belong to it; nothing
// when the words are not all as they should be.
std::optional<uint32_t> find_epilogue(std::span<const unsigned char> stream);

// The words that change the activation of all cores from `from` to `to`; empty unless
// find_epilogue() gives `from`.
std::vector<StreamWord> epilogue_words(std::span<const unsigned char> stream, uint32_t from,
                                       uint32_t to);

// All words or, when one is past the stream, none.
core::Status patch_stream(std::span<unsigned char> stream, std::span<const StreamWord> words,
                          const std::string& where);

std::optional<StreamTrailer> find_trailer(std::span<const unsigned char> stream);

}  // namespace npuseg::bundle

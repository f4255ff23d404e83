// SPDX-License-Identifier: Apache-2.0
// Any text as the config.json of an EmbeddingGemma 2 model. What is accepted must be consistent.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "checkpoint/embeddinggemma2_config.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto result = npuseg::checkpoint::parse_embeddinggemma2_config(text, "fuzz");
  if (!result.ok()) {
    if (result.status().message().empty()) __builtin_trap();
    return 0;
  }
  const npuseg::checkpoint::EmbeddingGemma2Config& config = result.value();
  const auto& t = config.text;
  if (t.layers == 0 || t.is_full.size() != t.layers || !t.is_full.back()) __builtin_trap();
  for (size_t i = 0; i < t.layers; ++i) {
    const auto& attention = t.attention(i);
    if (attention.kv_heads == 0 || t.heads % attention.kv_heads != 0) __builtin_trap();
    if (attention.head_dim % 2 != 0 || t.q_width(i) > 65536) __builtin_trap();
  }
  if (config.vision) {
    const auto vocabulary = static_cast<int64_t>(t.vocab_size);
    if (config.image_token_id < 0 || config.image_token_id >= vocabulary) __builtin_trap();
    if (config.vision->patch_values() == 0 || config.vision->head_dim % 4 != 0) __builtin_trap();
  }
  return 0;
}

// SPDX-License-Identifier: Apache-2.0
// From the parts of an input to token ids with gaps for soft tokens, laid out as
// sentence-transformers' message template does (spec embeddinggemma2-model.md, section 7.2).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/embeddinggemma2_config.h"
#include "core/status.h"
#include "engine/photo.h"
#include "text/gemma_tokenizer.h"

namespace npuseg::engine {

// A picture or a text.
struct EmbeddingPart {
  std::shared_ptr<Photo> picture;
  std::string_view text;  // when there is no picture
};

struct EmbeddingInput {
  std::vector<EmbeddingPart> parts;
  std::optional<std::string> task;  // as in EmbedOptions; absent: theirs
};

// ids[0], soft tokens of pictures[0], ids[1], ..., ids.back(): one more run of ids than pictures.
// Begin- and end-of-image ids are among them.
struct EmbeddingLayout {
  std::vector<std::vector<int64_t>> ids;
  std::vector<size_t> soft_tokens;  // of each picture
  std::vector<std::shared_ptr<Photo>> pictures;
  size_t tokens = 0;   // soft ones included
  size_t dropped = 0;  // cut from the end of the text
};

struct LayoutRules {
  const text::GemmaTokenizer* tokenizer = nullptr;
  const checkpoint::EmbeddingGemma2Config* config = nullptr;
  const checkpoint::EmbeddingGemma2ProcessorConfig* processor = nullptr;
  size_t max_tokens = 0;
  bool truncate = false;
  bool replace_invalid = false;  // bytes of a text that are no UTF-8 become U+FFFD
};

// prompt: the task's words, in front of everything.
core::Result<EmbeddingLayout> lay_out(const LayoutRules& rules, std::string_view prompt,
                                      const std::vector<EmbeddingPart>& parts);

// The size rule of a picture under the model's processor.
core::Result<size_t> soft_tokens_of(const checkpoint::EmbeddingGemma2ProcessorConfig& processor,
                                    const Photo& photo);

}  // namespace npuseg::engine

// SPDX-License-Identifier: Apache-2.0
// An input of EmbeddingGemma 2, texts and pictures in order, as one sequence of ids (spec
// embeddinggemma2-model.md 7, 13 and 16).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/status.h"
#include "text/gemma_tokenizer.h"

namespace npuseg::core {
class Call;
}  // namespace npuseg::core

namespace npuseg::text {

// The placeholders of a model and their spellings in its tokenizer. An empty spelling is never
// looked for.
struct MediaTokens {
  int64_t image_id = -1;
  int64_t begin_image_id = -1;
  int64_t end_image_id = -1;
  std::string image;
  std::string audio;
  std::string video;

  // Ids are those of config.json, -1 for none. Spellings of ids that are no added tokens stay
  // empty.
  static MediaTokens find(const GemmaTokenizer& tokenizer, int64_t image_id, int64_t begin_image_id,
                          int64_t end_image_id, int64_t audio_id, int64_t video_id);
};

// One part of an input.
struct InputPart {
  std::string_view text;   // of a picture: not looked at
  size_t soft_tokens = 0;  // of a picture: at least 1; 0 for a text
};

struct ComposeOptions {
  size_t max_tokens = 8192;      // start and end included
  bool truncate = false;         // cut what is too long at its end, instead of LIMIT_EXCEEDED
  bool replace_invalid = false;  // bytes that are no UTF-8 become U+FFFD
  core::Call* call = nullptr;    // stops the work on long texts
};

struct ComposedInput {
  struct Run {
    size_t begin = 0;
    size_t count = 0;
  };
  std::vector<int64_t> ids;   // soft tokens as the image token's id
  std::vector<Run> pictures;  // soft tokens in ids, in the order of the parts
  size_t total = 0;           // tokens before anything was cut
  bool truncated = false;
};

// The prompt goes first, then the parts in their order, without anything between. A picture is
// begin-of-image, its soft tokens, end-of-image. Texts that spell a placeholder place the pictures
// themselves: the n-th placeholder is the n-th picture. INVALID_ARGUMENT when their numbers differ
// or a placeholder of audio or video is there.
core::Result<ComposedInput> compose_input(const GemmaTokenizer& tokenizer, const MediaTokens& media,
                                          std::string_view prompt, std::span<const InputPart> parts,
                                          const ComposeOptions& options);

// compose_input of pictures alone, without prompt, for models that have no tokenizer: `start`, the
// pictures, `end`.
core::Result<ComposedInput> compose_pictures(const MediaTokens& media, int64_t start, int64_t end,
                                             std::span<const InputPart> parts,
                                             const ComposeOptions& options);

}  // namespace npuseg::text

// SPDX-License-Identifier: Apache-2.0
// What an embedding model is asked for: pictures and texts, in order, as one input.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/photo.h"
#include "text/gemma_input.h"

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

// Ids with room for soft tokens, and the pictures that fill it.
struct EmbeddingLayout {
  text::ComposedInput composed;
  std::vector<std::shared_ptr<Photo>> pictures;  // one a run of composed.pictures

  [[nodiscard]] size_t dropped() const { return composed.total - composed.ids.size(); }
};

}  // namespace npuseg::engine

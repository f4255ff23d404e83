// SPDX-License-Identifier: Apache-2.0
#include "engine/embedding_input.h"

#include <algorithm>

#include "image/patches.h"
#include "text/utf8.h"

namespace npuseg::engine {

using core::Code;
using core::format;
using core::Result;
using core::Status;

namespace {

constexpr size_t kMostTextBytes = size_t{256} << 20;

size_t count_of(std::string_view text, std::string_view word) {
  size_t count = 0;
  for (size_t at = text.find(word); at != std::string_view::npos;
       at = text.find(word, at + word.size())) {
    ++count;
  }
  return count;
}

// Spellings of the tokens that stand for media in a text; empty where the model has none.
struct Placeholders {
  std::string_view image;
  std::string_view audio;
  std::string_view video;

  explicit Placeholders(const LayoutRules& rules)
      : image(rules.tokenizer->added_content(rules.config->image_token_id)),
        audio(rules.tokenizer->added_content(rules.config->audio_token_id)),
        video(rules.tokenizer->added_content(rules.config->video_token_id)) {}

  [[nodiscard]] bool any_in(std::string_view text) const {
    return std::any_of(std::begin({image, audio, video}), std::end({image, audio, video}),
                       [&](std::string_view word) {
                         return !word.empty() && text.find(word) != std::string_view::npos;
                       });
  }
};

Status no_room(const LayoutRules& rules, size_t tokens, const char* remedy) {
  return {Code::kLimitExceeded, format("cannot embed input: %zu tokens, the model takes %zu; %s",
                                       tokens, rules.max_tokens, remedy)};
}

// Takes what is too much from the text behind the last picture; its last `kept` ids stay.
Status cut(const LayoutRules& rules, size_t kept, EmbeddingLayout* layout) {
  if (layout->tokens <= rules.max_tokens) return {};
  if (!rules.truncate) {
    return no_room(rules, layout->tokens, "shorten it or ask for the text to be cut");
  }
  std::vector<int64_t>& last = layout->ids.back();
  // In front of the text: the end of a picture, or the start token.
  const size_t head = layout->pictures.empty() ? kept : 1;
  const size_t excess = layout->tokens - rules.max_tokens;
  if (last.size() < head + kept + excess) {
    return no_room(rules, layout->tokens,
                   "the text behind the last picture is too short to be cut; give fewer pictures");
  }
  const auto end = last.end() - static_cast<std::ptrdiff_t>(kept);
  last.erase(end - static_cast<std::ptrdiff_t>(excess), end);
  layout->tokens -= excess;
  layout->dropped = excess;
  return {};
}

// The words of all parts with a placeholder for every picture.
Status render(const LayoutRules& rules, std::string_view prompt,
              const std::vector<EmbeddingPart>& parts, const Placeholders& words,
              std::string* rendered, std::vector<std::shared_ptr<Photo>>* pictures) {
  std::vector<std::string> texts(parts.size());
  std::string all;
  for (size_t i = 0; i < parts.size(); ++i) {
    const EmbeddingPart& part = parts[i];
    if (part.picture) {
      pictures->push_back(part.picture);
      continue;
    }
    const size_t invalid = text::find_invalid_utf8(part.text);
    if (invalid != part.text.size() && !rules.replace_invalid) {
      return {Code::kInvalidArgument,
              format("cannot embed text: part %zu: byte %zu is no valid UTF-8; convert the text or "
                     "ask for replacement",
                     i, invalid)};
    }
    texts[i] = invalid == part.text.size() ? std::string(part.text)
                                           : text::replace_invalid_utf8(part.text);
    if (texts[i].size() > kMostTextBytes - std::min(kMostTextBytes, all.size())) {
      return {Code::kLimitExceeded,
              format("cannot embed text: more than %zu bytes; shorten it", kMostTextBytes)};
    }
    all += texts[i];
  }
  // A text that says where its media stand gets no placeholders of ours.
  const bool placed = words.any_in(all);
  *rendered = prompt;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (!parts[i].picture) {
      *rendered += texts[i];
    } else if (!placed) {
      *rendered += words.image;
    }
  }
  return {};
}

Status check_counts(const Placeholders& words, std::string_view rendered, size_t pictures) {
  for (const std::string_view word : {words.audio, words.video}) {
    if (!word.empty() && rendered.find(word) != std::string_view::npos) {
      return {Code::kInvalidArgument,
              "cannot embed input: the text holds \"" + std::string(word) +
                  "\", which stands for sound or film, and none is given; take it out"};
    }
  }
  const size_t places = words.image.empty() ? 0 : count_of(rendered, words.image);
  if (places == pictures) return {};
  if (words.image.empty()) {
    return {Code::kCorruptData,
            "cannot embed picture: the tokenizer has no token of the config's image_token_id; the "
            "files do not belong together"};
  }
  return {Code::kInvalidArgument,
          format("cannot embed input: the text holds \"%s\" %zu times, and there are %zu pictures; "
                 "give as many pictures or take it out",
                 std::string(words.image).c_str(), places, pictures)};
}

}  // namespace

Result<size_t> soft_tokens_of(const checkpoint::EmbeddingGemma2ProcessorConfig& processor,
                              const Photo& photo) {
  image::PatchRule rule;
  rule.max_soft_tokens = processor.max_soft_tokens;
  rule.patch_size = processor.patch_size;
  rule.pooling = processor.pooling;
  NPUSEG_ASSIGN_OR_RETURN(const image::PatchGrid grid,
                          image::fit_patch_grid(photo.width(), photo.height(), rule));
  return grid.soft_tokens;
}

Result<EmbeddingLayout> lay_out(const LayoutRules& rules, std::string_view prompt,
                                const std::vector<EmbeddingPart>& parts) {
  if (parts.empty()) {
    return Status(Code::kInvalidArgument,
                  "cannot embed input: it has no parts; give a picture or a text");
  }
  const Placeholders words(rules);
  EmbeddingLayout layout;
  std::string rendered;
  NPUSEG_RETURN_IF_ERROR(render(rules, prompt, parts, words, &rendered, &layout.pictures));
  if (!layout.pictures.empty() && !rules.config->vision) {
    return Status(Code::kUnsupported,
                  "cannot embed picture: the model has no vision tower; embed texts or use another "
                  "model");
  }
  NPUSEG_RETURN_IF_ERROR(check_counts(words, rendered, layout.pictures.size()));

  const text::GemmaTokenizer& tokenizer = *rules.tokenizer;
  const bool bare = tokenizer.begins_with_start(rendered);
  layout.ids.emplace_back();
  if (!bare) layout.ids.back() = tokenizer.prefix();
  std::string_view rest = rendered;
  for (const auto& picture : layout.pictures) {
    const size_t place = rest.find(words.image);
    NPUSEG_RETURN_IF_ERROR(tokenizer.encode_plain(rest.substr(0, place), &layout.ids.back()));
    rest.remove_prefix(place + words.image.size());
    NPUSEG_ASSIGN_OR_RETURN(const size_t soft, soft_tokens_of(*rules.processor, *picture));
    layout.soft_tokens.push_back(soft);
    layout.tokens += soft;
    layout.ids.back().push_back(rules.config->boi_token_id);
    layout.ids.push_back({rules.config->eoi_token_id});
  }
  NPUSEG_RETURN_IF_ERROR(tokenizer.encode_plain(rest, &layout.ids.back()));
  size_t kept = 0;
  if (!bare) {
    kept = tokenizer.suffix().size();
    layout.ids.back().insert(layout.ids.back().end(), tokenizer.suffix().begin(),
                             tokenizer.suffix().end());
  }
  for (const auto& run : layout.ids) layout.tokens += run.size();
  NPUSEG_RETURN_IF_ERROR(cut(rules, kept, &layout));
  return layout;
}

}  // namespace npuseg::engine

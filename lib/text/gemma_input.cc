// SPDX-License-Identifier: Apache-2.0
#include "text/gemma_input.h"

#include "text/utf8.h"

namespace npuseg::text {

using core::Code;
using core::format;
using core::Result;
using core::Status;

namespace {

size_t count_of(std::string_view text, std::string_view wanted) {
  size_t count = 0;
  if (wanted.empty()) return count;
  for (size_t at = text.find(wanted); at != std::string_view::npos;
       at = text.find(wanted, at + wanted.size())) {
    ++count;
  }
  return count;
}

// Prompt, texts and placeholders as one text.
std::string render(const MediaTokens& media, std::string_view prompt,
                   std::span<const InputPart> parts) {
  std::string texts;
  for (const InputPart& part : parts) {
    if (part.soft_tokens == 0) texts.append(part.text);
  }
  const bool manual =
      count_of(texts, media.image) + count_of(texts, media.audio) + count_of(texts, media.video) !=
      0;
  std::string out(prompt);
  for (const InputPart& part : parts) {
    if (part.soft_tokens == 0) {
      out.append(part.text);
    } else if (!manual) {
      out.append(media.image);
    }
  }
  return out;
}

Status check_placeholders(const MediaTokens& media, std::string_view text, size_t pictures) {
  for (const std::string& other : {media.audio, media.video}) {
    if (count_of(text, other) == 0) continue;
    return Status(Code::kInvalidArgument,
                  "cannot use text: it contains the placeholder " + other +
                      ", but audio and video are not supported; take it out");
  }
  const size_t placeholders = count_of(text, media.image);
  if (placeholders == pictures) return {};
  return Status(Code::kInvalidArgument,
                format("cannot use text: it contains the placeholder %s %zu times, pictures given "
                       "are %zu; take it out or give as many pictures",
                       media.image.c_str(), placeholders, pictures));
}

// Puts the soft tokens in place of each placeholder.
Status expand(const MediaTokens& media, std::span<const InputPart> parts,
              const std::vector<int64_t>& plain, ComposedInput* out) {
  size_t next = 0;
  for (const int64_t id : plain) {
    if (id != media.image_id || media.image_id < 0) {
      out->ids.push_back(id);
      continue;
    }
    while (next < parts.size() && parts[next].soft_tokens == 0) ++next;
    if (next == parts.size()) {
      return Status(Code::kInvalidArgument,
                    "cannot use text: it has more placeholders than pictures; take them out");
    }
    const size_t count = parts[next++].soft_tokens;
    out->ids.push_back(media.begin_image_id);
    out->pictures.push_back({out->ids.size(), count});
    out->ids.insert(out->ids.end(), count, media.image_id);
    out->ids.push_back(media.end_image_id);
  }
  return {};
}

// Cuts the end of the text, never a picture; the end token stays.
Status cut(const ComposeOptions& options, const std::vector<int64_t>& suffix, ComposedInput* out) {
  if (out->total <= options.max_tokens) return {};
  if (!options.truncate) {
    return Status(Code::kLimitExceeded,
                  format("input too long: %zu tokens, the model takes at most %zu; shorten it or "
                         "ask for truncation",
                         out->total, options.max_tokens));
  }
  const size_t kept = options.max_tokens < suffix.size() ? 0 : options.max_tokens - suffix.size();
  if (!out->pictures.empty() && out->pictures.back().begin + out->pictures.back().count > kept) {
    return Status(
        Code::kLimitExceeded,
        format("input too long: its pictures end at token %zu of at most %zu and cannot "
               "be cut; give fewer pictures or put texts behind them",
               out->pictures.back().begin + out->pictures.back().count, options.max_tokens));
  }
  out->ids.resize(kept);
  out->ids.insert(out->ids.end(), suffix.begin(), suffix.end());
  out->truncated = true;
  return {};
}

}  // namespace

MediaTokens MediaTokens::find(const GemmaTokenizer& tokenizer, int64_t image_id,
                              int64_t begin_image_id, int64_t end_image_id, int64_t audio_id,
                              int64_t video_id) {
  MediaTokens out;
  out.image_id = image_id;
  out.begin_image_id = begin_image_id;
  out.end_image_id = end_image_id;
  out.image = tokenizer.added_content(image_id);
  out.audio = tokenizer.added_content(audio_id);
  out.video = tokenizer.added_content(video_id);
  return out;
}

Result<ComposedInput> compose_input(const GemmaTokenizer& tokenizer, const MediaTokens& media,
                                    std::string_view prompt, std::span<const InputPart> parts,
                                    const ComposeOptions& options) {
  size_t pictures = 0;
  for (const InputPart& part : parts) pictures += part.soft_tokens != 0 ? 1 : 0;
  if (pictures != 0 &&
      (media.image.empty() || media.begin_image_id < 0 || media.end_image_id < 0)) {
    return Status(Code::kUnsupported,
                  "cannot use picture: the model's tokenizer has no tokens for pictures; use a "
                  "model with vision");
  }
  std::string text = render(media, prompt, parts);
  const size_t bad = find_invalid_utf8(text);
  if (bad != text.size()) {
    if (!options.replace_invalid) {
      return Status(Code::kInvalidArgument,
                    format("cannot read text: byte %zu of the input with its prompt: not valid "
                           "UTF-8; pass UTF-8 text",
                           bad));
    }
    text = replace_invalid_utf8(text);
  }
  NPUSEG_RETURN_IF_ERROR(check_placeholders(media, text, pictures));
  const bool framed = !tokenizer.begins_with_start(text);
  const std::vector<int64_t> suffix = framed ? tokenizer.suffix() : std::vector<int64_t>();
  std::vector<int64_t> plain = framed ? tokenizer.prefix() : std::vector<int64_t>();
  NPUSEG_RETURN_IF_ERROR(tokenizer.encode_plain(text, &plain, options.call));
  plain.insert(plain.end(), suffix.begin(), suffix.end());
  ComposedInput out;
  NPUSEG_RETURN_IF_ERROR(expand(media, parts, plain, &out));
  out.total = out.ids.size();
  NPUSEG_RETURN_IF_ERROR(cut(options, suffix, &out));
  return out;
}

Result<ComposedInput> compose_pictures(const MediaTokens& media, int64_t start, int64_t end,
                                       std::span<const InputPart> parts,
                                       const ComposeOptions& options) {
  ComposedInput out;
  std::vector<int64_t> plain(parts.size() + 2, media.image_id);
  plain.front() = start;
  plain.back() = end;
  NPUSEG_RETURN_IF_ERROR(expand(media, parts, plain, &out));
  out.total = out.ids.size();
  NPUSEG_RETURN_IF_ERROR(cut(options, {end}, &out));
  return out;
}

}  // namespace npuseg::text

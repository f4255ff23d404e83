// SPDX-License-Identifier: Apache-2.0
#include "model/embeddinggemma2/text_embedder.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "compute/elementwise.h"
#include "model/embeddinggemma2/weights.h"

namespace npuseg::embeddinggemma2 {

using compute::Exec;
using core::Code;
using core::Matrix;
using core::Result;
using core::Status;

namespace {

// Placeholders of media stand for soft tokens; where none are given they count as padding.
size_t table_row(const EmbeddingGemma2Config& config, int64_t id) {
  const bool placeholder =
      id == config.image_token_id || id == config.audio_token_id || id == config.video_token_id;
  return static_cast<size_t>(placeholder ? config.text.pad_token_id : id);
}

// Reads one row of the table; the rest of it stays untouched.
void embed_id(const Model& model, int64_t id, float scale, float* out) {
  const size_t hidden = model.config().text.hidden_size;
  compute::widen(model.weights().text.embed_tokens, table_row(model.config(), id) * hidden, hidden,
                 out);
  for (size_t i = 0; i < hidden; ++i) out[i] *= scale;
}

}  // namespace

size_t token_count(const Sequence& sequence) {
  size_t count = 0;
  for (const Part& part : sequence) count += part.ids.size() + part.soft_tokens.rows;
  return count;
}

Result<size_t> check_sequence(const EmbeddingGemma2Config& config, const Sequence& sequence,
                              std::span<const int64_t> also) {
  const auto& text = config.text;
  for (const Part& part : sequence) {
    const auto& soft = part.soft_tokens;
    if (!part.ids.empty() && soft.rows != 0) {
      return Status(Code::kInvalidArgument,
                    "cannot embed: a part holds both token ids and soft tokens; pass two parts");
    }
    if (soft.rows != 0 && soft.cols != text.hidden_size) {
      return Status(Code::kInvalidArgument,
                    core::format("cannot embed: soft tokens have %zu values, the model takes %zu; "
                                 "encode the picture with the same model",
                                 soft.cols, text.hidden_size));
    }
    for (const int64_t id : part.ids) {
      if (id >= 0 && static_cast<uint64_t>(id) < text.vocab_size) continue;
      if (std::find(also.begin(), also.end(), id) != also.end()) continue;
      return Status(Code::kInvalidArgument,
                    core::format("cannot embed: token id %lld is not below the vocabulary size "
                                 "%zu; tokenizer and model do not belong together",
                                 static_cast<long long>(id), text.vocab_size));
    }
  }
  const size_t count = token_count(sequence);
  if (count == 0) {
    return Status(Code::kInvalidArgument,
                  "cannot embed: an input has no tokens; pass at least its start and end token");
  }
  if (count > text.max_positions) {
    return Status(Code::kLimitExceeded,
                  core::format("cannot embed: %zu tokens, the model takes at most %zu; shorten the "
                               "input",
                               count, text.max_positions));
  }
  return count;
}

std::vector<size_t> pack_ends(std::span<const Sequence> sequences, size_t most) {
  std::vector<size_t> ends;
  size_t tokens = 0;
  for (size_t s = 0; s < sequences.size(); ++s) {
    const size_t count = token_count(sequences[s]);
    if (tokens != 0 && tokens + count > most) {
      ends.push_back(s);
      tokens = 0;
    }
    tokens += count;
  }
  if (tokens != 0) ends.push_back(sequences.size());
  return ends;
}

Result<PackedTokens> pack_tokens(const Exec& exec, size_t hidden,
                                 std::span<const Sequence> sequences, const EmbedId& embed) {
  PackedTokens packed;
  packed.starts.push_back(0);
  for (const Sequence& sequence : sequences) {
    const size_t count = token_count(sequence);
    packed.longest = std::max(packed.longest, count);
    packed.starts.push_back(packed.starts.back() + count);
  }
  packed.positions.resize(packed.starts.back());
  NPUSEG_ASSIGN_OR_RETURN(packed.tokens,
                          Matrix::make(exec.budget, packed.starts.back(), hidden, "text tokens"));
  NPUSEG_RETURN_IF_ERROR(core::parallel_for(
      *exec.call, sequences.size(),
      [&](size_t s, int) {
        size_t row = packed.starts[s];
        for (const Part& part : sequences[s]) {
          for (const int64_t id : part.ids) {
            embed(sequences[s], id, packed.tokens.view().row(row++));
          }
          for (size_t i = 0; i < part.soft_tokens.rows; ++i) {
            std::memcpy(packed.tokens.view().row(row++), part.soft_tokens.row(i),
                        hidden * sizeof(float));
          }
        }
        for (size_t r = packed.starts[s]; r < packed.starts[s + 1]; ++r) {
          packed.positions[r] = static_cast<int32_t>(r - packed.starts[s]);
        }
      },
      static_cast<double>(packed.starts.back() * hidden)));
  return packed;
}

Result<PackedTokens> embed_tokens(const Model& model, const Exec& exec,
                                  std::span<const Sequence> sequences) {
  for (const Sequence& sequence : sequences) {
    NPUSEG_RETURN_IF_ERROR(check_sequence(model.config(), sequence).status());
  }
  const size_t hidden = model.config().text.hidden_size;
  const auto scale = static_cast<float>(std::sqrt(static_cast<double>(hidden)));
  return pack_tokens(exec, hidden, sequences, [&](const Sequence&, int64_t id, float* out) {
    embed_id(model, id, scale, out);
  });
}

}  // namespace npuseg::embeddinggemma2

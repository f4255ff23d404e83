// SPDX-License-Identifier: Apache-2.0
// The stages wired: patches -> soft tokens, sequences -> vectors.
#include <algorithm>

#include "model/embeddinggemma2/embeddinggemma2.h"
#include "model/embeddinggemma2/pooling.h"
#include "model/embeddinggemma2/soft_tokens.h"
#include "model/embeddinggemma2/stage_timer.h"
#include "model/embeddinggemma2/text_embedder.h"
#include "model/embeddinggemma2/text_encoder.h"
#include "model/embeddinggemma2/vision_embedder.h"
#include "model/embeddinggemma2/vision_encoder.h"
#include "model/embeddinggemma2/weights.h"

namespace npuseg::embeddinggemma2 {

using compute::Exec;
using core::Matrix;
using core::Result;
using core::Status;

namespace {

// Tokens that run together: enough to keep every core busy and to read each weight seldom, few
// enough that the activations stay small beside the weights.
constexpr size_t kPackTokens = 2048;

Status embed_pack(const Model& model, const Exec& exec, std::span<const Sequence> sequences,
                  core::MatrixView out) {
  NPUSEG_ASSIGN_OR_RETURN(const PackedTokens packed, embed_tokens(model, exec, sequences));
  NPUSEG_ASSIGN_OR_RETURN(const Matrix tokens, run_text_encoder(model, exec, packed));
  NPUSEG_ASSIGN_OR_RETURN(
      const Matrix pooled,
      pool_tokens(exec, {model.weights().text.norm, model.config().text.rms_norm_eps},
                  tokens.view(), packed.starts));
  return project_embeddings(exec, model.weights().text.embedding_projection, pooled.view(), out);
}

}  // namespace

Result<Matrix> Model::encode_picture(core::Call& call, const Patches& patches,
                                     StageTimes* times) const {
  const StageTimer timer(times, Stage::kVision);
  const Exec exec{&call, budget_};
  NPUSEG_ASSIGN_OR_RETURN(Matrix tokens, embed_patches(*this, exec, patches));
  NPUSEG_RETURN_IF_ERROR(
      run_vision_encoder(*this, exec, patches.grid_width, patches.grid_height, tokens.view()));
  NPUSEG_ASSIGN_OR_RETURN(const Matrix pooled, pool_patches(exec, tokens.view(), patches.grid_width,
                                                            config_.vision->pooling));
  return project_soft_tokens(*this, exec, pooled.view());
}

Result<Matrix> Model::embed(core::Call& call, std::span<const Sequence> sequences,
                            StageTimes* times) const {
  const StageTimer timer(times, Stage::kText);
  const Exec exec{&call, budget_};
  const auto& text = config_.text;
  for (size_t s = 0; s < sequences.size(); ++s) {
    auto count = check_sequence(config_, sequences[s]);
    if (!count.ok()) {
      return std::move(count).status().with_context(core::format("input %zu", s));
    }
  }
  const std::vector<size_t> ends = pack_ends(sequences, kPackTokens);
  NPUSEG_ASSIGN_OR_RETURN(
      Matrix out, Matrix::make(exec.budget, sequences.size(), text.embedding_dim, "embeddings"));
  call.begin_stage(static_cast<uint32_t>(Stage::kText), ends.size() * text.layers);
  size_t first = 0;
  for (const size_t end : ends) {
    NPUSEG_RETURN_IF_ERROR(embed_pack(*this, exec, sequences.subspan(first, end - first),
                                      out.view().row_range(first, end - first)));
    first = end;
  }
  return out;
}

}  // namespace npuseg::embeddinggemma2

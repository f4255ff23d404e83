// SPDX-License-Identifier: Apache-2.0
#include "model/sam3/text_encoder.h"

#include "compute/elementwise.h"
#include "compute/norm.h"
#include "model/sam3/layers.h"
#include "model/sam3/weights.h"

namespace npuseg::sam3 {

using compute::Exec;
using core::Matrix;
using core::Result;
using core::Status;

Result<Matrix> run_text_encoder(const Graph& graph, const Exec& exec,
                                std::span<const int64_t> ids) {
  const auto& config = graph.config().text;
  const auto& weights = graph.weights().text;
  if (ids.empty() || ids.size() > config.positions) {
    return Status(core::Code::kInvalidArgument,
                  core::format("cannot encode text: %zu tokens, the model takes 1 to %zu; shorten "
                               "the prompt",
                               ids.size(), config.positions));
  }
  exec.call->begin_stage(static_cast<uint32_t>(Stage::kText), config.layers);
  const size_t width = config.hidden_size;
  NPUSEG_ASSIGN_OR_RETURN(Matrix tokens,
                          Matrix::make(exec.budget, ids.size(), width, "text tokens"));
  NPUSEG_ASSIGN_OR_RETURN(Matrix normed,
                          Matrix::make(exec.budget, ids.size(), width, "text activations"));
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < 0 || static_cast<uint64_t>(ids[i]) >= config.vocab_size) {
      return Status(core::Code::kInvalidArgument,
                    core::format("cannot encode text: token id %lld is outside of the vocabulary "
                                 "of %zu; tokenizer and model do not belong together",
                                 static_cast<long long>(ids[i]), config.vocab_size));
    }
    compute::widen(weights.token_embedding, static_cast<size_t>(ids[i]) * width, width,
                   tokens.view().row(i));
    compute::widen(weights.position_embedding, i * width, width, normed.view().row(i));
  }
  NPUSEG_RETURN_IF_ERROR(compute::add(exec, tokens.view(), normed.view(), tokens.view()));
  for (const TextLayerWeights& layer : weights.layers) {
    NPUSEG_RETURN_IF_ERROR(
        compute::layer_norm(exec, tokens.view(), layer.layer_norm1, normed.view()));
    AttentionInputs inputs{normed.view(), normed.view(), normed.view()};
    inputs.heads = config.heads;
    inputs.causal = true;
    NPUSEG_RETURN_IF_ERROR(
        attention_block(exec, inputs, layer.self_attn, tokens.view(), tokens.view()));
    NPUSEG_RETURN_IF_ERROR(
        compute::layer_norm(exec, tokens.view(), layer.layer_norm2, normed.view()));
    NPUSEG_RETURN_IF_ERROR(mlp_block(exec, normed.view(), layer.mlp, to_activation(config.act),
                                     tokens.view(), tokens.view()));
    exec.call->advance();
  }
  NPUSEG_RETURN_IF_ERROR(
      compute::layer_norm(exec, tokens.view(), weights.final_layer_norm, normed.view()));
  NPUSEG_ASSIGN_OR_RETURN(
      Matrix projected,
      Matrix::make(exec.budget, ids.size(), graph.config().hidden_size, "text features"));
  NPUSEG_RETURN_IF_ERROR(linear(exec, normed.view(), weights.projection, projected.view()));
  NPUSEG_RETURN_IF_ERROR(check_finite(projected.view(), "text encoder"));
  return projected;
}

}  // namespace npuseg::sam3

// SPDX-License-Identifier: Apache-2.0
#include "model/embeddinggemma2/vision_embedder.h"

#include <vector>

#include "compute/elementwise.h"
#include "model/embeddinggemma2/weights.h"

namespace npuseg::embeddinggemma2 {

using compute::Exec;
using core::Code;
using core::Matrix;
using core::Result;
using core::Status;

Status check_patches(const EmbeddingGemma2Config& config, const Patches& patches) {
  if (!config.vision.has_value()) {
    return Status(Code::kUnsupported,
                  "cannot embed picture: the model was opened without its vision part; use a "
                  "checkpoint with vision_config, or texts alone");
  }
  const auto& vision = *config.vision;
  const size_t width = patches.grid_width;
  const size_t height = patches.grid_height;
  const size_t most = vision.position_rows;
  if (width == 0 || height == 0 || width > most || height > most || width % vision.pooling != 0 ||
      height % vision.pooling != 0) {
    return Status(Code::kInvalidArgument,
                  core::format("cannot embed picture: %zu x %zu patches, both must be multiples of "
                               "%zu from %zu to %zu; resize the picture as the processor does",
                               width, height, vision.pooling, vision.pooling, most));
  }
  if (patches.pixels.cols != vision.patch_values() || patches.pixels.rows != width * height) {
    return Status(Code::kInvalidArgument,
                  core::format("cannot embed picture: %zu patches of %zu values, the grid and the "
                               "model ask for %zu of %zu",
                               patches.pixels.rows, patches.pixels.cols, width * height,
                               vision.patch_values()));
  }
  return {};
}

Result<Matrix> embed_patches(const Model& model, const Exec& exec, const Patches& patches) {
  NPUSEG_RETURN_IF_ERROR(check_patches(model.config(), patches));
  const auto& vision = *model.config().vision;
  const auto& weights = model.weights().vision;
  const size_t hidden = vision.hidden_size;
  const size_t count = patches.pixels.rows;
  const size_t width = patches.grid_width;

  // From [0, 1] to [-1, 1].
  NPUSEG_ASSIGN_OR_RETURN(Matrix centred,
                          Matrix::make(exec.budget, count, vision.patch_values(), "patches"));
  // Vectors of the columns that occur, then of the rows.
  NPUSEG_ASSIGN_OR_RETURN(
      Matrix table, Matrix::make(exec.budget, width + patches.grid_height, hidden, "positions"));
  const auto& stored = weights.position_embedding_table;
  compute::widen(stored, 0, width * hidden, table.data());
  compute::widen(stored, vision.position_rows * hidden, patches.grid_height * hidden,
                 table.view().row(width));
  NPUSEG_ASSIGN_OR_RETURN(Matrix tokens, Matrix::make(exec.budget, count, hidden, "vision tokens"));
  NPUSEG_RETURN_IF_ERROR(core::parallel_for(
      *exec.call, patches.grid_height,
      [&](size_t y, int) {
        const float* down = table.view().row(width + y);
        for (size_t x = 0; x < width; ++x) {
          const size_t patch = y * width + x;
          const float* from = patches.pixels.row(patch);
          float* to = centred.view().row(patch);
          for (size_t i = 0; i < centred.cols(); ++i) to[i] = 2.0f * (from[i] - 0.5f);
          const float* across = table.view().row(x);
          float* token = tokens.view().row(patch);
          for (size_t i = 0; i < hidden; ++i) token[i] = across[i] + down[i];
        }
      },
      static_cast<double>(count * (hidden + centred.cols()))));
  compute::Epilogue epilogue;
  epilogue.residual = tokens.view();
  NPUSEG_RETURN_IF_ERROR(
      compute::linear(exec, centred.view(), weights.input_proj, tokens.view(), epilogue));
  return tokens;
}

}  // namespace npuseg::embeddinggemma2

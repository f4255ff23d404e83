// SPDX-License-Identifier: Apache-2.0
#include "model/embeddinggemma2/vision_embedder.h"

#include <utility>

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

Result<PatchRows> prepare_patches(const Exec& exec, const EmbeddingGemma2Config::Vision& vision,
                                  const core::TensorView& table, const Patches& patches) {
  const size_t hidden = vision.hidden_size;
  const size_t count = patches.pixels.rows;
  const size_t width = patches.grid_width;
  PatchRows rows;
  NPUSEG_ASSIGN_OR_RETURN(rows.centred,
                          Matrix::make(exec.budget, count, vision.patch_values(), "patches"));
  // Vectors of the columns that occur, then of the rows.
  NPUSEG_ASSIGN_OR_RETURN(
      Matrix used, Matrix::make(exec.budget, width + patches.grid_height, hidden, "positions"));
  compute::widen(table, 0, width * hidden, used.data());
  compute::widen(table, vision.position_rows * hidden, patches.grid_height * hidden,
                 used.view().row(width));
  NPUSEG_ASSIGN_OR_RETURN(rows.positions,
                          Matrix::make(exec.budget, count, hidden, "vision tokens"));
  NPUSEG_RETURN_IF_ERROR(core::parallel_for(
      *exec.call, patches.grid_height,
      [&](size_t y, int) {
        const float* down = used.view().row(width + y);
        for (size_t x = 0; x < width; ++x) {
          const size_t patch = y * width + x;
          const float* from = patches.pixels.row(patch);
          float* to = rows.centred.view().row(patch);
          for (size_t i = 0; i < rows.centred.cols(); ++i) to[i] = 2.0f * (from[i] - 0.5f);
          const float* across = used.view().row(x);
          float* position = rows.positions.view().row(patch);
          for (size_t i = 0; i < hidden; ++i) position[i] = across[i] + down[i];
        }
      },
      static_cast<double>(count * (hidden + rows.centred.cols()))));
  return rows;
}

Result<Matrix> embed_patches(const Model& model, const Exec& exec, const Patches& patches) {
  NPUSEG_RETURN_IF_ERROR(check_patches(model.config(), patches));
  const auto& weights = model.weights().vision;
  NPUSEG_ASSIGN_OR_RETURN(
      PatchRows rows,
      prepare_patches(exec, *model.config().vision, weights.position_embedding_table, patches));
  compute::Epilogue epilogue;
  epilogue.residual = rows.positions.view();
  NPUSEG_RETURN_IF_ERROR(compute::linear(exec, rows.centred.view(), weights.input_proj,
                                         rows.positions.view(), epilogue));
  return std::move(rows.positions);
}

}  // namespace npuseg::embeddinggemma2

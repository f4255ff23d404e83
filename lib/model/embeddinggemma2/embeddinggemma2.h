// SPDX-License-Identifier: Apache-2.0
// EmbeddingGemma 2 as steps: patches of a picture -> soft tokens; token ids and soft tokens in
// order -> one unit vector. Each step is one function over tensor views (one file a stage beside
// this header) and can be run alone. Tokenizer and pixels are others' business.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "checkpoint/embeddinggemma2_config.h"
#include "compute/gemm.h"
#include "core/buffer.h"
#include "core/log.h"
#include "core/status.h"
#include "core/threads.h"

namespace npuseg::embeddinggemma2 {

using checkpoint::EmbeddingGemma2Config;

struct Weights;  // every used tensor by name, shapes checked (weights.h)
struct Ropes;    // tables of cosines and sines, grown when longer inputs come (rope_cache.h)

// Stable ids for progress callbacks and timings (public NPUSEG_STAGE_*).
enum class Stage : uint32_t {
  kLoad = 1,
  kPreprocess = 2,
  kVision = 3,
  kText = 5,
  kPostprocess = 10,
};
constexpr size_t kStageCount = 11;  // index: id

// How often each stage ran and how long it took, for tests, --reps and reports.
struct StageTimes {
  uint64_t runs[kStageCount] = {};
  uint64_t nanoseconds[kStageCount] = {};
};

// How the weights of the linear layers are held. The arithmetic is float32 in every case.
enum class WeightForm : uint8_t {
  kAsStored,  // mapped
  kBf16,      // mapped where the file has it, else a copy, rounded to nearest even
  kInt8,      // a copy with a scale for every core::kScaleGroup inputs of a row
};

// The real patches of one picture, row-major over its grid, without padding. Grid sides are
// multiples of the config's pooling. A row holds patch_values() numbers in [0, 1], ordered (row,
// column, channel) with the channel fastest.
struct Patches {
  core::ConstMatrixView pixels;  // [grid_height * grid_width, patch_values()]
  size_t grid_width = 0;
  size_t grid_height = 0;
};

// One piece of an input: token ids, or the soft tokens of a picture. The other member is empty.
struct Part {
  std::span<const int64_t> ids;
  core::ConstMatrixView soft_tokens;  // [n, text hidden size]
};
// All of an input in order, start and end tokens included; every token is pooled.
using Sequence = std::vector<Part>;

// A loaded model, whichever way it computes: the float graph of a checkpoint (Model, below) or the
// NPU graph of a bundle (npu_model.h). Any number of threads may use one.
class Graph {
 public:
  virtual ~Graph();
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  // vision is absent when the file has none or the options did not want it.
  [[nodiscard]] const EmbeddingGemma2Config& config() const { return config_; }
  [[nodiscard]] size_t parameters() const { return parameters_; }      // used ones
  [[nodiscard]] size_t weight_bytes() const { return weight_bytes_; }  // as held, used ones
  // "F32", "BF16", "mixed" ... as stored; of kBf16 and kInt8 that of the linear layers; "BFP16" of
  // a bundle.
  [[nodiscard]] const char* dtype() const { return dtype_; }
  [[nodiscard]] const core::MemoryBudgetPtr& budget() const { return budget_; }
  // CORRUPT_DATA when a file that weights are read from was changed since the model was opened.
  [[nodiscard]] virtual core::Status check_files() const = 0;

  // Soft tokens [grid cells / pooling^2, text hidden size], row-major over the pooled grid.
  // StageTimes may be null here and below.
  virtual core::Result<core::Matrix> encode_picture(core::Call& call, const Patches& patches,
                                                    StageTimes* times) const = 0;
  // Unit vectors [sequences, embedding_dim]. Sequences run together as far as memory is sensible;
  // each vector has the bits it has alone, on any number of threads. Placeholder ids of media that
  // stand among `ids` are embedded like padding by the float graph, as the reference does.
  virtual core::Result<core::Matrix> embed(core::Call& call, std::span<const Sequence> sequences,
                                           StageTimes* times) const = 0;

 protected:
  Graph();
  EmbeddingGemma2Config config_;
  size_t parameters_ = 0;
  size_t weight_bytes_ = 0;
  const char* dtype_ = "F32";
  core::MemoryBudgetPtr budget_;
};

// The float graph. Immutable after load.
class Model final : public Graph {
 public:
  struct Options {
    bool check_weights = true;  // scan for NaN/Inf and name the tensor
    bool vision = true;         // false: texts alone, the vision tensors are not looked at
    WeightForm form = WeightForm::kAsStored;
    core::MemoryBudgetPtr budget;
    core::Logger log;
  };
  static core::Result<std::shared_ptr<const Model>> load(const std::string& directory,
                                                         const Options& options, core::Call& call);
  ~Model() override;

  [[nodiscard]] const Weights& weights() const { return *weights_; }
  [[nodiscard]] const Ropes& ropes() const { return *ropes_; }
  [[nodiscard]] core::Status check_files() const override { return files_.check_unchanged(); }

  core::Result<core::Matrix> encode_picture(core::Call& call, const Patches& patches,
                                            StageTimes* times) const override;
  core::Result<core::Matrix> embed(core::Call& call, std::span<const Sequence> sequences,
                                   StageTimes* times) const override;

 private:
  Model();
  checkpoint::Checkpoint files_;
  core::Buffer copies_;  // of weights, see weight_forms.h
  std::unique_ptr<Weights> weights_;
  std::unique_ptr<Ropes> ropes_;
};

// The first `dims` numbers of a unit vector, to unit length again (Matryoshka).
void shorten(std::span<const float> vector, size_t dims, float* out);

}  // namespace npuseg::embeddinggemma2

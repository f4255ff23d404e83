// SPDX-License-Identifier: Apache-2.0
// Opening an EmbeddingGemma 2 checkpoint: config and tensors.
#include <algorithm>

#include "compute/elementwise.h"
#include "model/embeddinggemma2/embeddinggemma2.h"
#include "model/embeddinggemma2/rope_cache.h"
#include "model/embeddinggemma2/weight_forms.h"
#include "model/embeddinggemma2/weights.h"

namespace npuseg::embeddinggemma2 {

using core::Result;
using core::Status;

namespace {

constexpr const char* kLogSource = "model.embeddinggemma2";

// As the reference does, tensors too many are left alone; but the user should hear of them: a
// config that names too few layers shows in this way only.
void report_surplus(const Weights& weights, const std::string& directory, const core::Logger& log) {
  constexpr size_t kNamed = 3;
  if (weights.surplus.empty()) return;
  std::string names;
  for (size_t i = 0; i < std::min(kNamed, weights.surplus.size()); ++i) {
    names += (i == 0 ? "" : ", ") + weights.surplus[i];
  }
  if (weights.surplus.size() > kNamed) {
    names += core::format(" and %zu more", weights.surplus.size() - kNamed);
  }
  log(core::LogLevel::kWarn, kLogSource,
      core::format("%s: tensors that config.json has no place for are not used: %s; check that "
                   "the files belong together",
                   directory.c_str(), names.c_str()));
}

}  // namespace

Graph::Graph() = default;
Graph::~Graph() = default;

Model::Model() = default;
Model::~Model() = default;

Result<std::shared_ptr<const Model>> Model::load(const std::string& directory,
                                                 const Options& options, core::Call& call) {
  compute::apply_isa_limit();
  std::shared_ptr<Model> model(new Model);
  model->budget_ = options.budget;
  NPUSEG_ASSIGN_OR_RETURN(model->config_, checkpoint::read_embeddinggemma2_config(directory));
  if (!options.vision) model->config_.vision.reset();
  NPUSEG_ASSIGN_OR_RETURN(model->files_, checkpoint::Checkpoint::open(directory));
  model->weights_ = std::make_unique<Weights>();
  NPUSEG_RETURN_IF_ERROR(
      Weights::bind(model->files_, model->config_, directory, model->weights_.get()));
  const core::DType first = model->weights_->used.front().second.dtype;
  const bool same = std::all_of(model->weights_->used.begin(), model->weights_->used.end(),
                                [&](const auto& item) { return item.second.dtype == first; });
  model->dtype_ = same ? core::dtype_name(first) : "mixed";
  report_surplus(*model->weights_, directory, options.log);
  NPUSEG_RETURN_IF_ERROR(prepare_weights(directory, options.form, options.check_weights,
                                         options.budget, call, model->weights_.get(),
                                         &model->copies_));
  for (const auto& [name, view] : model->weights_->used) {
    model->parameters_ += view.shape.elements();
    model->weight_bytes_ += view.bytes();
  }
  std::string form;
  if (const char* held = form_name(options.form)) {
    form = core::format(", linear layers in %s (%s)", held,
                        model->copies_.empty()
                            ? "as stored"
                            : core::format("copies of %zu bytes", model->copies_.bytes()).c_str());
  }
  model->ropes_ = std::make_unique<Ropes>(model->config_);
  options.log(core::LogLevel::kInfo, kLogSource,
              core::format("%s: %zu parameters in %s%s, vectors of %zu, pictures %s, %s, SIMD %s",
                           directory.c_str(), model->parameters_, model->dtype_, form.c_str(),
                           model->config_.text.embedding_dim,
                           model->config_.vision.has_value() ? "too" : "no",
                           compute::gemm_backend(), compute::simd_target()));
  if (form_name(options.form) != nullptr) model->dtype_ = form_name(options.form);
  return std::shared_ptr<const Model>(std::move(model));
}

}  // namespace npuseg::embeddinggemma2

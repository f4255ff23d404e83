// SPDX-License-Identifier: Apache-2.0
#include "engine/model_source.h"

#include "bundle/bundle.h"
#include "core/file.h"

namespace npuseg::engine {

using checkpoint::ModelKind;
using core::Result;
using core::Status;

namespace {

// A checkpoint may have a manifest of some other tool beside its files.
bool holds_bundle(const std::string& directory) {
  if (!bundle::Bundle::is_bundle(directory)) return false;
  return core::file_exists(core::join_path(directory, "tensors.txt")) ||
         !core::file_exists(core::join_path(directory, "config.json"));
}

}  // namespace

Result<ModelDirectory> probe_directory(const std::string& directory) {
  ModelDirectory found;
  if (holds_bundle(directory)) {
    found.source = ModelSource::kBundle;
    NPUSEG_ASSIGN_OR_RETURN(const bundle::BundleKind kind, bundle::Bundle::probe(directory));
    found.kind = kind == bundle::BundleKind::kSam3 ? ModelKind::kSam3 : ModelKind::kEmbeddingGemma2;
    return found;
  }
  NPUSEG_ASSIGN_OR_RETURN(found.kind, checkpoint::probe_model_kind(directory));
  return found;
}

Result<ModelSource> check_kind(const std::string& directory, ModelKind wanted) {
  NPUSEG_ASSIGN_OR_RETURN(const ModelDirectory found, probe_directory(directory));
  if (found.kind == wanted) return found.source;
  const bool is_sam3 = found.kind == ModelKind::kSam3;
  return Status(core::Code::kUnsupported,
                "cannot use model: " + directory + ": is " +
                    (is_sam3 ? "a SAM 3 model, which finds things; open it with npuseg_sam3_load"
                             : "an EmbeddingGemma 2 model, which embeds; open it with "
                               "npuseg_embeddinggemma2_load"));
}

}  // namespace npuseg::engine

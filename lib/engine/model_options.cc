// SPDX-License-Identifier: Apache-2.0
#include "engine/model_options.h"

namespace npuseg::engine {

core::Status check_kind(const std::string& directory, checkpoint::ModelKind wanted) {
  NPUSEG_ASSIGN_OR_RETURN(const checkpoint::ModelKind kind,
                          checkpoint::probe_model_kind(directory));
  if (kind == wanted) return {};
  const bool is_sam3 = kind == checkpoint::ModelKind::kSam3;
  return {core::Code::kUnsupported,
          "cannot use model: " + directory + ": is " +
              (is_sam3 ? "a SAM 3 model, which finds things; open it with npuseg_sam3_load"
                       : "an EmbeddingGemma 2 model, which embeds; open it with "
                         "npuseg_embeddinggemma2_load")};
}

}  // namespace npuseg::engine

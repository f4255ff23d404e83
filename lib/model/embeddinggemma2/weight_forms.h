// SPDX-License-Identifier: Apache-2.0
// How the weights of the linear layers are held while the model is open: as stored, or as smaller
// copies. Tables and norms stay as stored. What was copied, and the tables whose rows are gathered,
// do not stay resident.
#pragma once

#include <string>

#include "core/buffer.h"
#include "core/status.h"
#include "core/threads.h"
#include "model/embeddinggemma2/embeddinggemma2.h"
#include "model/embeddinggemma2/weights.h"

namespace npuseg::embeddinggemma2 {

// "BF16", "I8"; null: as stored.
const char* form_name(WeightForm form);

// Reads the used tensors once, on all threads of the call: looks for NaN and infinity where `check`
// says so, and makes the copies that the form asks for. Then the views of the linear layers show
// the copies, which live in *copies. LIMIT_EXCEEDED before any work when the budget has no room.
core::Status prepare_weights(const std::string& directory, WeightForm form, bool check,
                             const core::MemoryBudgetPtr& budget, core::Call& call,
                             Weights* weights, core::Buffer* copies);

}  // namespace npuseg::embeddinggemma2

// SPDX-License-Identifier: Apache-2.0
// The stages of a SAM 3 bundle against its references (spec iron-bundle-sam3.md, 10.1).
#pragma once

#include "core/threads.h"
#include "engine/report.h"
#include "model/sam3/npu_model.h"

namespace npuseg::engine {

// A row or more a stage, each on the references' inputs, so that one stage's fault is not the next
// one's. The caller holds the model.
core::Status check_sam3_stages(const sam3::NpuModel& model, core::Call& call, Report* report);

}  // namespace npuseg::engine

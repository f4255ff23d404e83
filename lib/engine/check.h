// SPDX-License-Identifier: Apache-2.0
// A bundle against the references that it carries: every stage and every stored case.
#pragma once

#include <memory>
#include <string>

#include "core/status.h"
#include "engine/model_options.h"
#include "engine/report.h"

namespace npuseg::engine {

// A failed row is no error. UNSUPPORTED: no bundle; WRONG_STATE: a bundle without references.
core::Result<std::shared_ptr<const Report>> check_bundle(const std::string& directory,
                                                         const ModelOptions& options);

}  // namespace npuseg::engine

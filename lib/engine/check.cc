// SPDX-License-Identifier: Apache-2.0
#include "engine/check.h"

#include "engine/embeddinggemma2_engine.h"
#include "engine/sam3_engine.h"

namespace npuseg::engine {

using core::Code;
using core::Result;
using core::Status;

namespace {

template <class Engine>
Status check_model(const std::string& directory, const ModelOptions& options, Report* report) {
  NPUSEG_ASSIGN_OR_RETURN(const auto engine, Engine::load(directory, options));
  report->set_device(engine->facts().device);
  core::Call call(engine->with_defaults(options.call));
  return engine->check(call, report);
}

}  // namespace

Result<std::shared_ptr<const Report>> check_bundle(const std::string& directory,
                                                   const ModelOptions& options) {
  NPUSEG_ASSIGN_OR_RETURN(const ModelDirectory found, probe_directory(directory));
  if (found.source != ModelSource::kBundle) {
    return Status(Code::kUnsupported,
                  "cannot check model: " + directory +
                      ": is a checkpoint, which carries no references; verify its files, or give "
                      "an NPU bundle");
  }
  auto report = std::make_shared<Report>();
  report->set_model(found);
  NPUSEG_RETURN_IF_ERROR(
      found.kind == checkpoint::ModelKind::kSam3
          ? check_model<Sam3Engine>(directory, options, report.get())
          : check_model<EmbeddingGemma2Engine>(directory, options, report.get()));
  return std::shared_ptr<const Report>(std::move(report));
}

}  // namespace npuseg::engine

// SPDX-License-Identifier: Apache-2.0
// Verifying files, checking and repacking bundles at the C boundary.
#include "api/describe.h"
#include "api/guard.h"
#include "api/handles.h"
#include "api/options.h"
#include "api/structs.h"
#include "engine/check.h"
#include "engine/repack.h"
#include "engine/verify.h"

using npuseg::api::check_directory;
using npuseg::api::copy_text;
using npuseg::api::export_struct;
using npuseg::api::guard;
using npuseg::api::invalid;
using npuseg::api::make_handle;
using npuseg::api::object_of;
using npuseg::core::Result;
using npuseg::core::Status;
namespace engine = npuseg::engine;

namespace {

// work: verify_directory or check_bundle.
template <class Work>
Status make_report(const char* directory, const npuseg_model_options* options, npuseg_report** out,
                   Work&& work) {
  if (out == nullptr) return invalid("cannot make report: out_report is NULL; pass its address");
  *out = nullptr;
  NPUSEG_RETURN_IF_ERROR(check_directory(directory));
  NPUSEG_ASSIGN_OR_RETURN(const engine::ModelOptions wanted, npuseg::api::to_engine(options));
  NPUSEG_ASSIGN_OR_RETURN(std::shared_ptr<const engine::Report> report, work(directory, wanted));
  make_handle(std::move(report), out);
  return {};
}

npuseg_report_data data_of(const engine::Report& report) {
  npuseg_report_data data{};
  data.rows = static_cast<uint32_t>(report.rows().size());
  data.failures = static_cast<uint32_t>(report.failures());
  if (const auto& model = report.model()) {
    copy_text(npuseg::api::kind_name(model->kind), data.kind);
    copy_text(npuseg::api::source_name(model->source), data.source);
  }
  copy_text(report.device().used, data.device_used);
  copy_text(report.device().why, data.device_why);
  return data;
}

}  // namespace

extern "C" {

npuseg_status npuseg_verify(const char* directory, const npuseg_model_options* options,
                            npuseg_report** out_report) {
  return guard(
      [&] { return make_report(directory, options, out_report, &engine::verify_directory); });
}

npuseg_status npuseg_check(const char* directory, const npuseg_model_options* options,
                           npuseg_report** out_report) {
  return guard([&] { return make_report(directory, options, out_report, &engine::check_bundle); });
}

npuseg_status npuseg_repack(const char* checkpoint, const char* kernels, const char* directory,
                            const npuseg_model_options* options) {
  return guard([&]() -> Status {
    for (const char* folder : {checkpoint, kernels, directory}) {
      NPUSEG_RETURN_IF_ERROR(check_directory(folder));
    }
    NPUSEG_ASSIGN_OR_RETURN(const engine::ModelOptions wanted, npuseg::api::to_engine(options));
    return engine::repack(checkpoint, kernels, directory, wanted);
  });
}

npuseg_status npuseg_report_info(const npuseg_report* report, npuseg_report_data* out_info) {
  return guard([&]() -> Status {
    NPUSEG_ASSIGN_OR_RETURN(const auto object, object_of(report));
    return export_struct(data_of(*object), out_info, "npuseg_report_data");
  });
}

npuseg_status npuseg_report_row(const npuseg_report* report, uint32_t index, npuseg_row* out_row) {
  return guard([&]() -> Status {
    NPUSEG_ASSIGN_OR_RETURN(const auto object, object_of(report));
    const auto& rows = object->rows();
    if (index >= rows.size()) {
      return invalid(
          npuseg::core::format("cannot read report: row %u of %zu; ask "
                               "npuseg_report_info first",
                               index, rows.size()));
    }
    const engine::ReportRow& from = rows[index];
    npuseg_row row{};
    row.state = static_cast<uint32_t>(from.state);
    row.compare = static_cast<uint32_t>(from.compare);
    row.index = index;
    row.value = from.value;
    row.bound = from.bound;
    row.subject = from.subject.c_str();
    row.name = from.name.c_str();
    row.detail = from.detail.c_str();
    return export_struct(row, out_row, "npuseg_row");
  });
}

}  // extern "C"

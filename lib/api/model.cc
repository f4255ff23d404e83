// SPDX-License-Identifier: Apache-2.0
// Models, devices and versions at the C boundary.
#include <algorithm>

#include "api/describe.h"
#include "api/guard.h"
#include "api/handles.h"
#include "api/options.h"
#include "api/structs.h"

using npuseg::api::check_directory;
using npuseg::api::copy_text;
using npuseg::api::describe;
using npuseg::api::export_struct;
using npuseg::api::guard;
using npuseg::api::invalid;
using npuseg::api::make_handle;
using npuseg::api::object_of;
using npuseg::core::Status;
namespace engine = npuseg::engine;

namespace {

Status load(const char* directory, const npuseg_model_options* options, npuseg_sam3** out) {
  if (out == nullptr) return invalid("cannot load model: out_model is NULL; pass its address");
  *out = nullptr;
  NPUSEG_RETURN_IF_ERROR(check_directory(directory));
  NPUSEG_ASSIGN_OR_RETURN(const engine::ModelOptions wanted, npuseg::api::to_engine(options));
  NPUSEG_ASSIGN_OR_RETURN(std::shared_ptr<engine::Sam3Engine> model,
                          engine::Sam3Engine::load(directory, wanted));
  make_handle(std::move(model), out);
  return {};
}

}  // namespace

extern "C" {

uint32_t npuseg_version(void) {
  return NPUSEG_VERSION_MAJOR << 16 | NPUSEG_VERSION_MINOR << 8 | NPUSEG_VERSION_PATCH;
}

const char* npuseg_version_string(void) { return NPUSEG_BUILD_VERSION; }

const char* npuseg_build_info(void) { return NPUSEG_BUILD_INFO; }

npuseg_status npuseg_device_count(uint32_t* out_count) {
  return guard([&]() -> Status {
    if (out_count == nullptr) return invalid("cannot count devices: out_count is NULL");
    *out_count = static_cast<uint32_t>(engine::list_devices().size());
    return {};
  });
}

npuseg_status npuseg_device_at(uint32_t index, npuseg_device_info* out_info) {
  return guard([&]() -> Status {
    const auto devices = engine::list_devices();
    if (index >= devices.size()) {
      return invalid(
          npuseg::core::format("cannot describe device: %u of %zu; ask "
                               "npuseg_device_count first",
                               index, devices.size()));
    }
    npuseg_device_info info{};
    const engine::DeviceInfo& device = devices[index];
    info.usable = device.usable ? 1 : 0;
    copy_text(device.name, info.name);
    copy_text(device.description, info.description);
    copy_text(device.reason, info.reason);
    copy_text(device.remedy, info.remedy);
    return export_struct(info, out_info, "npuseg_device_info");
  });
}

npuseg_status npuseg_sam3_load(const char* directory, const npuseg_model_options* options,
                               npuseg_sam3** out_model) {
  return guard([&] { return load(directory, options, out_model); });
}

npuseg_status npuseg_sam3_probe(const char* directory, npuseg_model_info* out_info) {
  return guard([&]() -> Status {
    NPUSEG_RETURN_IF_ERROR(check_directory(directory));
    NPUSEG_ASSIGN_OR_RETURN(const engine::Sam3Facts facts, engine::Sam3Engine::probe(directory));
    return export_struct(describe(facts), out_info, "npuseg_model_info");
  });
}

npuseg_status npuseg_sam3_info(const npuseg_sam3* model, npuseg_model_info* out_info) {
  return guard([&]() -> Status {
    NPUSEG_ASSIGN_OR_RETURN(const auto object, object_of(model));
    return export_struct(describe(object->facts()), out_info, "npuseg_model_info");
  });
}

npuseg_status npuseg_sam3_counters(const npuseg_sam3* model, npuseg_counters* out_counters) {
  return guard([&]() -> Status {
    NPUSEG_ASSIGN_OR_RETURN(const auto object, object_of(model));
    npuseg_counters counters = npuseg::api::count(*object);
    counters.prompt_cache_hits = object->prompt_cache_hits();
    counters.prompt_cache_bytes = object->prompt_cache_bytes();
    return export_struct(counters, out_counters, "npuseg_counters");
  });
}

}  // extern "C"

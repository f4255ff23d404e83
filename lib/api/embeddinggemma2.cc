// SPDX-License-Identifier: Apache-2.0
// EmbeddingGemma 2 models at the C boundary: opening them and asking what they are.
#include <algorithm>

#include "api/describe.h"
#include "api/guard.h"
#include "api/handles.h"
#include "api/options.h"
#include "api/structs.h"

using npuseg::api::check_directory;
using npuseg::api::describe;
using npuseg::api::export_struct;
using npuseg::api::guard;
using npuseg::api::invalid;
using npuseg::api::object_of;
using npuseg::core::Status;
namespace engine = npuseg::engine;

extern "C" {

npuseg_status npuseg_embeddinggemma2_load(const char* directory,
                                          const npuseg_model_options* options,
                                          npuseg_embeddinggemma2** out_model) {
  return guard([&]() -> Status {
    if (out_model == nullptr) {
      return invalid("cannot load model: out_model is NULL; pass its address");
    }
    *out_model = nullptr;
    NPUSEG_RETURN_IF_ERROR(check_directory(directory));
    NPUSEG_ASSIGN_OR_RETURN(const engine::ModelOptions wanted, npuseg::api::to_engine(options));
    NPUSEG_ASSIGN_OR_RETURN(auto model, engine::EmbeddingGemma2Engine::load(directory, wanted));
    npuseg::api::make_handle(std::move(model), out_model);
    return {};
  });
}

npuseg_status npuseg_embeddinggemma2_probe(const char* directory, npuseg_model_info* out_info) {
  return guard([&]() -> Status {
    NPUSEG_RETURN_IF_ERROR(check_directory(directory));
    NPUSEG_ASSIGN_OR_RETURN(const auto facts, engine::EmbeddingGemma2Engine::probe(directory));
    return export_struct(describe(facts), out_info, "npuseg_model_info");
  });
}

npuseg_status npuseg_embeddinggemma2_info(const npuseg_embeddinggemma2* model,
                                          npuseg_model_info* out_info) {
  return guard([&]() -> Status {
    NPUSEG_ASSIGN_OR_RETURN(const auto object, object_of(model));
    return export_struct(describe(object->facts()), out_info, "npuseg_model_info");
  });
}

npuseg_status npuseg_embeddinggemma2_counters(const npuseg_embeddinggemma2* model,
                                              npuseg_counters* out_counters) {
  return guard([&]() -> Status {
    NPUSEG_ASSIGN_OR_RETURN(const auto object, object_of(model));
    return export_struct(npuseg::api::count(*object), out_counters, "npuseg_counters");
  });
}

npuseg_status npuseg_embeddinggemma2_dims(const npuseg_embeddinggemma2* model, uint32_t* dst,
                                          size_t* count) {
  return guard([&]() -> Status {
    NPUSEG_ASSIGN_OR_RETURN(const auto object, object_of(model));
    if (count == nullptr) return invalid("cannot list dims: count is NULL; pass its address");
    const std::vector<size_t>& dims = object->facts().sentence.dims;
    const size_t room = *count;
    *count = dims.size();
    if (dst == nullptr) return {};
    if (room < dims.size()) {
      return {
          npuseg::core::Code::kBufferTooSmall,
          npuseg::core::format("cannot list dims: room for %zu, there are %zu", room, dims.size())};
    }
    std::transform(dims.begin(), dims.end(), dst,
                   [](size_t value) { return static_cast<uint32_t>(value); });
    return {};
  });
}

npuseg_status npuseg_embeddinggemma2_task_count(const npuseg_embeddinggemma2* model,
                                                uint32_t* out_count) {
  return guard([&]() -> Status {
    NPUSEG_ASSIGN_OR_RETURN(const auto object, object_of(model));
    if (out_count == nullptr) return invalid("cannot count tasks: out_count is NULL");
    *out_count = static_cast<uint32_t>(object->facts().sentence.prompts.size());
    return {};
  });
}

npuseg_status npuseg_embeddinggemma2_task_at(const npuseg_embeddinggemma2* model, uint32_t index,
                                             const char** out_name, const char** out_prompt) {
  return guard([&]() -> Status {
    NPUSEG_ASSIGN_OR_RETURN(const auto object, object_of(model));
    const auto& prompts = object->facts().sentence.prompts;
    if (index >= prompts.size()) {
      return invalid(
          npuseg::core::format("cannot name task: %u of %zu; ask "
                               "npuseg_embeddinggemma2_task_count first",
                               index, prompts.size()));
    }
    if (out_name != nullptr) *out_name = prompts[index].name.c_str();
    if (out_prompt != nullptr) *out_prompt = prompts[index].text.c_str();
    return {};
  });
}

}  // extern "C"

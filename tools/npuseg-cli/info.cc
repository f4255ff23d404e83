// SPDX-License-Identifier: Apache-2.0
#include <npuseg.h>

#include <cstdio>
#include <cstring>
#include <vector>

#include "commands.h"
#include "handles.h"
#include "json.h"
#include "model.h"
#include "output.h"
#include "targets.h"

namespace cli {

namespace {

std::string line(const char* name, const std::string& value) {
  std::string text = std::string("  ") + name;
  text.resize(14, ' ');
  return text + value + "\n";
}

std::string mib(uint64_t bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f MiB", static_cast<double>(bytes) / 1048576.0);
  return text;
}

std::string number(uint64_t value) { return std::to_string(value); }

// A checkpoint is computed by the processor; a bundle by any NPU there is, or by the software one.
std::vector<std::string> devices_of(const npuseg_model_info& info) {
  if (std::strcmp(info.source, "bundle") != 0) return {"cpu"};
  std::vector<std::string> names;
  uint32_t count = 0;
  npuseg_device_count(&count);
  for (uint32_t i = 0; i < count; ++i) {
    npuseg_device_info device{};
    device.struct_size = sizeof device;
    if (npuseg_device_at(i, &device) != NPUSEG_OK || device.usable == 0) continue;
    if (std::strcmp(device.name, "cpu") != 0) names.emplace_back(device.name);
  }
  return names;
}

std::string needs_text(const npuseg_model_info& info, const char* of_what) {
  std::string needs = "about " + mib(info.memory_estimate) + " of memory for " + of_what;
  if (info.npu_contexts != 0) {
    needs += ", " + number(info.npu_contexts) + " hardware contexts of an NPU";
  }
  std::string names;
  for (const std::string& name : devices_of(info)) names += (names.empty() ? "" : ", ") + name;
  return line("needs", needs) + line("runs on", names);
}

std::string head_text(const std::string& path, const npuseg_model_info& info) {
  return path + "\n" + line("kind", std::string(info.kind) + " (" + info.source + ")") +
         line("weights", number(info.parameters) + " parameters, " + info.dtype + ", " +
                             mib(info.weight_bytes));
}

std::string layers_text(const npuseg_model_info& info) {
  return line("layers", number(info.vision_layers) + " vision (width " + number(info.hidden_size) +
                            "), " + number(info.text_layers) + " text");
}

std::string sam3_text(const std::string& path, const npuseg_model_info& info) {
  const std::string side = number(info.image_side);
  const std::string mask = number(info.mask_side);
  return head_text(path, info) +
         line("picture", side + " x " + side + ", masks " + mask + " x " + mask + ", " +
                             number(info.queries) + " queries") +
         line("prompt", "at most " + number(info.max_tokens) + " tokens") + layers_text(info) +
         needs_text(info, "a picture and a prompt");
}

std::string embedder_text(const std::string& path, const npuseg_model_info& info) {
  return head_text(path, info) +
         line("vector", number(info.embedding_dim) + " numbers of unit length") +
         line("picture", info.soft_tokens == 0 ? std::string("none: it embeds texts alone")
                                               : "any size, at most " + number(info.soft_tokens) +
                                                     " tokens and its two ends") +
         line("input", "at most " + number(info.max_tokens) + " tokens") + layers_text(info) +
         needs_text(info, "a picture");
}

}  // namespace

int run_info(const Options& options) {
  if (options.positional.size() != 1) {
    report("wrong usage: info: takes one MODEL; see npuseg-cli info --help");
    return kUsage;
  }
  if (const int status = check_targets(options); status != kDone) return status;
  const std::string& path = options.positional[0];
  npuseg_model_info info{};
  info.struct_size = sizeof info;
  Failure failed;
  if (const npuseg_status status = probe_model(path, &info, &failed); status != NPUSEG_OK) {
    report(failed.message);
    return exit_of(status, kModel);
  }
  JsonWriter json;
  json.open('{').key("format").text("npuseg-info-1").key("library").text(npuseg_version_string());
  json.key("model").open('{').key("kind").text(info.kind).key("source").text(info.source);
  json.key("path").text(path).key("dtype").text(info.dtype);
  json.key("parameters").number(info.parameters).key("weight_bytes").number(info.weight_bytes);
  const bool embeds = info.embedding_dim != 0;
  if (embeds) {
    json.key("embedding_dim").number(uint64_t{info.embedding_dim}).key("soft_tokens");
    json.number(uint64_t{info.soft_tokens});
  } else {
    json.key("image_size").number(uint64_t{info.image_side}).key("mask_size");
    json.number(uint64_t{info.mask_side}).key("queries").number(uint64_t{info.queries});
  }
  json.key("max_tokens").number(uint64_t{info.max_tokens});
  json.key("vision_layers").number(uint64_t{info.vision_layers});
  json.key("text_layers").number(uint64_t{info.text_layers});
  json.key("hidden_size").number(uint64_t{info.hidden_size}).close('}');
  json.key("needs").open('{').key("memory_bytes").number(info.memory_estimate);
  json.key("npu_contexts").number(uint64_t{info.npu_contexts}).close('}');
  json.key("devices").open('[');
  for (const std::string& name : devices_of(info)) json.text(name);
  json.close(']').close('}');
  bool written = true;
  if (!options.json.empty()) written = emit_json(options, json.str());
  if (!options.json_to_stdout()) {
    written = write_stdout(embeds ? embedder_text(path, info) : sam3_text(path, info)) && written;
  }
  return written ? kDone : kInput;
}

}  // namespace cli

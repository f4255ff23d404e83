// SPDX-License-Identifier: Apache-2.0
#include <npuseg.h>

#include <cstdio>

#include "commands.h"
#include "handles.h"
#include "json.h"
#include "output.h"
#include "targets.h"

namespace cli {

int run_info(const Options& options) {
  if (options.positional.size() != 1) {
    report("wrong usage: info: takes one MODEL; see npuseg-cli info --help");
    return kUsage;
  }
  if (const int status = check_targets(options); status != kDone) return status;
  const std::string& path = options.positional[0];
  npuseg_model_info info{};
  info.struct_size = sizeof info;
  if (const npuseg_status status = npuseg_sam3_probe(path.c_str(), &info); status != NPUSEG_OK) {
    report(failure(status).message);
    return exit_of(status, kModel);
  }
  JsonWriter json;
  json.open('{').key("format").text("npuseg-info-1").key("library").text(npuseg_version_string());
  json.key("model").open('{').key("kind").text(info.kind).key("source").text(info.source);
  json.key("path").text(path).key("dtype").text(info.dtype);
  json.key("parameters").number(info.parameters).key("weight_bytes").number(info.weight_bytes);
  json.key("image_size").number(uint64_t{info.image_side}).key("mask_size");
  json.number(uint64_t{info.mask_side}).key("queries").number(uint64_t{info.queries});
  json.key("max_tokens").number(uint64_t{info.max_tokens});
  json.key("vision_layers").number(uint64_t{info.vision_layers});
  json.key("text_layers").number(uint64_t{info.text_layers});
  json.key("hidden_size").number(uint64_t{info.hidden_size}).close('}');
  json.key("needs").open('{').key("memory_bytes").number(info.memory_estimate);
  json.key("npu_contexts").number(uint64_t{0}).close('}');
  json.key("devices").open('[').text("cpu").close(']').close('}');
  bool written = true;
  if (!options.json.empty()) written = emit_json(options, json.str());
  if (!options.json_to_stdout()) {
    char text[1024];
    std::snprintf(text, sizeof text,
                  "%s\n"
                  "  kind        %s (%s)\n"
                  "  weights     %llu parameters, %s, %.1f MiB\n"
                  "  picture     %u x %u, masks %u x %u, %u queries\n"
                  "  prompt      at most %u tokens\n"
                  "  layers      %u vision (width %u), %u text\n"
                  "  needs       about %.1f MiB of memory for a picture and a prompt\n"
                  "  runs on     cpu\n",
                  path.substr(0, 300).c_str(), info.kind, info.source,
                  static_cast<unsigned long long>(info.parameters), info.dtype,
                  static_cast<double>(info.weight_bytes) / 1048576.0, info.image_side,
                  info.image_side, info.mask_side, info.mask_side, info.queries, info.max_tokens,
                  info.vision_layers, info.hidden_size, info.text_layers,
                  static_cast<double>(info.memory_estimate) / 1048576.0);
    written = write_stdout(text) && written;
  }
  return written ? kDone : kInput;
}

}  // namespace cli

// SPDX-License-Identifier: Apache-2.0
#include <npuseg.h>

#include "commands.h"
#include "handles.h"
#include "json.h"
#include "output.h"
#include "targets.h"

namespace cli {

bool emit_json(const Options& options, const std::string& document) {
  const std::string text = document + "\n";
  return options.json_to_stdout() ? write_stdout(text) : write_file(options.json, text);
}

int run_devices(const Options& options) {
  if (!options.positional.empty()) {
    report("wrong usage: devices: takes no arguments; see npuseg-cli --help");
    return kUsage;
  }
  if (const int status = check_targets(options); status != kDone) return status;
  uint32_t count = 0;
  npuseg_device_count(&count);
  std::string text;
  JsonWriter json;
  json.open('{')
      .key("format")
      .text("npuseg-devices-1")
      .key("library")
      .text(npuseg_version_string());
  json.key("devices").open('[');
  for (uint32_t i = 0; i < count; ++i) {
    npuseg_device_info info{};
    info.struct_size = sizeof info;
    if (const npuseg_status status = npuseg_device_at(i, &info); status != NPUSEG_OK) {
      report(failure(status).message);
      return kDevice;
    }
    text += std::string(info.name) + "  " + (info.usable != 0 ? "usable" : "not usable") + ": " +
            info.reason + (info.remedy[0] != '\0' ? std::string("; ") + info.remedy : "") + "  (" +
            info.description + ")\n";
    json.open('{').key("name").text(info.name).key("description").text(info.description);
    json.key("usable").boolean(info.usable != 0).key("reason").text(info.reason);
    json.key("remedy").text(info.remedy).close('}');
  }
  json.close(']').close('}');
  bool written = true;
  if (!options.json.empty()) written = emit_json(options, json.str());
  if (!options.json_to_stdout()) written = write_stdout(text) && written;
  return written ? kDone : kInput;
}

}  // namespace cli

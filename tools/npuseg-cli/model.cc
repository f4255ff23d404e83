// SPDX-License-Identifier: Apache-2.0
#include "model.h"

#include <algorithm>
#include <cstdio>

#include "json.h"

namespace cli {

namespace {

void on_log(void*, uint32_t level, const char* component, const char* message) {
  constexpr const char* kNames[] = {"", "error", "warn", "info", "debug"};
  std::fprintf(stderr, "npuseg-cli: %s: %s: %s\n", kNames[std::min(level, 4u)], component, message);
}

}  // namespace

npuseg_model_options model_options(const Options& options, bool again, Progress* progress) {
  npuseg_model_options wanted{};
  wanted.struct_size = sizeof wanted;
  wanted.flags = again ? static_cast<uint32_t>(NPUSEG_LOAD_SKIP_WEIGHT_CHECK) : 0u;
  wanted.device = options.device.c_str();
  wanted.threads = options.threads;
  wanted.precision = options.precision;
  wanted.log = on_log;
  wanted.log_level = options.quiet ? static_cast<uint32_t>(NPUSEG_LOG_ERROR) : options.log_level;
  wanted.progress = on_progress;
  wanted.progress_user = progress;
  return wanted;
}

int load_failed(const Options& options, npuseg_status status) {
  const Failure failed = failure(status);
  const std::string& path = options.positional[0];
  npuseg_model_info info{};
  info.struct_size = sizeof info;
  if (status == NPUSEG_UNSUPPORTED) {
    Failure ignored;
    const bool fine = probe_model(path, &info, &ignored) == NPUSEG_OK;
    const std::string kind = info.kind;
    if (fine && kind == "sam3" && options.command == "embed") {
      report("cannot use model: " + path +
             ": is a SAM 3 model, which finds things; use npuseg-cli segment, or give an "
             "EmbeddingGemma 2 model");
      return kModel;
    }
    if (fine && kind == "embeddinggemma2" && options.command == "segment") {
      report("cannot use model: " + path +
             ": is an EmbeddingGemma 2 model, which embeds; use npuseg-cli embed, or give a SAM 3 "
             "model");
      return kModel;
    }
    report(failed.message);
    // Of a model that is fine the device is what cannot do it.
    return fine && options.precision != NPUSEG_PRECISION_AUTO ? kDevice : kModel;
  }
  report(failed.message);
  if (status == NPUSEG_LIMIT_EXCEEDED) return kLimit;
  const bool usage = status == NPUSEG_INVALID_ARGUMENT && options.device != "auto";
  return exit_of(status, usage ? kUsage : kModel);
}

npuseg_status probe_model(const std::string& path, npuseg_model_info* info, Failure* failed) {
  npuseg_status status = npuseg_sam3_probe(path.c_str(), info);
  if (status == NPUSEG_OK) return status;
  *failed = failure(status);
  if (status != NPUSEG_UNSUPPORTED) return status;
  status = npuseg_embeddinggemma2_probe(path.c_str(), info);
  if (status == NPUSEG_OK) return status;
  const Failure second = failure(status);
  // Of a SAM 3 model that cannot be used the first message says why, the second only what it is.
  if (second.message.find("npuseg_sam3_load") == std::string::npos) *failed = second;
  return failed->status;
}

npuseg_status open_picture(const std::string& path, const PictureOptions& how, ImagePtr* image) {
  npuseg_image_options wanted{};
  wanted.struct_size = sizeof wanted;
  wanted.flags = how.apply_exif ? 0u : static_cast<uint32_t>(NPUSEG_IMAGE_IGNORE_EXIF);
  wanted.alpha = how.alpha;
  wanted.colour = how.colour;
  npuseg_image* opened = nullptr;
  const NoWriting guard;
  const npuseg_status status = npuseg_image_open(path.c_str(), &wanted, &opened);
  image->reset(opened);
  return status;
}

void StageTimes::print() {
  for (auto& [name, values] : times_) {
    std::sort(values.begin(), values.end());
    std::fprintf(stderr, "%-14s min %.2f  median %.2f  max %.2f ms  (%zu runs)\n", name.c_str(),
                 values.front(), values[values.size() / 2], values.back(), values.size());
  }
}

std::string document_head(const char* format, const Options& options,
                          const npuseg_model_info& facts) {
  JsonWriter json;
  json.open('{').key("format").text(format);
  json.key("library").text(npuseg_version_string());
  json.key("model").open('{').key("kind").text(facts.kind).key("source").text(facts.source);
  json.key("path").text(options.positional[0]).close('}');
  json.key("device").open('{').key("asked").text(options.device);
  json.key("used").text(facts.device_used).key("why").text(facts.device_why).close('}');
  return json.str();
}

void write_error(const Failure& failed, JsonWriter* json) {
  json->key("error").open('{').key("status").text(npuseg_status_name(failed.status));
  json->key("message").text(failed.message).close('}');
}

int stopped() {
  report(kStopped);
  return kInterrupted;
}

}  // namespace cli

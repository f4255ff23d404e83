// SPDX-License-Identifier: Apache-2.0
#include "engine/device.h"

#include <glob.h>

#include <algorithm>

#include "core/threads.h"
#include "npu/soft/soft_device.h"

namespace npuseg::engine {

using core::Code;
using core::Result;
using core::Status;

namespace {

constexpr const char* kNoBackEnd = "this version of npuseg has no NPU back end";
constexpr const char* kSoft = "soft";
constexpr const char* kFaithful = "soft:faithful";

bool has_accel_node() {
  glob_t found{};
  const bool any = ::glob("/dev/accel/accel*", 0, nullptr, &found) == 0 && found.gl_pathc != 0;
  ::globfree(&found);
  return any;
}

std::string npu_reason() {
  return has_accel_node() ? std::string("an accelerator node is present, but ") + kNoBackEnd
                          : "no NPU: no /dev/accel node";
}

// "xrt:12" -> true for "xrt"; the number must be a number.
bool names_device(const std::string& name, const std::string& kind) {
  if (name == kind) return true;
  if (name.size() < kind.size() + 2 || name.compare(0, kind.size(), kind) != 0 ||
      name[kind.size()] != ':') {
    return false;
  }
  return std::all_of(name.begin() + static_cast<std::ptrdiff_t>(kind.size()) + 1, name.end(),
                     [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

std::vector<DeviceInfo> list_devices() {
  const std::string remedy = "use the cpu device, or soft for a bundle";
  return {
      {"cpu", core::format("this computer's processor, %d threads", core::usable_threads()), true,
       "always usable", ""},
      {"amdxdna:0", "AMD XDNA NPU through the amdxdna driver", false, npu_reason(), remedy},
      {"xrt:0", "AMD XDNA NPU through XRT", false, npu_reason(), remedy},
      {kSoft, "software NPU: runs prebuilt bundles on the processor", true, "always usable", ""},
  };
}

Result<DeviceChoice> choose_device(const std::string& name, ModelSource source) {
  const bool is_bundle = source == ModelSource::kBundle;
  DeviceChoice choice;
  choice.asked = name.empty() ? "auto" : name;
  choice.used = is_bundle ? kSoft : "cpu";
  if (choice.asked == "auto") {
    choice.why = npu_reason();
    return choice;
  }
  if (choice.asked == "cpu") {
    choice.why =
        is_bundle ? "asked for: the processor runs a bundle as the software NPU" : "asked for";
    return choice;
  }
  if (choice.asked == kSoft || choice.asked == kFaithful) {
    if (!is_bundle) {
      return Status(Code::kDeviceUnavailable,
                    "cannot use device: " + choice.asked +
                        ": the software NPU runs prebuilt bundles and this is a checkpoint; use "
                        "auto or cpu");
    }
    choice.used = choice.asked;
    choice.why = "asked for";
    return choice;
  }
  if (names_device(choice.asked, "amdxdna") || names_device(choice.asked, "xrt")) {
    return Status(Code::kDeviceUnavailable, "cannot use device: " + choice.asked + ": " +
                                                kNoBackEnd + "; use auto or " +
                                                (is_bundle ? kSoft : "cpu"));
  }
  return Status(Code::kInvalidArgument, "cannot use device: \"" + choice.asked.substr(0, 100) +
                                            "\": unknown name; use auto, cpu, soft, "
                                            "soft:faithful, amdxdna[:N] or xrt[:N]");
}

Result<std::shared_ptr<npu::Device>> open_device(const DeviceChoice& choice,
                                                 const core::MemoryBudgetPtr& budget,
                                                 const core::Logger& log) {
  npu::soft::Options options;
  options.mode = choice.used == kFaithful ? npu::soft::Mode::kFaithful : npu::soft::Mode::kFast;
  options.budget = budget;
  options.log = log;
  return npu::soft::make_device(options);
}

Status check_precision(const DeviceChoice& device, ModelSource source, checkpoint::ModelKind kind,
                       Precision precision) {
  constexpr const char* kNames[] = {"auto", "f32", "bf16", "int8"};
  if (precision == Precision::kAuto) return {};
  if (source == ModelSource::kBundle) {
    return {Code::kUnsupported,
            core::format("cannot use precision: %s: a bundle's weights are packed for the NPU "
                         "already; use auto",
                         kNames[static_cast<size_t>(precision)])};
  }
  if (precision == Precision::kF32) return {};
  // Of embedding models the cpu holds weights in it and still computes in float32.
  if (kind == checkpoint::ModelKind::kEmbeddingGemma2) return {};
  return {Code::kUnsupported,
          core::format("cannot use precision: %s: the device %s computes in "
                       "float32 in this version; use auto or f32",
                       kNames[static_cast<size_t>(precision)], device.used.c_str())};
}

}  // namespace npuseg::engine

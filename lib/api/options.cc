// SPDX-License-Identifier: Apache-2.0
#include "api/options.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>

#include "api/structs.h"
#include "core/env.h"

namespace npuseg::api {

using core::Code;
using core::format;
using core::Result;
using core::Status;

namespace {

constexpr uint32_t kMostThreads = 1024;
constexpr uint32_t kMostBoxes = 1000;

Status check_flags(uint32_t flags, uint32_t known, const char* name) {
  if ((flags & ~known) == 0) return {};
  return {Code::kUnsupported, format("cannot read options: %s.flags: 0x%x has unknown bits; update "
                                     "the library or clear them",
                                     name, flags)};
}

Status check_threads(uint32_t threads) {
  if (threads <= kMostThreads) return {};
  return invalid(
      format("cannot read options: threads is %u, at most %u are possible", threads, kMostThreads));
}

core::Call::Options call_options(uint32_t threads, uint64_t deadline, npuseg_progress_fn progress,
                                 void* user) {
  core::Call::Options call;
  call.threads = static_cast<int>(threads);
  call.deadline_ns =
      static_cast<int64_t>(std::min<uint64_t>(deadline, static_cast<uint64_t>(INT64_MAX / 2)));
  call.progress = progress;
  call.user = user;
  return call;
}

// NPUSEG_LOG without a callback: lines on stderr, as documented in docs/environment.md.
void log_to_stderr(void*, core::LogLevel level, const char* component, const char* message) {
  constexpr const char* kNames[] = {"", "error", "warn", "info", "debug"};
  std::fprintf(stderr, "npuseg,%s,%s,%s\n", kNames[static_cast<int>(level)], component, message);
}

core::LogLevel level_by_name(const std::string& name) {
  if (name == "debug") return core::LogLevel::kDebug;
  if (name == "info") return core::LogLevel::kInfo;
  if (name == "error") return core::LogLevel::kError;
  return core::LogLevel::kWarn;
}

}  // namespace

Result<float> to_threshold(float value, const char* name) {
  if (std::isnan(value) || value > 1.0f) {
    return invalid(
        format("cannot read options: %s is %g; give 0 to 1", name, static_cast<double>(value)));
  }
  if (value == 0.0f) return 0.5f;
  return value < 0.0f ? 0.0f : value;
}

Result<engine::ModelOptions> to_engine(const npuseg_model_options* options) {
  npuseg_model_options in;
  NPUSEG_RETURN_IF_ERROR(import_struct(options, &in, "npuseg_model_options"));
  NPUSEG_RETURN_IF_ERROR(
      check_flags(in.flags, NPUSEG_LOAD_SKIP_WEIGHT_CHECK, "npuseg_model_options"));
  NPUSEG_RETURN_IF_ERROR(check_threads(in.threads));
  if (in.precision > NPUSEG_PRECISION_INT8) {
    return invalid(format("cannot read options: precision is %u; use an NPUSEG_PRECISION_* value",
                          in.precision));
  }
  engine::ModelOptions out;
  if (in.device != nullptr) out.device = in.device;
  out.precision = static_cast<engine::Precision>(in.precision);
  out.threads = static_cast<int>(in.threads);
  out.memory_limit = in.memory_limit == NPUSEG_UNLIMITED ? 0 : in.memory_limit;
  out.image_cache_bytes = in.image_cache_bytes;
  out.prompt_cache_bytes = in.prompt_cache_bytes;
  out.prompt_cache_entries = in.prompt_cache_entries;
  out.check_weights = (in.flags & NPUSEG_LOAD_SKIP_WEIGHT_CHECK) == 0;
  if (in.log != nullptr && in.log_level != NPUSEG_LOG_NONE) {
    // The public callback takes the level as uint32_t; the numbers are the same.
    static_assert(sizeof(core::LogLevel) == sizeof(uint32_t));
    out.log.write = reinterpret_cast<decltype(out.log.write)>(in.log);
    out.log.user = in.log_user;
    out.log.level = static_cast<core::LogLevel>(std::min<uint32_t>(in.log_level, NPUSEG_LOG_DEBUG));
  } else if (const std::string level = core::env_log(); !level.empty()) {
    out.log.write = log_to_stderr;
    out.log.level = level_by_name(level);
  }
  out.call = call_options(in.threads, 0, in.progress, in.progress_user);
  return out;
}

Result<engine::SegmentOptions> to_engine(const npuseg_segment_options* options) {
  npuseg_segment_options in;
  NPUSEG_RETURN_IF_ERROR(import_struct(options, &in, "npuseg_segment_options"));
  NPUSEG_RETURN_IF_ERROR(check_flags(in.flags,
                                     NPUSEG_SEGMENT_TRUNCATE_PROMPT | NPUSEG_SEGMENT_ALL_MASKS |
                                         NPUSEG_SEGMENT_SEMANTIC |
                                         NPUSEG_SEGMENT_REPLACE_INVALID_UTF8,
                                     "npuseg_segment_options"));
  NPUSEG_RETURN_IF_ERROR(check_threads(in.threads));
  engine::SegmentOptions out;
  NPUSEG_ASSIGN_OR_RETURN(out.threshold, to_threshold(in.threshold, "threshold"));
  NPUSEG_ASSIGN_OR_RETURN(out.mask_threshold, to_threshold(in.mask_threshold, "mask_threshold"));
  out.max_instances = in.max_instances;
  out.truncate = (in.flags & NPUSEG_SEGMENT_TRUNCATE_PROMPT) != 0;
  out.replace_invalid = (in.flags & NPUSEG_SEGMENT_REPLACE_INVALID_UTF8) != 0;
  out.all_masks = (in.flags & NPUSEG_SEGMENT_ALL_MASKS) != 0;
  out.semantic = (in.flags & NPUSEG_SEGMENT_SEMANTIC) != 0;
  if (in.box_count > kMostBoxes) {
    return Status(Code::kLimitExceeded, format("cannot read options: %u boxes, at most %u are "
                                               "possible; give fewer",
                                               in.box_count, kMostBoxes));
  }
  if (in.box_count != 0) {
    const size_t stride = in.box_bytes == 0 ? sizeof(npuseg_box) : in.box_bytes;
    if (in.boxes == nullptr || stride < kFirstSize<npuseg_box> || stride > kMostStructBytes) {
      return invalid("cannot read options: boxes: NULL or box_bytes is not sizeof(npuseg_box)");
    }
    const auto* at = reinterpret_cast<const unsigned char*>(in.boxes);
    for (uint32_t i = 0; i < in.box_count; ++i, at += stride) {
      npuseg_box box{};
      std::memcpy(&box, at, std::min(stride, sizeof box));
      out.boxes.push_back({box.x0, box.y0, box.x1, box.y1, box.label});
    }
  }
  out.call = call_options(in.threads, in.deadline_nanoseconds, in.progress, in.progress_user);
  return out;
}

Result<engine::EmbedOptions> to_engine(const npuseg_embed_options* options) {
  npuseg_embed_options in;
  NPUSEG_RETURN_IF_ERROR(import_struct(options, &in, "npuseg_embed_options"));
  NPUSEG_RETURN_IF_ERROR(check_flags(in.flags,
                                     NPUSEG_EMBED_TRUNCATE_TEXT | NPUSEG_EMBED_REPLACE_INVALID_UTF8,
                                     "npuseg_embed_options"));
  NPUSEG_RETURN_IF_ERROR(check_threads(in.threads));
  engine::EmbedOptions out;
  if (in.task != nullptr) out.task = in.task;
  out.dims = in.dims;
  out.truncate = (in.flags & NPUSEG_EMBED_TRUNCATE_TEXT) != 0;
  out.replace_invalid = (in.flags & NPUSEG_EMBED_REPLACE_INVALID_UTF8) != 0;
  out.call = call_options(in.threads, in.deadline_nanoseconds, in.progress, in.progress_user);
  return out;
}

Result<image::DecodeOptions> to_engine(const npuseg_image_options* options) {
  npuseg_image_options in;
  NPUSEG_RETURN_IF_ERROR(import_struct(options, &in, "npuseg_image_options"));
  NPUSEG_RETURN_IF_ERROR(check_flags(
      in.flags, NPUSEG_IMAGE_IGNORE_EXIF | NPUSEG_IMAGE_ACCEPT_TRUNCATED, "npuseg_image_options"));
  image::DecodeOptions out;
  out.apply_exif = (in.flags & NPUSEG_IMAGE_IGNORE_EXIF) == 0;
  out.accept_truncated = (in.flags & NPUSEG_IMAGE_ACCEPT_TRUNCATED) != 0;
  switch (in.alpha) {
    case NPUSEG_ALPHA_DROP:
      break;
    case NPUSEG_ALPHA_WHITE:
      out.alpha.mode = image::AlphaMode::kOverColour;
      break;
    case NPUSEG_ALPHA_COLOUR:
      out.alpha.mode = image::AlphaMode::kOverColour;
      out.alpha.colour = {static_cast<uint8_t>(in.colour >> 16),
                          static_cast<uint8_t>(in.colour >> 8), static_cast<uint8_t>(in.colour)};
      break;
    default:
      return invalid(
          format("cannot read options: alpha is %u; use an NPUSEG_ALPHA_* value", in.alpha));
  }
  if (in.max_pixels != 0) out.limits.max_pixels = in.max_pixels;
  if (in.max_file_bytes != 0) out.limits.max_file_bytes = in.max_file_bytes;
  if (in.max_side != 0) out.limits.max_side = in.max_side;
  return out;
}

}  // namespace npuseg::api

// SPDX-License-Identifier: Apache-2.0
// The commands: each returns the exit status of the tool.
#pragma once

#include "options.h"

namespace cli {

// The tensors that segment --raw writes for every prompt.
struct RawTensor {
  uint32_t which;  // NPUSEG_RAW_*
  const char* name;
};
inline constexpr RawTensor kRawTensors[] = {
    {NPUSEG_RAW_PRED_LOGITS, "pred_logits"},   {NPUSEG_RAW_PRESENCE_LOGITS, "presence_logits"},
    {NPUSEG_RAW_PRED_BOXES, "pred_boxes"},     {NPUSEG_RAW_PRED_MASKS, "pred_masks"},
    {NPUSEG_RAW_SEMANTIC_SEG, "semantic_seg"}, {NPUSEG_RAW_INPUT_IDS, "input_ids"}};

int run_segment(const Options& options);
int run_info(const Options& options);
int run_devices(const Options& options);

// A JSON document to where --json says.
bool emit_json(const Options& options, const std::string& document);

}  // namespace cli

// SPDX-License-Identifier: Apache-2.0
// Public option structs as the engine's.
#pragma once

#include "core/status.h"
#include "engine/embeddinggemma2_engine.h"
#include "engine/sam3_engine.h"
#include "image/picture.h"
#include "npuseg.h"

namespace npuseg::api {

core::Result<engine::ModelOptions> to_engine(const npuseg_model_options* options);
core::Result<engine::SegmentOptions> to_engine(const npuseg_segment_options* options);
core::Result<engine::EmbedOptions> to_engine(const npuseg_embed_options* options);
core::Result<image::DecodeOptions> to_engine(const npuseg_image_options* options);

// 0: the default of 0.5; negative: 0. NaN and values above 1 are refused.
core::Result<float> to_threshold(float value, const char* name);

}  // namespace npuseg::api

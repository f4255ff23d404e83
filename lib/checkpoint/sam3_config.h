// SPDX-License-Identifier: Apache-2.0
// Every number of a SAM 3 model that its files may change (spec sam3-model.md, section 2).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/model_kind.h"
#include "core/status.h"

namespace npuseg::checkpoint {

enum class HiddenAct : uint8_t { kRelu, kGelu, kQuickGelu, kGeluTanh, kSilu };

// Defaults are those of the reference's config classes, which are the released model's values.
struct Sam3Config {
  struct Vit {
    size_t hidden_size = 1024;
    size_t intermediate_size = 4736;
    size_t layers = 32;
    size_t heads = 16;
    size_t channels = 3;
    size_t image_size = 1008;
    size_t patch_size = 14;
    size_t window_size = 24;
    size_t position_rows =
        24;  // rows (= columns) of the position table, pretrain_image_size / patch_size
    std::vector<size_t> global_layers{7, 15, 23, 31};
    double rope_theta = 10000.0;
    float layer_norm_eps = 1e-6f;
    HiddenAct act = HiddenAct::kGelu;
    [[nodiscard]] size_t grid() const { return image_size / patch_size; }
    [[nodiscard]] size_t head_dim() const { return hidden_size / heads; }
  } vit;
  std::vector<double> scale_factors{4.0, 2.0, 1.0, 0.5};  // the last level is dropped
  struct Text {
    size_t vocab_size = 49408;
    size_t hidden_size = 1024;
    size_t intermediate_size = 4096;
    size_t layers = 24;
    size_t heads = 16;
    size_t positions = 32;
    float layer_norm_eps = 1e-5f;
    HiddenAct act = HiddenAct::kGelu;
  } text;
  struct Transformer {
    size_t layers = 6;
    size_t heads = 8;
    size_t intermediate_size = 2048;
    HiddenAct act = HiddenAct::kRelu;
  };
  size_t hidden_size = 256;  // D: of neck, geometry encoder, DETR, mask decoder
  Transformer geometry{3, 8, 2048, HiddenAct::kRelu};
  size_t roi_size = 7;
  Transformer detr_encoder{};
  Transformer detr_decoder{};
  size_t queries = 200;
  size_t mask_heads = 8;
  size_t upsampling_stages = 3;

  [[nodiscard]] size_t kept_levels() const { return scale_factors.size() - 1; }
  // Side of a kept level's map.
  [[nodiscard]] size_t level_side(size_t level) const {
    return static_cast<size_t>(static_cast<double>(vit.grid()) * scale_factors[level]);
  }
  [[nodiscard]] size_t map_side() const { return level_side(kept_levels() - 1); }  // DETR level
  [[nodiscard]] size_t mask_side() const { return level_side(0); }
};

// Image processor settings (processor_config.json, or preprocessor_config.json).
struct Sam3ProcessorConfig {
  size_t width = 1008;
  size_t height = 1008;
  double rescale_factor = 1.0 / 255.0;
  float mean[3] = {0.5f, 0.5f, 0.5f};
  float std[3] = {0.5f, 0.5f, 0.5f};
};

// Reads config.json in both legal shapes (spec 2.1), applies class defaults for missing keys,
// checks everything of spec 2.7. Messages name file, key, value and bound.
core::Result<Sam3Config> read_sam3_config(const std::string& directory);
// The same from text in memory; `where` names it in messages.
core::Result<Sam3Config> parse_sam3_config(std::string_view json, const std::string& where);
// Both files missing: the defaults with size = image_size. Unsupported switches (do_resize false,
// resample other than 2 ...) and a size that differs from image_size are refused.
core::Result<Sam3ProcessorConfig> read_sam3_processor_config(const std::string& directory,
                                                             size_t image_size);

}  // namespace npuseg::checkpoint

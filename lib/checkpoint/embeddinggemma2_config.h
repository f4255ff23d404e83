// SPDX-License-Identifier: Apache-2.0
// Every number of an EmbeddingGemma 2 model that its files may change (spec
// embeddinggemma2-model.md, sections 2, 3 and 8): config.json, processor_config.json and the files
// of sentence-transformers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/status.h"

namespace npuseg::checkpoint {

// The vision tower (vision_config).
struct EmbeddingGemma2Vision {
  size_t hidden_size = 768;
  size_t intermediate_size = 3072;
  size_t layers = 16;
  size_t heads = 12;
  size_t kv_heads = 12;
  size_t head_dim = 64;  // heads * head_dim need not be hidden_size
  size_t patch_size = 16;
  size_t pooling = 3;            // a soft token is the mean of pooling x pooling patches
  size_t position_rows = 10240;  // of each axis; a picture's patch grid must be smaller
  float rms_norm_eps = 1e-6f;
  double rope_theta = 100.0;

  [[nodiscard]] size_t patch_values() const { return patch_size * patch_size * 3; }
};

// Defaults are those of the reference's config classes, which are the released model's values. The
// activation of both towers is gelu_pytorch_tanh and no linear layer has a bias: all else is
// refused.
struct EmbeddingGemma2Config {
  // Attention of the layers of one kind; all layers of a kind are alike.
  struct Attention {
    size_t head_dim = 256;
    size_t kv_heads = 2;
    double rope_theta = 10000.0;
  };
  struct Text {
    size_t vocab_size = 262144;
    size_t hidden_size = 512;         // H
    size_t intermediate_size = 2048;  // I
    size_t layers = 24;
    size_t heads = 4;             // query heads, the same in every layer
    size_t per_layer_size = 512;  // P, hidden_size_per_layer_input
    size_t embedding_dim = 768;   // D, length of the vector
    // Inclusive radius: a sliding layer's token sees those at distance <= sliding_window.
    size_t sliding_window = 512;
    size_t max_positions = 262144;
    float rms_norm_eps = 1e-6f;
    int64_t pad_token_id = 0;
    Attention sliding;
    Attention full{512, 1, 1000000.0};
    std::vector<bool> is_full;  // per layer; the last one always is

    [[nodiscard]] const Attention& attention(size_t layer) const {
      return is_full[layer] ? full : sliding;
    }
    [[nodiscard]] size_t q_width(size_t layer) const { return heads * attention(layer).head_dim; }
    [[nodiscard]] size_t kv_width(size_t layer) const {
      return attention(layer).kv_heads * attention(layer).head_dim;
    }
  } text;
  using Vision = EmbeddingGemma2Vision;
  // Absent when the file has none: a legal model of texts alone.
  std::optional<Vision> vision;
  bool has_audio = false;  // the file describes an audio tower, which is not used

  // Ids of config.json; -1 where the file says null. With vision, image, boi and eoi are distinct
  // ids inside the vocabulary.
  int64_t image_token_id = 258880;
  int64_t boi_token_id = 255999;
  int64_t eoi_token_id = 258882;
  int64_t audio_token_id = 258881;
  int64_t boa_token_id = 256000;
  int64_t eoa_token_id = 258883;
  int64_t video_token_id = 258884;
};

// Image processor settings. Value of a pixel = float(level) * float(rescale_factor), no mean or
// deviation.
struct EmbeddingGemma2ProcessorConfig {
  size_t max_soft_tokens = 280;  // 70, 140, 280, 560 or 1120
  size_t patch_size = 16;
  size_t pooling = 3;
  double rescale_factor = 0.00392156862745098;
};
// The budgets that the reference takes.
bool is_soft_token_budget(size_t max_soft_tokens);

struct TaskPrompt {
  std::string name;
  std::string text;  // goes in front of the caller's text, before tokenising
};

// What the files of sentence-transformers say. Pooling is the mean over all tokens, prompt
// included; other pipelines are refused.
struct SentenceConfig {
  std::vector<TaskPrompt> prompts;  // in the order of the file
  std::string default_prompt;       // name, or empty: no prompt unless one is asked for
  // Longest input in tokens, start and end included: the file's limit, else the published 8192.
  size_t max_tokens = 8192;
  // Lengths of vector that may be asked for, descending; the first is embedding_dim.
  std::vector<size_t> dims;

  // Null when there is none of that name.
  [[nodiscard]] const TaskPrompt* find_prompt(std::string_view name) const;
};

// Reads config.json, applies class defaults for missing keys and checks everything. Messages name
// file, key, value and bound.
core::Result<EmbeddingGemma2Config> read_embeddinggemma2_config(const std::string& directory);
// The same from text in memory; `where` names it in messages.
core::Result<EmbeddingGemma2Config> parse_embeddinggemma2_config(std::string_view json,
                                                                 const std::string& where);

// processor_config.json or preprocessor_config.json; both missing: the defaults. Patch size and
// pooling must be those of `config` when it has vision.
core::Result<EmbeddingGemma2ProcessorConfig> read_embeddinggemma2_processor_config(
    const std::string& directory, const EmbeddingGemma2Config& config);

// modules.json, the pooling's and the normalisation's config.json, sentence_bert_config.json,
// config_sentence_transformers.json, tokenizer_config.json (model_max_length); each may be missing.
core::Result<SentenceConfig> read_sentence_config(const std::string& directory,
                                                  const EmbeddingGemma2Config& config);

// True for the tensors that a model of this configuration uses: text always, vision when
// config.vision is there, audio never.
bool wants_tensor(const EmbeddingGemma2Config& config, std::string_view name);

}  // namespace npuseg::checkpoint

// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/embeddinggemma2_config.h"

#include <algorithm>
#include <array>

#include "checkpoint/config_reader.h"
#include "checkpoint/model_kind.h"
#include "core/file.h"
#include "core/json.h"

namespace npuseg::checkpoint {

using core::Code;
using core::format;
using core::JsonDocument;
using core::JsonValue;
using core::Result;
using core::Status;

namespace {

// Far above any released model, low enough that no product of two overflows or exhausts memory
// before the tensors' shapes are compared.
constexpr size_t kMaxWidth = size_t{1} << 16;
constexpr size_t kMaxLayers = 1024;
constexpr size_t kMaxVocabulary = size_t{1} << 24;
constexpr size_t kMaxPositions = size_t{1} << 30;
constexpr size_t kMaxPatch = 256;
constexpr size_t kMaxPooling = 64;
constexpr double kLeastTheta = 1e-3;
constexpr double kMostTheta = 1e12;
constexpr std::array<size_t, 5> kBudgets{70, 140, 280, 560, 1120};
constexpr std::string_view kFull = "full_attention";
constexpr std::string_view kSliding = "sliding_attention";

// A text that must be as given when it is there at all.
void require_text(ConfigReader* reader, std::string_view key, std::string_view wanted) {
  std::string value(wanted);
  reader->text(key, &value);
  if (value != wanted) {
    reader->fail(key, "is \"" + value + "\"; only " + std::string(wanted) + " is supported",
                 Code::kUnsupported);
  }
}

void require(ConfigReader* reader, std::string_view key, bool wanted) {
  bool value = wanted;
  reader->boolean(key, &value);
  if (value != wanted) {
    reader->fail(
        key,
        format("is %s; only %s is supported", value ? "true" : "false", wanted ? "true" : "false"),
        Code::kUnsupported);
  }
}

void check_groups(ConfigReader* reader, std::string_view key, size_t heads, size_t kv_heads) {
  if (heads % kv_heads != 0) {
    reader->fail(key,
                 format("is %zu, which does not divide num_attention_heads %zu; correct it",
                        kv_heads, heads),
                 Code::kCorruptData);
  }
}

// null gives -1, an absent key keeps the default.
void read_token_id(ConfigReader* reader, std::string_view key, int64_t* out) {
  if (reader->value(key).is_null()) {
    *out = -1;
    return;
  }
  auto id = static_cast<size_t>(std::max<int64_t>(*out, 0));
  reader->size(key, 0, kMaxVocabulary - 1, &id);
  if (reader->value(key).exists()) *out = static_cast<int64_t>(id);
}

// Which layers are full. Absent or null: every sliding_window_pattern-th.
void read_layer_types(ConfigReader* reader, EmbeddingGemma2Config::Text* text) {
  text->is_full.assign(text->layers, false);
  const JsonValue types = reader->value("layer_types");
  if (!types.exists() || types.is_null()) {
    size_t pattern = 6;
    reader->size("sliding_window_pattern", 1, kMaxLayers, &pattern);
    for (size_t i = 0; i < text->layers; ++i) text->is_full[i] = (i + 1) % pattern == 0;
  } else {
    size_t count = 0;
    const Status read = types.is_array()
                            ? types.for_each_element([&](const JsonValue& type) -> Status {
                                std::string_view name;
                                if (!type.get(&name) || (name != kFull && name != kSliding)) {
                                  return Status(Code::kUnsupported, "no kind");
                                }
                                if (count < text->layers) text->is_full[count] = name == kFull;
                                ++count;
                                return {};
                              })
                            : Status(Code::kCorruptData, "no list");
    if (!read.ok()) {
      reader->fail("layer_types",
                   "must be a list of sliding_attention and full_attention; use another model",
                   Code::kUnsupported);
    } else if (count != text->layers) {
      reader->fail(
          "layer_types",
          format("has %zu entries for num_hidden_layers %zu; correct it", count, text->layers),
          Code::kCorruptData);
    }
  }
  text->is_full.back() = true;  // the reference forces it
}

// The theta of one kind of layer. Values of null take what the section leaves open.
void read_text_rope(ConfigReader* rope, std::string_view kind, bool used, double* theta) {
  ConfigReader reader = rope->child(kind);
  if (!reader.present()) {
    if (used) {
      rope->fail(kind, "is missing, though layers of that kind exist; use the model's own file",
                 Code::kCorruptData);
    }
    return;
  }
  require_text(&reader, reader.value("rope_type").exists() ? "rope_type" : "type", "default");
  if (!reader.value("rope_theta").exists()) {
    reader.fail("rope_theta", "is missing; use the model's own file", Code::kCorruptData);
  }
  reader.number("rope_theta", kLeastTheta, kMostTheta, theta);
  rope->merge(reader);
}

bool parse_layer_number(std::string_view key, size_t* out) {
  if (key.empty() || key.size() > 9) return false;
  size_t number = 0;
  for (const char c : key) {
    if (c < '0' || c > '9') return false;
    number = number * 10 + static_cast<size_t>(c - '0');
  }
  *out = number;
  return true;
}

// Head sizes that differ between layers: {"05": {"head_dim": 512, "num_key_value_heads": 1}, ...}.
// Absent: every full layer has global_head_dim and num_global_key_value_heads. Null or empty: none.
void read_overrides(ConfigReader* reader, EmbeddingGemma2Config::Text* text) {
  const EmbeddingGemma2Config::Attention global = text->sliding;
  const double full_theta = text->full.rope_theta;
  std::vector<EmbeddingGemma2Config::Attention> layers(text->layers, global);
  const JsonValue value = reader->value("per_layer_config");
  if (!value.exists()) {
    EmbeddingGemma2Config::Attention full{512, 1, full_theta};
    reader->size("global_head_dim", 1, kMaxWidth, &full.head_dim);
    reader->size("num_global_key_value_heads", 1, kMaxWidth, &full.kv_heads);
    for (size_t i = 0; i < text->layers; ++i) {
      if (text->is_full[i]) layers[i] = full;
    }
  }
  ConfigReader overrides = reader->child("per_layer_config");
  std::vector<bool> seen(text->layers, false);
  const auto read_layer = [&](std::string_view key, const JsonValue& members) -> Status {
    size_t layer = 0;
    if (!parse_layer_number(key, &layer) || layer >= text->layers || seen[layer]) {
      overrides.fail(key,
                     format("is no layer number of its own below %zu; correct it", text->layers),
                     Code::kCorruptData);
      return overrides.status();
    }
    seen[layer] = true;
    ConfigReader one = overrides.child(key);
    one.size("head_dim", 1, kMaxWidth, &layers[layer].head_dim);
    one.size("num_key_value_heads", 1, kMaxWidth, &layers[layer].kv_heads);
    static_cast<void>(members.for_each_member([&](std::string_view name, const JsonValue&) {
      if (name != "head_dim" && name != "num_key_value_heads") {
        one.fail(name, "cannot differ between layers; use another model", Code::kUnsupported);
      }
      return one.status();
    }));
    overrides.merge(one);
    return overrides.status();
  };
  static_cast<void>(value.for_each_member(read_layer));
  reader->merge(overrides);
  if (!reader->status().ok()) return;
  text->full = layers.back();
  text->full.rope_theta = full_theta;
  bool sliding_known = false;
  for (size_t i = 0; i < text->layers; ++i) {
    EmbeddingGemma2Config::Attention* kind = text->is_full[i] ? &text->full : &text->sliding;
    if (!text->is_full[i] && !sliding_known) {
      sliding_known = true;
      kind->head_dim = layers[i].head_dim;
      kind->kv_heads = layers[i].kv_heads;
    }
    if (kind->head_dim != layers[i].head_dim || kind->kv_heads != layers[i].kv_heads) {
      reader->fail(
          "per_layer_config",
          format("gives layer %zu %zu heads of %zu, other layers of its kind have %zu of "
                 "%zu; correct it",
                 i, layers[i].kv_heads, layers[i].head_dim, kind->kv_heads, kind->head_dim),
          Code::kUnsupported);
      return;
    }
  }
}

void read_text(ConfigReader* reader, EmbeddingGemma2Config::Text* text) {
  reader->size("vocab_size", 1, kMaxVocabulary, &text->vocab_size);
  reader->size("hidden_size", 1, kMaxWidth, &text->hidden_size);
  reader->size("intermediate_size", 1, kMaxWidth, &text->intermediate_size);
  reader->size("num_hidden_layers", 1, kMaxLayers, &text->layers);
  reader->size("num_attention_heads", 1, kMaxWidth, &text->heads);
  reader->size("num_key_value_heads", 1, kMaxWidth, &text->sliding.kv_heads);
  reader->size("head_dim", 1, kMaxWidth, &text->sliding.head_dim);
  reader->size("hidden_size_per_layer_input", 1, kMaxWidth, &text->per_layer_size);
  reader->size("embedding_dim", 1, kMaxWidth, &text->embedding_dim);
  reader->size("sliding_window", 0, kMaxPositions, &text->sliding_window);
  reader->size("max_position_embeddings", 1, kMaxPositions, &text->max_positions);
  reader->number("rms_norm_eps", 0.0, 1.0, &text->rms_norm_eps);
  read_token_id(reader, "pad_token_id", &text->pad_token_id);
  require_text(reader, "hidden_activation", "gelu_pytorch_tanh");
  require(reader, "attention_bias", false);
  if (!reader->status().ok()) return;
  read_layer_types(reader, text);
  const JsonValue rope_value = reader->value("rope_parameters");
  if (rope_value.exists() && !rope_value.is_null()) {
    ConfigReader rope = reader->child("rope_parameters");
    if (reader->status().ok()) {
      const bool slides =
          std::find(text->is_full.begin(), text->is_full.end(), false) != text->is_full.end();
      read_text_rope(&rope, kSliding, slides, &text->sliding.rope_theta);
      read_text_rope(&rope, kFull, true, &text->full.rope_theta);
      reader->merge(rope);
    }
  }
  if (!reader->status().ok()) return;
  read_overrides(reader, text);
  if (!reader->status().ok()) return;
  const size_t sliding_layers =
      static_cast<size_t>(std::count(text->is_full.begin(), text->is_full.end(), false));
  for (const EmbeddingGemma2Config::Attention* kind : {&text->sliding, &text->full}) {
    if (kind == &text->sliding && sliding_layers == 0) continue;
    check_groups(reader, "num_key_value_heads", text->heads, kind->kv_heads);
    if (kind->head_dim % 2 != 0) {
      reader->fail("head_dim", format("is %zu; rotary positions need an even one", kind->head_dim),
                   Code::kUnsupported);
    }
    if (text->heads * kind->head_dim > kMaxWidth) {
      reader->fail("head_dim",
                   format("is %zu for %zu heads, together at most %zu are supported",
                          kind->head_dim, text->heads, kMaxWidth),
                   Code::kUnsupported);
    }
  }
  if (text->pad_token_id >= static_cast<int64_t>(text->vocab_size)) {
    reader->fail("pad_token_id",
                 format("is %lld, vocab_size is %zu; correct it",
                        static_cast<long long>(text->pad_token_id), text->vocab_size),
                 Code::kCorruptData);
  }
}

void read_vision(ConfigReader* reader, EmbeddingGemma2Config::Vision* vision) {
  reader->size("hidden_size", 1, kMaxWidth, &vision->hidden_size);
  reader->size("intermediate_size", 1, kMaxWidth, &vision->intermediate_size);
  reader->size("num_hidden_layers", 0, kMaxLayers, &vision->layers);
  reader->size("num_attention_heads", 1, kMaxWidth, &vision->heads);
  reader->size("num_key_value_heads", 1, kMaxWidth, &vision->kv_heads);
  reader->size("head_dim", 1, kMaxWidth, &vision->head_dim);
  reader->size("patch_size", 1, kMaxPatch, &vision->patch_size);
  reader->size("pooling_kernel_size", 1, kMaxPooling, &vision->pooling);
  reader->size("position_embedding_size", 1, kMaxPositions, &vision->position_rows);
  reader->number("rms_norm_eps", 0.0, 1.0, &vision->rms_norm_eps);
  require_text(reader, "model_type", "gemma4_vision");
  require_text(reader, "hidden_activation", "gelu_pytorch_tanh");
  require(reader, "attention_bias", false);
  require(reader, "use_clipped_linears", false);
  require(reader, "standardize", false);
  ConfigReader rope = reader->child("rope_parameters");
  std::string type;
  rope.text("rope_type", &type);
  if (!type.empty() && type != "axial" && type != "default") {
    rope.fail("rope_type", "is \"" + type + "\"; supported are axial and default",
              Code::kUnsupported);
  }
  rope.number("rope_theta", kLeastTheta, kMostTheta, &vision->rope_theta);
  reader->merge(rope);
  if (!reader->status().ok()) return;
  check_groups(reader, "num_key_value_heads", vision->heads, vision->kv_heads);
  if (vision->head_dim % 4 != 0) {
    reader->fail(
        "head_dim",
        format("is %zu; rotary positions in two dimensions need a multiple of 4", vision->head_dim),
        Code::kUnsupported);
  }
  if (vision->heads * vision->head_dim > kMaxWidth) {
    reader->fail("head_dim",
                 format("is %zu for %zu heads, together at most %zu are supported",
                        vision->head_dim, vision->heads, kMaxWidth),
                 Code::kUnsupported);
  }
}

// Ids that are put into a sequence for a picture.
void check_picture_ids(ConfigReader* reader, const EmbeddingGemma2Config& config) {
  const std::pair<const char*, int64_t> ids[] = {{"image_token_id", config.image_token_id},
                                                 {"boi_token_id", config.boi_token_id},
                                                 {"eoi_token_id", config.eoi_token_id}};
  for (const auto& [key, id] : ids) {
    if (id < 0) {
      reader->fail(key, "is null, but pictures need it; use the model's own file",
                   Code::kCorruptData);
    } else if (id >= static_cast<int64_t>(config.text.vocab_size)) {
      reader->fail(key,
                   format("is %lld, vocab_size is %zu; correct it", static_cast<long long>(id),
                          config.text.vocab_size),
                   Code::kCorruptData);
    }
  }
  if (config.image_token_id == config.boi_token_id ||
      config.image_token_id == config.eoi_token_id || config.boi_token_id == config.eoi_token_id) {
    reader->fail("image_token_id", "shares its value with boi_token_id or eoi_token_id; correct it",
                 Code::kCorruptData);
  }
}

Result<EmbeddingGemma2Config> from_document(const JsonDocument& document, const std::string& path) {
  const JsonValue root = document.root();
  if (!root.is_object()) {
    return Status(Code::kCorruptData, "cannot use model: " + path + ": is not an object");
  }
  ConfigReader reader(path, "", root);
  std::string type;
  reader.text("model_type", &type);
  NPUSEG_RETURN_IF_ERROR(reader.status());
  if (type != "embedding_gemma2") {
    return Status(Code::kUnsupported,
                  "cannot use model: " + path + ": this is " + describe_model(root) +
                      ", embedding_gemma2 is expected; use an EmbeddingGemma 2 model");
  }
  EmbeddingGemma2Config config;
  ConfigReader text = reader.child("text_config");
  require_text(&text, "model_type", "embedding_gemma2_text");
  read_text(&text, &config.text);
  reader.merge(text);
  ConfigReader vision = reader.child("vision_config");
  if (vision.present()) {
    config.vision.emplace();
    read_vision(&vision, &*config.vision);
    reader.merge(vision);
  }
  ConfigReader audio = reader.child("audio_config");
  config.has_audio = audio.present();
  read_token_id(&reader, "image_token_id", &config.image_token_id);
  read_token_id(&reader, "boi_token_id", &config.boi_token_id);
  read_token_id(&reader, "eoi_token_id", &config.eoi_token_id);
  read_token_id(&reader, "audio_token_id", &config.audio_token_id);
  read_token_id(&reader, "boa_token_id", &config.boa_token_id);
  read_token_id(&reader, "eoa_token_id", &config.eoa_token_id);
  read_token_id(&reader, "eoa_token_index", &config.eoa_token_id);  // the released spelling
  read_token_id(&reader, "video_token_id", &config.video_token_id);
  if (reader.status().ok() && config.vision) check_picture_ids(&reader, config);
  NPUSEG_RETURN_IF_ERROR(reader.status());
  return config;
}

}  // namespace

bool is_soft_token_budget(size_t max_soft_tokens) {
  return std::find(kBudgets.begin(), kBudgets.end(), max_soft_tokens) != kBudgets.end();
}

Result<EmbeddingGemma2Config> parse_embeddinggemma2_config(std::string_view json,
                                                           const std::string& where) {
  NPUSEG_ASSIGN_OR_RETURN(const JsonDocument document, JsonDocument::parse(json, where));
  return from_document(document, where);
}

Result<EmbeddingGemma2Config> read_embeddinggemma2_config(const std::string& directory) {
  NPUSEG_ASSIGN_OR_RETURN(const JsonDocument document, load_model_config(directory));
  return from_document(document, core::join_path(directory, "config.json"));
}

Result<EmbeddingGemma2ProcessorConfig> read_embeddinggemma2_processor_config(
    const std::string& directory, const EmbeddingGemma2Config& config) {
  EmbeddingGemma2ProcessorConfig out;
  std::string path = core::join_path(directory, "processor_config.json");
  bool nested = true;
  if (!core::file_exists(path)) {
    path = core::join_path(directory, "preprocessor_config.json");
    nested = false;
  }
  if (core::file_exists(path)) {
    NPUSEG_ASSIGN_OR_RETURN(const JsonDocument document, JsonDocument::load(path, kMaxConfigBytes));
    if (!document.root().is_object()) {
      return Status(Code::kCorruptData, "cannot use model: " + path + ": is not an object");
    }
    ConfigReader file(path, "", document.root());
    ConfigReader reader =
        nested && file.value("image_processor").exists() ? file.child("image_processor") : file;
    NPUSEG_RETURN_IF_ERROR(file.status());
    for (const char* key : {"do_convert_rgb", "do_resize", "do_rescale"}) {
      require(&reader, key, true);
    }
    for (const char* key : {"do_normalize", "do_pad", "do_center_crop"}) {
      require(&reader, key, false);
    }
    size_t resample = 3;
    reader.size("resample", 0, 100, &resample);
    if (resample != 3) {
      reader.fail("resample", format("is %zu; only 3 (bicubic) is supported", resample),
                  Code::kUnsupported);
    }
    reader.number("rescale_factor", 1e-9, 1e9, &out.rescale_factor);
    reader.size("patch_size", 1, kMaxPatch, &out.patch_size);
    reader.size("pooling_kernel_size", 1, kMaxPooling, &out.pooling);
    reader.size("max_soft_tokens", 1, kMaxWidth, &out.max_soft_tokens);
    if (!is_soft_token_budget(out.max_soft_tokens)) {
      reader.fail("max_soft_tokens",
                  format("is %zu; 70, 140, 280, 560 and 1120 are supported", out.max_soft_tokens),
                  Code::kUnsupported);
    }
    NPUSEG_RETURN_IF_ERROR(reader.status());
  }
  if (config.vision &&
      (config.vision->patch_size != out.patch_size || config.vision->pooling != out.pooling)) {
    return Status(Code::kUnsupported,
                  format("cannot use model: %s: patch_size is %zu and pooling_kernel_size %zu, "
                         "config.json says %zu and %zu; the files do not belong together",
                         path.c_str(), out.patch_size, out.pooling, config.vision->patch_size,
                         config.vision->pooling));
  }
  return out;
}

bool wants_tensor(const EmbeddingGemma2Config& config, std::string_view name) {
  if (name.starts_with("language_model.")) return true;
  return config.vision && (name.starts_with("vision_tower.") || name.starts_with("embed_vision."));
}

}  // namespace npuseg::checkpoint

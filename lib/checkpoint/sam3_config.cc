// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/sam3_config.h"

#include <algorithm>
#include <string_view>

#include "checkpoint/config_reader.h"
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
constexpr size_t kMaxSide = 16384;
constexpr size_t kMaxGrid = 1024;

void read_act(ConfigReader* reader, std::string_view key, HiddenAct* act) {
  std::string name;
  reader->text(key, &name);
  if (name.empty()) return;
  if (name == "relu") {
    *act = HiddenAct::kRelu;
  } else if (name == "gelu") {
    *act = HiddenAct::kGelu;
  } else if (name == "quick_gelu") {
    *act = HiddenAct::kQuickGelu;
  } else if (name == "gelu_new" || name == "gelu_pytorch_tanh") {
    *act = HiddenAct::kGeluTanh;
  } else if (name == "silu" || name == "swish") {
    *act = HiddenAct::kSilu;
  } else {
    reader->fail(key,
                 "is \"" + name +
                     "\"; supported are relu, gelu, quick_gelu, gelu_new, "
                     "gelu_pytorch_tanh and silu",
                 Code::kUnsupported);
  }
}

void check_heads(ConfigReader* reader, size_t hidden, size_t heads) {
  if (hidden % heads != 0) {
    reader->fail("num_attention_heads",
                 format("is %zu, which does not divide hidden_size %zu; correct it", heads, hidden),
                 Code::kCorruptData);
  }
}

// An integer, or a list of two equal ones.
void read_image_size(ConfigReader* reader, size_t* out) {
  const JsonValue value = reader->value("image_size");
  if (!value.is_array()) {
    reader->size("image_size", 1, kMaxSide, out);
    return;
  }
  std::vector<uint64_t> sides;
  const Status read = value.for_each_element([&](const JsonValue& side) -> Status {
    uint64_t number = 0;
    if (!side.get(&number)) return Status(Code::kCorruptData, "no count");
    sides.push_back(number);
    return {};
  });
  if (!read.ok() || sides.size() != 2 || sides[0] != sides[1] || sides[0] == 0 ||
      sides[0] > kMaxSide) {
    reader->fail("image_size",
                 "must be one integer or two equal ones; only square pictures are "
                 "supported",
                 Code::kUnsupported);
    return;
  }
  *out = static_cast<size_t>(sides[0]);
}

void read_rope(ConfigReader* reader, double* theta) {
  reader->number("rope_theta", 1e-3, 1e12, theta);
  ConfigReader rope = reader->child("rope_parameters");
  rope.number("rope_theta", 1e-3, 1e12, theta);
  std::string type;
  rope.text("rope_type", &type);
  if (!type.empty() && type != "axial" && type != "default") {
    rope.fail("rope_type", "is \"" + type + "\"; supported are axial and default",
              Code::kUnsupported);
  }
  reader->merge(rope);
}

void read_vit(ConfigReader* reader, Sam3Config::Vit* vit) {
  reader->size("hidden_size", 1, kMaxWidth, &vit->hidden_size);
  reader->size("intermediate_size", 1, kMaxWidth, &vit->intermediate_size);
  reader->size("num_hidden_layers", 0, kMaxLayers, &vit->layers);
  reader->size("num_attention_heads", 1, kMaxWidth, &vit->heads);
  reader->size("num_channels", 1, 64, &vit->channels);
  read_image_size(reader, &vit->image_size);
  reader->size("patch_size", 1, kMaxSide, &vit->patch_size);
  size_t pretrained = 336;
  reader->size("pretrain_image_size", 1, kMaxSide, &pretrained);
  reader->size("window_size", 1, kMaxSide, &vit->window_size);
  reader->number("layer_norm_eps", 0.0, 1.0, &vit->layer_norm_eps);
  read_act(reader, "hidden_act", &vit->act);
  read_rope(reader, &vit->rope_theta);
  const JsonValue globals = reader->value("global_attn_indexes");
  if (globals.exists() && !globals.is_null()) {
    vit->global_layers.clear();
    const Status read = globals.is_array()
                            ? globals.for_each_element([&](const JsonValue& index) -> Status {
                                uint64_t number = 0;
                                if (!index.get(&number))
                                  return Status(Code::kCorruptData, "no count");
                                vit->global_layers.push_back(static_cast<size_t>(number));
                                return {};
                              })
                            : Status(Code::kCorruptData, "no list");
    if (!read.ok() || vit->global_layers.size() > kMaxLayers) {
      reader->fail("global_attn_indexes", "must be a list of layer numbers; correct it",
                   Code::kCorruptData);
    }
  }
  if (!reader->status().ok()) return;
  if (vit->image_size % vit->patch_size != 0) {
    reader->fail("image_size",
                 format("is %zu, which patch_size %zu does not divide; correct it", vit->image_size,
                        vit->patch_size),
                 Code::kUnsupported);
    return;
  }
  if (vit->grid() > kMaxGrid) {
    reader->fail("image_size",
                 format("is %zu, that is %zu patches a side, at most %zu are supported",
                        vit->image_size, vit->grid(), kMaxGrid),
                 Code::kUnsupported);
    return;
  }
  // A window larger than the picture is padded like any other; its tokens must stay countable.
  if (vit->window_size > kMaxGrid) {
    reader->fail("window_size",
                 format("is %zu, at most %zu is supported", vit->window_size, kMaxGrid),
                 Code::kUnsupported);
    return;
  }
  vit->position_rows = pretrained / vit->patch_size;
  if (vit->position_rows == 0) {
    reader->fail(
        "pretrain_image_size",
        format("is %zu, less than patch_size %zu; correct it", pretrained, vit->patch_size),
        Code::kCorruptData);
    return;
  }
  check_heads(reader, vit->hidden_size, vit->heads);
  if (reader->status().ok() && vit->head_dim() % 4 != 0) {
    reader->fail(
        "num_attention_heads",
        format("is %zu, so heads have %zu channels; rotary positions in two dimensions need "
               "a multiple of 4",
               vit->heads, vit->head_dim()),
        Code::kUnsupported);
  }
}

void read_vision(ConfigReader* reader, Sam3Config* config, size_t* fpn_hidden) {
  reader->size("fpn_hidden_size", 1, kMaxWidth, fpn_hidden);
  const JsonValue factors = reader->value("scale_factors");
  if (factors.exists() && !factors.is_null()) {
    config->scale_factors.clear();
    const Status read = factors.is_array()
                            ? factors.for_each_element([&](const JsonValue& factor) -> Status {
                                double number = 0.0;
                                if (!factor.get(&number))
                                  return Status(Code::kCorruptData, "no number");
                                config->scale_factors.push_back(number);
                                return {};
                              })
                            : Status(Code::kCorruptData, "no list");
    const bool known =
        std::all_of(config->scale_factors.begin(), config->scale_factors.end(),
                    [](double f) { return f == 4.0 || f == 2.0 || f == 1.0 || f == 0.5; });
    if (!read.ok() || !known || config->scale_factors.size() < 2 ||
        config->scale_factors.size() > 16) {
      reader->fail("scale_factors", "must be a list of two or more of 4.0, 2.0, 1.0 and 0.5",
                   Code::kUnsupported);
    }
  }
  ConfigReader backbone = reader->child("backbone_config");
  read_vit(&backbone, &config->vit);
  reader->merge(backbone);
  if (!reader->status().ok()) return;
  for (size_t i = 0; i < config->kept_levels(); ++i) {
    if (config->level_side(i) == 0) {
      reader->fail("scale_factors", "reduce the feature map to nothing; correct them",
                   Code::kUnsupported);
    }
    const size_t divisor = config->scale_factors[i] == 4.0   ? 4
                           : config->scale_factors[i] == 2.0 ? 2
                                                             : 1;
    if (config->vit.hidden_size % divisor != 0) {
      reader->fail("scale_factors",
                   format("need a backbone hidden_size divisible by %zu, it is %zu", divisor,
                          config->vit.hidden_size),
                   Code::kUnsupported);
    }
  }
}

void read_text(ConfigReader* reader, Sam3Config::Text* text) {
  if (reader->present()) {
    // A present object gets the defaults of the general CLIP class, not of SAM 3.
    text->hidden_size = 512;
    text->intermediate_size = 2048;
    text->layers = 12;
    text->heads = 8;
    text->positions = 77;
    text->act = HiddenAct::kQuickGelu;
  }
  reader->size("vocab_size", 1, size_t{1} << 24, &text->vocab_size);
  reader->size("hidden_size", 1, kMaxWidth, &text->hidden_size);
  reader->size("intermediate_size", 1, kMaxWidth, &text->intermediate_size);
  reader->size("num_hidden_layers", 0, kMaxLayers, &text->layers);
  reader->size("num_attention_heads", 1, kMaxWidth, &text->heads);
  reader->size("max_position_embeddings", 2, kMaxWidth, &text->positions);
  reader->number("layer_norm_eps", 0.0, 1.0, &text->layer_norm_eps);
  read_act(reader, "hidden_act", &text->act);
  if (reader->status().ok()) check_heads(reader, text->hidden_size, text->heads);
}

void read_transformer(ConfigReader* reader, size_t least_layers, Sam3Config::Transformer* out,
                      size_t* hidden) {
  reader->size("hidden_size", 1, kMaxWidth, hidden);
  reader->size("num_layers", least_layers, kMaxLayers, &out->layers);
  reader->size("num_attention_heads", 1, kMaxWidth, &out->heads);
  reader->size("intermediate_size", 1, kMaxWidth, &out->intermediate_size);
  read_act(reader, "hidden_act", &out->act);
  if (reader->status().ok()) check_heads(reader, *hidden, out->heads);
}

Status read_detector(ConfigReader detector, Sam3Config* config) {
  size_t fpn = 256;
  ConfigReader vision = detector.child("vision_config");
  read_vision(&vision, config, &fpn);
  detector.merge(vision);
  ConfigReader text = detector.child("text_config");
  read_text(&text, &config->text);
  detector.merge(text);

  size_t geometry_hidden = 256;
  ConfigReader geometry = detector.child("geometry_encoder_config");
  read_transformer(&geometry, 0, &config->geometry, &geometry_hidden);
  geometry.size("roi_size", 1, 256, &config->roi_size);
  detector.merge(geometry);
  size_t encoder_hidden = 256;
  ConfigReader encoder = detector.child("detr_encoder_config");
  read_transformer(&encoder, 1, &config->detr_encoder, &encoder_hidden);
  detector.merge(encoder);
  size_t decoder_hidden = 256;
  ConfigReader decoder = detector.child("detr_decoder_config");
  read_transformer(&decoder, 1, &config->detr_decoder, &decoder_hidden);
  decoder.size("num_queries", 1, kMaxWidth, &config->queries);
  detector.merge(decoder);
  size_t mask_hidden = 256;
  ConfigReader mask = detector.child("mask_decoder_config");
  mask.size("hidden_size", 1, kMaxWidth, &mask_hidden);
  mask.size("num_attention_heads", 1, kMaxWidth, &config->mask_heads);
  mask.size("num_upsampling_stages", 0, kMaxLayers, &config->upsampling_stages);
  if (mask.status().ok()) check_heads(&mask, mask_hidden, config->mask_heads);
  detector.merge(mask);
  NPUSEG_RETURN_IF_ERROR(detector.status());

  config->hidden_size = fpn;
  for (const size_t width : {geometry_hidden, encoder_hidden, decoder_hidden, mask_hidden}) {
    if (width != fpn) {
      detector.fail("",
                    format("gives widths %zu (neck), %zu (geometry), %zu (DETR encoder), %zu "
                           "(DETR decoder) and %zu (masks) that must be equal; correct them",
                           fpn, geometry_hidden, encoder_hidden, decoder_hidden, mask_hidden),
                    Code::kCorruptData);
    }
  }
  if (fpn % 8 != 0) {
    detector.fail("vision_config.fpn_hidden_size",
                  format("is %zu, a multiple of 8 is needed; use another model", fpn),
                  Code::kUnsupported);
  }
  if (config->upsampling_stages + 1 < config->kept_levels()) {
    detector.fail("mask_decoder_config.num_upsampling_stages",
                  format("is %zu, %zu feature levels need %zu", config->upsampling_stages,
                         config->kept_levels(), config->kept_levels() - 1),
                  Code::kCorruptData);
  }
  return detector.status();
}

std::string config_path(const std::string& directory) {
  return core::join_path(directory, "config.json");
}

Result<Sam3Config> from_document(const JsonDocument& document, const std::string& path) {
  const JsonValue root = document.root();
  if (!root.is_object()) {
    return Status(Code::kCorruptData, "cannot use model: " + path + ": is not an object");
  }
  Sam3Config config;
  ConfigReader reader(path, "", root);
  if (root["detector_config"].exists() && !root["detector_config"].is_null()) {
    NPUSEG_RETURN_IF_ERROR(read_detector(reader.child("detector_config"), &config));
    NPUSEG_RETURN_IF_ERROR(reader.status());
    return config;
  }
  std::string type;
  reader.text("model_type", &type);
  NPUSEG_RETURN_IF_ERROR(reader.status());
  if (type != "sam3" && type != "sam3_video") {
    return Status(Code::kUnsupported, "cannot use model: " + path + ": model_type is \"" + type +
                                          "\", sam3 is expected: this is " + describe_model(root) +
                                          "; use a SAM 3 model");
  }
  NPUSEG_RETURN_IF_ERROR(read_detector(reader, &config));
  return config;
}

// Switches of the image processor that this library does not have: they must be as released.
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

void read_triple(ConfigReader* reader, std::string_view key, double least, float (&out)[3]) {
  const JsonValue value = reader->value(key);
  if (!value.exists() || value.is_null()) return;
  double single = 0.0;
  size_t count = 0;
  if (value.get(&single)) {
    std::fill_n(out, 3, static_cast<float>(single));
    count = 3;
  } else {
    const Status read = value.for_each_element([&](const JsonValue& element) -> Status {
      double number = 0.0;
      if (!element.get(&number)) return Status(Code::kCorruptData, "no number");
      if (count < 3) out[count] = static_cast<float>(number);
      ++count;
      return {};
    });
    if (!read.ok()) count = 0;
  }
  const bool fine = std::all_of(
      out, out + 3, [&](float v) { return v >= static_cast<float>(least) && v <= 1e6f; });
  if (count != 3 || !fine) {
    reader->fail(key, "must be three numbers in range; correct it", Code::kCorruptData);
  }
}

}  // namespace

Result<Sam3Config> parse_sam3_config(std::string_view json, const std::string& where) {
  NPUSEG_ASSIGN_OR_RETURN(const JsonDocument document, JsonDocument::parse(json, where));
  return from_document(document, where);
}

Result<Sam3Config> read_sam3_config(const std::string& directory) {
  NPUSEG_ASSIGN_OR_RETURN(const JsonDocument document, load_model_config(directory));
  return from_document(document, config_path(directory));
}

Result<Sam3ProcessorConfig> read_sam3_processor_config(const std::string& directory,
                                                       size_t image_size) {
  Sam3ProcessorConfig config;
  config.width = config.height = image_size;
  std::string path = core::join_path(directory, "processor_config.json");
  bool nested = true;
  if (!core::file_exists(path)) {
    path = core::join_path(directory, "preprocessor_config.json");
    nested = false;
    if (!core::file_exists(path)) return config;
  }
  NPUSEG_ASSIGN_OR_RETURN(const JsonDocument document, JsonDocument::load(path, kMaxConfigBytes));
  ConfigReader file(path, "", document.root());
  if (!document.root().is_object()) {
    return Status(Code::kCorruptData, "cannot use model: " + path + ": is not an object");
  }
  ConfigReader reader =
      nested && file.value("image_processor").exists() ? file.child("image_processor") : file;
  NPUSEG_RETURN_IF_ERROR(file.status());
  for (const char* key : {"do_convert_rgb", "do_resize", "do_rescale", "do_normalize"}) {
    require(&reader, key, true);
  }
  for (const char* key : {"do_pad", "do_center_crop"}) require(&reader, key, false);
  size_t resample = 2;
  reader.size("resample", 0, 100, &resample);
  if (resample != 2) {
    reader.fail("resample", format("is %zu; only 2 (bilinear) is supported", resample),
                Code::kUnsupported);
  }
  reader.number("rescale_factor", 1e-9, 1e9, &config.rescale_factor);
  read_triple(&reader, "image_mean", -1e6, config.mean);
  read_triple(&reader, "image_std", 1e-9, config.std);
  ConfigReader size = reader.child("size");
  size.size("width", 1, kMaxSide, &config.width);
  size.size("height", 1, kMaxSide, &config.height);
  reader.merge(size);
  NPUSEG_RETURN_IF_ERROR(reader.status());
  if (config.width != image_size || config.height != image_size) {
    return Status(Code::kUnsupported,
                  format("cannot use model: %s: size is %zu x %zu, the model takes %zu x %zu; the "
                         "files do not belong together",
                         path.c_str(), config.width, config.height, image_size, image_size));
  }
  return config;
}

}  // namespace npuseg::checkpoint

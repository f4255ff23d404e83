// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/model_kind.h"

#include <string_view>

#include "core/file.h"

namespace npuseg::checkpoint {

using core::Code;
using core::JsonDocument;
using core::JsonValue;
using core::Result;
using core::Status;

namespace {

bool is_sam3(const JsonValue& root, std::string_view type) {
  return type == "sam3" || type == "sam3_video" || root["detector_config"].is_object();
}

bool is_embeddinggemma2(std::string_view type) { return type == "embedding_gemma2"; }

// Families that people take for one of ours.
struct Family {
  std::string_view prefix;  // of model_type
  std::string_view name;
};
constexpr Family kFamilies[] = {
    {"embedding_gemma2", "a part of EmbeddingGemma 2 without the rest"},
    {"gemma3", "EmbeddingGemma 1 or another Gemma 3 model"},
    {"gemma4", "a Gemma 4 model"},
    {"gemma", "a Gemma language model"},
    {"sam3", "a part of SAM 3 without its detector"},
    {"edgetam", "an EdgeTAM model"},
    {"sam2", "a SAM 2 model"},
    {"sam", "a Segment Anything 1 model"},
    {"siglip", "a SigLIP model"},
    {"clip", "a CLIP model"},
};

std::string_view model_type(const JsonValue& root) {
  std::string_view type;
  root["model_type"].get(&type);
  return type;
}

}  // namespace

std::string describe_model(const JsonValue& root) {
  const std::string_view type = model_type(root);
  if (is_sam3(root, type)) return "a SAM 3 model";
  if (is_embeddinggemma2(type)) return "an EmbeddingGemma 2 model";
  if (type.empty()) return "a model without model_type";
  std::string name = "a model of another kind";
  for (const Family& family : kFamilies) {
    if (!type.starts_with(family.prefix)) continue;
    name = family.name;
    break;
  }
  return name + " (model_type \"" + std::string(type.substr(0, 100)) + "\")";
}

Result<JsonDocument> load_model_config(const std::string& directory) {
  if (!core::is_directory(directory)) {
    if (core::file_exists(directory)) {
      return Status(
          Code::kInvalidArgument,
          "cannot open model: " + directory + ": is a file; pass the folder that holds the model");
    }
    return Status(Code::kNotFound,
                  "cannot open model: " + directory + ": no such folder; check the path");
  }
  const std::string path = core::join_path(directory, "config.json");
  if (!core::file_exists(path)) {
    return Status(Code::kNotFound,
                  "cannot open model: " + directory +
                      ": has no config.json; pass the folder that holds the model's files");
  }
  return JsonDocument::load(path, kMaxConfigBytes);
}

Result<ModelKind> probe_model_kind(const std::string& directory) {
  NPUSEG_ASSIGN_OR_RETURN(const JsonDocument document, load_model_config(directory));
  const JsonValue root = document.root();
  const std::string_view type = model_type(root);
  if (is_sam3(root, type)) return ModelKind::kSam3;
  if (is_embeddinggemma2(type)) return ModelKind::kEmbeddingGemma2;
  return Status(Code::kUnsupported,
                "cannot use model: " + core::join_path(directory, "config.json") + ": this is " +
                    describe_model(root) +
                    "; SAM 3 (facebook/sam3) and EmbeddingGemma 2 (google/embeddinggemma-2) are "
                    "supported");
}

}  // namespace npuseg::checkpoint

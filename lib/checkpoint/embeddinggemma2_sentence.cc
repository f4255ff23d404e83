// SPDX-License-Identifier: Apache-2.0
// The files of sentence-transformers beside an EmbeddingGemma 2 model.
#include <algorithm>

#include "checkpoint/config_reader.h"
#include "checkpoint/embeddinggemma2_config.h"
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

constexpr size_t kMaxPrompts = 1000;
constexpr size_t kMaxPromptBytes = size_t{1} << 20;
constexpr size_t kLeastTokens = 2;  // start and end
constexpr size_t kMaxTokens = size_t{1} << 24;

// A JSON file that may be missing; then an empty document.
struct OptionalFile {
  std::string path;
  JsonDocument document;
  [[nodiscard]] JsonValue root() const { return document.root(); }
};

Result<OptionalFile> load_optional(const std::string& directory, const std::string& name) {
  OptionalFile file;
  file.path = core::join_path(directory, name);
  if (!core::file_exists(file.path)) return file;
  NPUSEG_ASSIGN_OR_RETURN(file.document, JsonDocument::load(file.path, kMaxConfigBytes));
  return file;
}

Status check_object(const OptionalFile& file) {
  if (!file.root().exists() || file.root().is_object()) return {};
  return Status(Code::kCorruptData, "cannot use model: " + file.path + ": is not an object");
}

// The name of a module's class without the package, which has moved between versions.
std::string_view class_name(std::string_view type) {
  const size_t dot = type.rfind('.');
  return dot == std::string_view::npos ? type : type.substr(dot + 1);
}

bool is_plain_folder_name(std::string_view path) {
  return !path.empty() && path != "." && path != ".." && path.find('/') == std::string_view::npos &&
         path.find('\0') == std::string_view::npos;
}

// "mean", or "" for several modes at once.
std::string pooling_mode(const JsonValue& root) {
  const JsonValue mode = root["pooling_mode"];
  std::string_view name;
  if (mode.get(&name)) return std::string(name);
  if (mode.is_array()) {
    std::string only;
    size_t count = 0;
    const Status read = mode.for_each_element([&](const JsonValue& one) -> Status {
      if (one.get(&name)) only = name;
      ++count;
      return {};
    });
    return read.ok() && count == 1 ? only : std::string();
  }
  if (mode.exists() && !mode.is_null()) return {};
  // One switch per mode in older files.
  size_t on = 0;
  std::string only = "mean";
  for (const auto& [key, value] :
       {std::pair<const char*, const char*>{"pooling_mode_cls_token", "cls"},
        {"pooling_mode_max_tokens", "max"},
        {"pooling_mode_mean_tokens", "mean"},
        {"pooling_mode_mean_sqrt_len_tokens", "mean_sqrt_len_tokens"},
        {"pooling_mode_weightedmean_tokens", "weightedmean"},
        {"pooling_mode_lasttoken", "lasttoken"}}) {
    bool wanted = false;
    if (!root[key].get(&wanted) || !wanted) continue;
    only = value;
    ++on;
  }
  return on <= 1 ? only : std::string();
}

Status check_pooling(const std::string& directory, const std::string& folder,
                     size_t embedding_dim) {
  NPUSEG_ASSIGN_OR_RETURN(const OptionalFile file,
                          load_optional(core::join_path(directory, folder), "config.json"));
  if (!file.root().exists()) {
    return Status(Code::kNotFound,
                  "cannot use model: " + file.path + ": no such file; add the model's own file");
  }
  NPUSEG_RETURN_IF_ERROR(check_object(file));
  ConfigReader reader(file.path, "", file.root());
  const std::string mode = pooling_mode(file.root());
  if (mode != "mean") {
    reader.fail(
        "pooling_mode",
        "is " + (mode.empty() ? "more than one" : "\"" + mode + "\"") + "; only mean is supported",
        Code::kUnsupported);
  }
  bool include_prompt = true;
  reader.boolean("include_prompt", &include_prompt);
  if (!include_prompt) {
    reader.fail("include_prompt", "is false; only true is supported", Code::kUnsupported);
  }
  for (const char* key : {"embedding_dimension", "word_embedding_dimension"}) {
    size_t width = embedding_dim;
    reader.size(key, 1, SIZE_MAX, &width);
    if (width != embedding_dim) {
      reader.fail(key,
                  format("is %zu, config.json says embedding_dim %zu; the files do not belong "
                         "together",
                         width, embedding_dim),
                  Code::kCorruptData);
    }
  }
  return reader.status();
}

Status check_normalize(const std::string& directory, const std::string& folder) {
  NPUSEG_ASSIGN_OR_RETURN(const OptionalFile file,
                          load_optional(core::join_path(directory, folder), "config.json"));
  NPUSEG_RETURN_IF_ERROR(check_object(file));
  ConfigReader reader(file.path, "", file.root());
  for (const char* key : {"module_input_name", "module_output_name"}) {
    std::string name = "sentence_embedding";
    reader.text(key, &name);
    if (name != "sentence_embedding") {
      reader.fail(key, "is \"" + name + "\"; only sentence_embedding is supported",
                  Code::kUnsupported);
    }
  }
  return reader.status();
}

// Transformer, Pooling and Normalize, in this order; Normalize may be missing, since vectors are
// normalised in any case.
Status check_modules(const std::string& directory, size_t embedding_dim) {
  NPUSEG_ASSIGN_OR_RETURN(const OptionalFile file, load_optional(directory, "modules.json"));
  if (!file.root().exists()) return {};
  const auto refuse = [&](const std::string& why, Code code) {
    return Status(code, "cannot use model: " + file.path + ": " + why);
  };
  if (!file.root().is_array()) {
    return refuse("is not a list; get the file again", Code::kCorruptData);
  }
  constexpr std::string_view kOrder[] = {"Transformer", "Pooling", "Normalize"};
  size_t at = 0;
  NPUSEG_RETURN_IF_ERROR(file.root().for_each_element([&](const JsonValue& module) -> Status {
    std::string_view type;
    std::string_view path;
    if (!module["type"].get(&type) || !module["path"].get(&path)) {
      return refuse(format("module %zu has no type or no path; get the file again", at),
                    Code::kCorruptData);
    }
    const std::string name(class_name(type));
    if (at == std::size(kOrder) || name != kOrder[at]) {
      return refuse(format("module %zu is %s; only Transformer, Pooling and Normalize, in this "
                           "order, are supported; use another model",
                           at, name.c_str()),
                    Code::kUnsupported);
    }
    if (at == 0 ? !path.empty() : !is_plain_folder_name(path)) {
      return refuse(format("module %zu has the path \"%s\"; %s", at, std::string(path).c_str(),
                           at == 0 ? "only the model's own folder is supported"
                                   : "a folder beside it is expected"),
                    Code::kUnsupported);
    }
    ++at;
    if (at == 2) return check_pooling(directory, std::string(path), embedding_dim);
    if (at == 3) return check_normalize(directory, std::string(path));
    return {};
  }));
  if (at < 2) {
    return refuse("has no Pooling; only Transformer, Pooling and Normalize are supported",
                  Code::kUnsupported);
  }
  return {};
}

Status read_prompts(const std::string& directory, SentenceConfig* out) {
  NPUSEG_ASSIGN_OR_RETURN(const OptionalFile file,
                          load_optional(directory, "config_sentence_transformers.json"));
  NPUSEG_RETURN_IF_ERROR(check_object(file));
  ConfigReader reader(file.path, "", file.root());
  ConfigReader prompts = reader.child("prompts");
  static_cast<void>(file.root()["prompts"].for_each_member([&](std::string_view name,
                                                               const JsonValue& value) -> Status {
    std::string_view text;
    if (name.empty() || !value.get(&text) || text.size() > kMaxPromptBytes) {
      prompts.fail(name, "is no text of usable length with a name; correct it", Code::kCorruptData);
    } else if (out->find_prompt(name) != nullptr) {
      prompts.fail(name, "is there twice; correct it", Code::kCorruptData);
    } else if (out->prompts.size() == kMaxPrompts) {
      prompts.fail("", format("has more than %zu prompts", kMaxPrompts), Code::kUnsupported);
    } else {
      out->prompts.push_back({std::string(name), std::string(text)});
    }
    return prompts.status();
  }));
  reader.merge(prompts);
  reader.text("default_prompt_name", &out->default_prompt);
  if (!out->default_prompt.empty() && out->find_prompt(out->default_prompt) == nullptr) {
    reader.fail("default_prompt_name",
                "is \"" + out->default_prompt + "\", which prompts does not have; correct it",
                Code::kCorruptData);
  }
  return reader.status();
}

// The transformer's own limit goes before the tokenizer's; numbers of 10^9 and more mean none.
Status read_limit(const std::string& directory, SentenceConfig* out) {
  NPUSEG_ASSIGN_OR_RETURN(const OptionalFile tokenizer,
                          load_optional(directory, "tokenizer_config.json"));
  NPUSEG_RETURN_IF_ERROR(check_object(tokenizer));
  NPUSEG_ASSIGN_OR_RETURN(const OptionalFile transformer,
                          load_optional(directory, "sentence_bert_config.json"));
  NPUSEG_RETURN_IF_ERROR(check_object(transformer));
  ConfigReader reader(transformer.path, "", transformer.root());
  bool lower_case = false;
  reader.boolean("do_lower_case", &lower_case);
  if (lower_case) {
    reader.fail("do_lower_case", "is true; only false is supported", Code::kUnsupported);
  }
  NPUSEG_RETURN_IF_ERROR(reader.status());
  for (const auto& [file, key] :
       {std::pair<const OptionalFile*, const char*>{&tokenizer, "model_max_length"},
        {&transformer, "max_seq_length"}}) {
    const JsonValue value = file->root()[key];
    double number = 0.0;
    if (!value.exists() || value.is_null()) continue;
    if (value.get(&number) && number >= 1e9) continue;
    ConfigReader limit(file->path, "", file->root());
    limit.size(key, kLeastTokens, kMaxTokens, &out->max_tokens);
    NPUSEG_RETURN_IF_ERROR(limit.status());
  }
  return {};
}

// matryoshka_dimensions of config.json where a fine-tune has it; else what the model was trained
// for: 768, 512, 256 and 128, or the length, its half and its quarter.
Status read_dims(const std::string& directory, size_t embedding_dim, SentenceConfig* out) {
  NPUSEG_ASSIGN_OR_RETURN(const OptionalFile file, load_optional(directory, "config.json"));
  const JsonValue listed = file.root()["matryoshka_dimensions"];
  out->dims = {embedding_dim};
  if (listed.exists() && !listed.is_null()) {
    bool fine = listed.is_array();
    static_cast<void>(listed.for_each_element([&](const JsonValue& value) -> Status {
      uint64_t dims = 0;
      fine = fine && value.get(&dims) && dims >= 1 && dims <= embedding_dim;
      if (fine) out->dims.push_back(static_cast<size_t>(dims));
      return fine ? Status() : Status(Code::kCorruptData, "no length");
    }));
    if (!fine) {
      return Status(Code::kCorruptData,
                    format("cannot use model: %s: matryoshka_dimensions must be a list of lengths "
                           "from 1 to %zu; correct it",
                           file.path.c_str(), embedding_dim));
    }
  } else if (embedding_dim == 768) {
    out->dims.insert(out->dims.end(), {512, 256, 128});
  } else {
    for (const size_t part : {size_t{2}, size_t{4}}) {
      if (embedding_dim % part == 0) out->dims.push_back(embedding_dim / part);
    }
  }
  std::sort(out->dims.begin(), out->dims.end(), std::greater<>());
  out->dims.erase(std::unique(out->dims.begin(), out->dims.end()), out->dims.end());
  return {};
}

}  // namespace

const TaskPrompt* SentenceConfig::find_prompt(std::string_view name) const {
  for (const TaskPrompt& prompt : prompts) {
    if (prompt.name == name) return &prompt;
  }
  return nullptr;
}

Result<SentenceConfig> read_sentence_config(const std::string& directory,
                                            const EmbeddingGemma2Config& config) {
  SentenceConfig out;
  NPUSEG_RETURN_IF_ERROR(check_modules(directory, config.text.embedding_dim));
  NPUSEG_RETURN_IF_ERROR(read_prompts(directory, &out));
  NPUSEG_RETURN_IF_ERROR(read_limit(directory, &out));
  NPUSEG_RETURN_IF_ERROR(read_dims(directory, config.text.embedding_dim, &out));
  return out;
}

}  // namespace npuseg::checkpoint

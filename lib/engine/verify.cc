// SPDX-License-Identifier: Apache-2.0
#include "engine/verify.h"

#include <algorithm>
#include <filesystem>
#include <span>
#include <system_error>
#include <vector>

#include "bundle/bundle.h"
#include "bundle/instructions.h"
#include "bundle/xclbin.h"
#include "checkpoint/safetensors.h"
#include "core/file.h"
#include "core/json.h"
#include "core/sha256.h"
#include "engine/embeddinggemma2_engine.h"
#include "engine/sam3_engine.h"
#include "engine/stated_sums.h"

namespace npuseg::engine {

using core::Call;
using core::Code;
using core::format;
using core::Result;
using core::Status;

namespace {

namespace fs = std::filesystem;

constexpr uint32_t kStage = 1;  // NPUSEG_STAGE_LOAD
constexpr size_t kMostFiles = 100'000;
constexpr size_t kMaxJsonBytes = size_t{256} << 20;
constexpr const char* kStructure = "structure";

class Verifier {
 public:
  Verifier(std::string directory, Call* call, Report* report)
      : directory_(std::move(directory)), call_(call), report_(report) {}

  Status run(const Result<ModelDirectory>& found) {
    NPUSEG_RETURN_IF_ERROR(list_files());
    NPUSEG_RETURN_IF_ERROR(check_sums());
    for (const std::string& file : files_) {
      NPUSEG_RETURN_IF_ERROR(call_->check());
      check_structure(file);
    }
    check_index();
    if (!found.ok()) {
      report_->fail("model", kStructure, found.status().message());
    } else if (found.value().kind == checkpoint::ModelKind::kSam3) {
      check_model(Sam3Engine::verify_structure(directory_));
    } else {
      check_model(EmbeddingGemma2Engine::verify_structure(directory_));
    }
    return call_->check();
  }

 private:
  [[nodiscard]] std::string path_of(const std::string& file) const {
    return core::join_path(directory_, file);
  }

  // Regular files of the folder and of those in it, links followed; not what tools hide in folders
  // that begin with a point.
  Status list_files() {
    std::error_code error;
    const fs::path root(directory_);
    fs::recursive_directory_iterator at(root, error);
    for (; !error && at != fs::recursive_directory_iterator(); at.increment(error)) {
      std::error_code ignored;
      if (at->is_directory(ignored)) {
        if (at->path().filename().string().starts_with('.')) at.disable_recursion_pending();
        continue;
      }
      const std::string name = at->path().lexically_relative(root).generic_string();
      if (!at->is_regular_file(ignored)) {
        // A link to nowhere is what a broken download leaves.
        report_->fail(name, "file", "is no regular file or a link to nothing");
        continue;
      }
      if (files_.size() == kMostFiles) {
        return {Code::kLimitExceeded, format("cannot verify: %s: has more than %zu files",
                                             directory_.c_str(), kMostFiles)};
      }
      files_.push_back(name);
    }
    if (error) {
      return {Code::kIo, "cannot verify: " + directory_ + ": " + error.message()};
    }
    std::sort(files_.begin(), files_.end());
    return {};
  }

  [[nodiscard]] uint64_t pieces_of(const std::string& file) const {
    std::error_code ignored;
    const uintmax_t bytes = fs::file_size(path_of(file), ignored);
    return ignored ? 0 : static_cast<uint64_t>(bytes / core::kSha256Piece + 1);
  }

  Status check_sums() {
    const StatedSums sums = read_stated_sums(directory_, files_, report_);
    if (sums.empty()) {
      report_->note("files", "SHA-256",
                    "the directory states no sums (there is no SHA256SUMS); only structure is "
                    "checked");
      return {};
    }
    if (!core::has_sha256()) {
      report_->note("files", "SHA-256",
                    "sums are not checked: this build of npuseg is without libcrypto");
    }
    uint64_t total = 0;
    for (const auto& [file, sum] : sums) total += pieces_of(file);
    call_->begin_stage(kStage, total);
    for (const auto& [file, sum] : sums) {
      if (!std::binary_search(files_.begin(), files_.end(), file) &&
          !core::file_exists(path_of(file))) {
        report_->fail(file, "file", "is missing, " + sum.by + " lists it; get it again");
        continue;
      }
      if (!core::has_sha256()) continue;
      const Result<std::string> found = core::sha256_of_file(path_of(file), *call_);
      NPUSEG_RETURN_IF_ERROR(call_->check());
      if (!found.ok()) {
        report_->fail(file, "SHA-256", found.status().message());
      } else if (found.value() != sum.sha256) {
        report_->fail(file, "SHA-256",
                      "is " + found.value() + ", " + sum.by + " states " + sum.sha256 +
                          "; get the file again");
      } else {
        report_->ok(file, "SHA-256", "as " + sum.by + " states");
      }
    }
    tell_unlisted(sums);
    return {};
  }

  void tell_unlisted(const StatedSums& sums) {
    constexpr size_t kNamed = 3;
    size_t count = 0;
    std::string names;
    for (const std::string& file : files_) {
      if (sums.find(file) != sums.end() || file == "SHA256SUMS") continue;
      if (count++ < kNamed) names += (names.empty() ? "" : ", ") + file;
    }
    if (count == 0) return;
    if (count > kNamed) names += format(" and %zu more", count - kNamed);
    report_->info("files", "without a stated SHA-256", static_cast<double>(count), names);
  }

  // What `read` says of what it found, or finds wrong.
  template <class Read>
  void row(const std::string& file, Read&& read) {
    const Result<std::string> found = read();
    if (found.ok()) {
      report_->ok(file, kStructure, found.value());
    } else {
      report_->fail(file, kStructure, found.status().message());
    }
  }

  void check_structure(const std::string& file) {
    const std::string path = path_of(file);
    row(file, [&]() -> Result<std::string> {
      NPUSEG_ASSIGN_OR_RETURN(const core::MappedFile mapped, core::MappedFile::open(path));
      const std::span<const unsigned char> bytes = mapped.bytes();
      if (core::is_lfs_pointer(bytes)) {
        return Status(Code::kCorruptData,
                      "this is a git-lfs pointer; run 'git lfs pull' to get the real file");
      }
      if (file.ends_with(".safetensors")) {
        NPUSEG_ASSIGN_OR_RETURN(const auto tensors, checkpoint::parse_safetensors(bytes, path));
        return format("%zu tensors in %zu bytes", tensors.size(), bytes.size());
      }
      if (file.ends_with(".json")) {
        NPUSEG_RETURN_IF_ERROR(core::JsonDocument::load(path, kMaxJsonBytes).status());
        return format("JSON of %zu bytes", bytes.size());
      }
      if (file.ends_with(".xclbin")) {
        NPUSEG_ASSIGN_OR_RETURN(const auto xclbin, bundle::parse_xclbin(bytes, path));
        return format("array configuration of %u columns", xclbin.column_width);
      }
      if (file.ends_with(".insts.bin")) {
        NPUSEG_RETURN_IF_ERROR(bundle::check_stream(bytes, path));
        return format("instruction stream of %zu bytes", bytes.size());
      }
      if (file == "tensors.txt") {
        NPUSEG_ASSIGN_OR_RETURN(const auto tensors,
                                bundle::Tensors::open(path, path_of("tensors.bin")));
        return format("%zu tensors that tensors.bin holds", tensors.all().size());
      }
      if (file == "manifest.txt") {
        NPUSEG_ASSIGN_OR_RETURN(const std::string text,
                                core::read_file(path, bundle::kMaxManifestBytes));
        NPUSEG_ASSIGN_OR_RETURN(const auto manifest, bundle::Manifest::parse(text, path));
        return format("%zu records", manifest.records().size());
      }
      return format("%zu bytes", bytes.size());
    });
  }

  // The size that an index of shards states.
  void check_index() {
    const std::string file = "model.safetensors.index.json";
    if (!core::file_exists(path_of(file))) return;
    const auto document = core::JsonDocument::load(path_of(file), kMaxJsonBytes);
    if (!document.ok()) return;  // told already
    double stated = 0.0;
    if (!document.value().root()["metadata"]["total_size"].get(&stated)) return;
    const auto files = checkpoint::Checkpoint::open(directory_);
    if (!files.ok()) return;  // will be told of the model
    uint64_t total = 0;
    for (const auto& [name, tensor] : files.value().tensors()) total += tensor.view.bytes();
    report_->compare(file, "total_size", static_cast<double>(total), Bound::kEqual, stated,
                     "bytes of the tensors that it lists");
  }

  void check_model(const Result<std::string>& found) {
    if (found.ok()) {
      report_->ok("model", kStructure, found.value());
    } else {
      report_->fail("model", kStructure, found.status().message());
    }
  }

  std::string directory_;
  Call* call_;
  Report* report_;
  std::vector<std::string> files_;  // sorted
};

// Failures that say that there is no model to verify.
bool is_no_model(Code code) {
  return code == Code::kNotFound || code == Code::kInvalidArgument || code == Code::kUnsupported ||
         code == Code::kOutOfMemory;
}

}  // namespace

Result<std::shared_ptr<const Report>> verify_directory(const std::string& directory,
                                                       const ModelOptions& options) {
  const Result<ModelDirectory> found = probe_directory(directory);
  if (!found.ok() && is_no_model(found.status().code())) return found.status();
  Call call(options.call);
  auto report = std::make_shared<Report>();
  if (found.ok()) report->set_model(found.value());
  NPUSEG_RETURN_IF_ERROR(Verifier(directory, &call, report.get()).run(found));
  return std::shared_ptr<const Report>(std::move(report));
}

}  // namespace npuseg::engine

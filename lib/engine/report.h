// SPDX-License-Identifier: Apache-2.0
// What a check of a bundle or a verification of files found, row by row.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/device.h"
#include "engine/model_source.h"

namespace npuseg::engine {

// Values are those of the public NPUSEG_ROW_*.
enum class RowState : uint32_t { kOk = 1, kFailed = 2, kInfo = 3 };

// How a row's value has to stand to its bound; values are those of the public NPUSEG_BOUND_*.
enum class Bound : uint32_t {
  kNone = 0,
  kAtMost = 1,
  kBelow = 2,
  kAtLeast = 3,
  kAbove = 4,
  kEqual = 5,
};

struct ReportRow {
  std::string subject;  // what is looked at: a picture, a case, a stage, a file
  std::string name;     // what of it: "pixels", "embedding", "mask IoU", "SHA-256"
  double value = 0.0;   // NaN: none, or what was found is none
  double bound = 0.0;
  Bound compare = Bound::kNone;
  RowState state = RowState::kInfo;
  std::string detail;  // for people: numbers that one value does not tell, why it failed
};

class Report {
 public:
  // Passes when the value stands to the bound as said; NaN never does.
  void compare(std::string subject, std::string name, double value, Bound how, double bound,
               std::string detail = {});
  void ok(std::string subject, std::string name, std::string detail);
  void fail(std::string subject, std::string name, std::string detail);
  // Told, and never a reason to fail.
  void info(std::string subject, std::string name, double value, std::string detail = {});
  void note(std::string subject, std::string name, std::string detail);

  void set_model(const ModelDirectory& model) { model_ = model; }
  void set_device(const DeviceChoice& device) { device_ = device; }

  // Absent when that could not be told.
  [[nodiscard]] const std::optional<ModelDirectory>& model() const { return model_; }
  [[nodiscard]] const DeviceChoice& device() const { return device_; }
  [[nodiscard]] const std::vector<ReportRow>& rows() const { return rows_; }
  [[nodiscard]] size_t failures() const { return failures_; }

 private:
  void add(ReportRow row);
  std::optional<ModelDirectory> model_;
  DeviceChoice device_;  // empty of a verification
  std::vector<ReportRow> rows_;
  size_t failures_ = 0;
};

// Of two vectors in double; 1 of two that are all zero.
double cosine(const float* a, const float* b, size_t count);
// Infinite when a difference is not a number.
double largest_difference(const float* a, const float* b, size_t count);

}  // namespace npuseg::engine

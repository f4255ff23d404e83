// SPDX-License-Identifier: Apache-2.0
#include "engine/report.h"

#include <cmath>
#include <limits>
#include <utility>

namespace npuseg::engine {

namespace {

constexpr double kNoNumber = std::numeric_limits<double>::quiet_NaN();

bool stands(double value, Bound how, double bound) {
  switch (how) {
    case Bound::kNone:
      return true;
    case Bound::kAtMost:
      return value <= bound;
    case Bound::kBelow:
      return value < bound;
    case Bound::kAtLeast:
      return value >= bound;
    case Bound::kAbove:
      return value > bound;
    case Bound::kEqual:
      break;
  }
  return value == bound;
}

}  // namespace

void Report::add(ReportRow row) {
  failures_ += row.state == RowState::kFailed ? 1 : 0;
  rows_.push_back(std::move(row));
}

void Report::compare(std::string subject, std::string name, double value, Bound how, double bound,
                     std::string detail) {
  const RowState state = stands(value, how, bound) ? RowState::kOk : RowState::kFailed;
  add({std::move(subject), std::move(name), value, bound, how, state, std::move(detail)});
}

void Report::ok(std::string subject, std::string name, std::string detail) {
  add({std::move(subject), std::move(name), kNoNumber, 0.0, Bound::kNone, RowState::kOk,
       std::move(detail)});
}

void Report::fail(std::string subject, std::string name, std::string detail) {
  add({std::move(subject), std::move(name), kNoNumber, 0.0, Bound::kNone, RowState::kFailed,
       std::move(detail)});
}

void Report::info(std::string subject, std::string name, double value, std::string detail) {
  add({std::move(subject), std::move(name), value, 0.0, Bound::kNone, RowState::kInfo,
       std::move(detail)});
}

void Report::note(std::string subject, std::string name, std::string detail) {
  info(std::move(subject), std::move(name), kNoNumber, std::move(detail));
}

double cosine(const float* a, const float* b, size_t count) {
  double product = 0.0;
  double squares_a = 0.0;
  double squares_b = 0.0;
  for (size_t i = 0; i < count; ++i) {
    product += static_cast<double>(a[i]) * static_cast<double>(b[i]);
    squares_a += static_cast<double>(a[i]) * static_cast<double>(a[i]);
    squares_b += static_cast<double>(b[i]) * static_cast<double>(b[i]);
  }
  if (squares_a == 0.0 && squares_b == 0.0) return 1.0;
  return product / std::sqrt(squares_a * squares_b);
}

double largest_difference(const float* a, const float* b, size_t count) {
  double largest = 0.0;
  for (size_t i = 0; i < count; ++i) {
    const double difference = std::fabs(static_cast<double>(a[i]) - static_cast<double>(b[i]));
    if (std::isnan(difference)) return std::numeric_limits<double>::infinity();
    largest = difference > largest ? difference : largest;
  }
  return largest;
}

}  // namespace npuseg::engine

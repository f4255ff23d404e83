// SPDX-License-Identifier: Apache-2.0
// Vectors as table, matrix, JSON and NumPy file.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

#include "embed_items.h"
#include "json.h"
#include "output.h"

namespace cli {

namespace {

constexpr size_t kShownCharacters = 60;
constexpr size_t kShownNumbers = 4;

// A text in one line that a terminal can show, cut when it is long.
std::string shown(const std::string& text) {
  std::string out;
  size_t characters = 0;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool begins = (byte & 0xC0) != 0x80;
    if (begins && ++characters > kShownCharacters) return out + "...";
    out += byte < 0x20 || byte == 0x7F ? ' ' : c;
  }
  return out;
}

std::string name_of(const EmbedItem& item) {
  std::string name;
  for (const EmbedPart& part : item.parts) {
    if (!name.empty()) name += " + ";
    name += part.picture ? shown(part.value) : "\"" + shown(part.value) + "\"";
  }
  if (item.parts.empty()) name = "line " + std::to_string(item.line);
  if (item.task) name += "  (" + shown(*item.task) + ")";
  return name;
}

std::string padded(const std::string& text, size_t width) {
  return text.size() < width ? std::string(width - text.size(), ' ') + text : text;
}

// Fixed, and never "-0.0000".
std::string fixed(float value) {
  if (std::isnan(value)) return "-";
  char text[32];
  const double rounded = std::round(static_cast<double>(value) * 1e4) / 1e4;
  std::snprintf(text, sizeof text, "%.4f", rounded == 0.0 ? 0.0 : rounded);
  return text;
}

size_t number_width(size_t items) { return std::to_string(items).size() + 2; }

}  // namespace

std::string items_text(const std::vector<EmbedItem>& items, bool with_matrix) {
  const size_t width = number_width(items.size());
  std::string text;
  for (size_t i = 0; i < items.size(); ++i) {
    const EmbedItem& item = items[i];
    if (item.failed) continue;
    text += padded(std::to_string(i + 1), width) + "  " + item.kind();
    text.append(5 - std::min<size_t>(5, std::string(item.kind()).size()), ' ');
    text += padded(std::to_string(item.tokens), 6) + " tokens  ";
    if (!with_matrix) {
      text += "[";
      for (size_t k = 0; k < std::min(kShownNumbers, item.vector.size()); ++k) {
        text += padded(fixed(item.vector[k]), 7) + ", ";
      }
      text += "...] " + std::to_string(item.vector.size()) + "  ";
    }
    text += name_of(item) + "\n";
  }
  return text;
}

std::vector<float> similarities(const std::vector<EmbedItem>& items) {
  const size_t n = items.size();
  std::vector<float> matrix(n * n, std::numeric_limits<float>::quiet_NaN());
  for (size_t i = 0; i < n; ++i) {
    for (size_t k = 0; k <= i; ++k) {
      const std::vector<float>& a = items[i].vector;
      const std::vector<float>& b = items[k].vector;
      if (a.empty() || b.empty()) continue;
      double sum = 0.0;
      for (size_t d = 0; d < a.size(); ++d) {
        sum += static_cast<double>(a[d]) * static_cast<double>(b[d]);
      }
      matrix[i * n + k] = matrix[k * n + i] = static_cast<float>(sum);
    }
  }
  return matrix;
}

std::string similarity_text(const std::vector<EmbedItem>& items, const std::vector<float>& matrix) {
  constexpr size_t kColumn = 9;
  const size_t n = items.size();
  const size_t width = number_width(n);
  std::string text(width, ' ');
  for (size_t k = 0; k < n; ++k) text += padded(std::to_string(k + 1), kColumn);
  text += "\n";
  for (size_t i = 0; i < n; ++i) {
    text += padded(std::to_string(i + 1), width);
    for (size_t k = 0; k < n; ++k) text += padded(fixed(matrix[i * n + k]), kColumn);
    text += "  " + name_of(items[i]) + "\n";
  }
  return text;
}

std::string items_json(const std::vector<EmbedItem>& items) {
  JsonWriter json;
  json.open('[');
  for (const EmbedItem& item : items) {
    const std::string kind = item.kind();
    json.open('{').key("kind");
    kind.empty() ? json.null() : json.text(kind);
    if (kind == "image" || kind == "pair") json.key("path").text(item.parts[0].value);
    if (kind == "text" || kind == "pair") json.key("text").text(item.parts.back().value);
    if (kind == "parts") {
      json.key("items").open('[');
      for (const EmbedPart& part : item.parts) {
        json.open('{').key(part.picture ? "image" : "text").text(part.value).close('}');
      }
      json.close(']');
    }
    if (item.line != 0) json.key("line").number(uint64_t{item.line});
    if (item.task) {
      json.key("task").text(*item.task);
    } else if (kind == "text") {
      json.key("task").null();
    }
    if (item.failed) {
      write_error(*item.failed, &json);
      json.key("vector").null();
    } else {
      json.key("tokens").number(uint64_t{item.tokens}).key("vector").open('[');
      for (const float value : item.vector) json.number(value);
      json.close(']');
    }
    json.close('}');
  }
  json.close(']');
  return ",\"items\":" + json.str();
}

std::string similarity_json(size_t items, const std::vector<float>& matrix) {
  JsonWriter json;
  json.open('[');
  for (size_t i = 0; i < items; ++i) {
    json.open('[');
    for (size_t k = 0; k < items; ++k) json.number(matrix[i * items + k]);  // NaN becomes null
    json.close(']');
  }
  json.close(']');
  return ",\"similarity\":" + json.str();
}

bool write_vectors(const std::string& path, const std::vector<EmbedItem>& items, size_t dims) {
  std::vector<float> matrix(items.size() * dims, std::numeric_limits<float>::quiet_NaN());
  for (size_t i = 0; i < items.size(); ++i) {
    std::copy(items[i].vector.begin(), items[i].vector.end(),
              matrix.begin() + static_cast<std::ptrdiff_t>(i * dims));
  }
  return write_npy(path, "<f4", {items.size(), dims}, matrix.data(), matrix.size() * sizeof(float));
}

}  // namespace cli

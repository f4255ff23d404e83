// SPDX-License-Identifier: Apache-2.0
// What embed is asked for, item by item, and what became of it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "handles.h"
#include "model.h"
#include "options.h"

namespace cli {

struct EmbedPart {
  bool picture = false;
  std::string value;  // path or text
};

struct EmbedItem {
  std::vector<EmbedPart> parts;
  std::optional<std::string> task;  // absent: the model's default
  PictureOptions how;
  size_t line = 0;  // of the input file, from 1; 0: from the command line

  std::optional<Failure> failed;
  size_t tokens = 0;
  std::vector<float> vector;  // empty: none

  [[nodiscard]] size_t pictures() const;
  // "image", "text", "pair" (a picture, then a text), "parts", or "" of a line that is unreadable.
  [[nodiscard]] const char* kind() const;
};

// Items of the command line, then of --input. A bad line is reported and becomes an item that
// failed. kDone, or the exit status when the file is unreadable.
int read_items(const Options& options, std::vector<EmbedItem>* items);

// The whole of a file or, for "-", of standard input; reports a failure.
bool read_all(const std::string& path, std::string* bytes);

// A table of the items; with_matrix: without vectors.
std::string items_text(const std::vector<EmbedItem>& items, bool with_matrix);

// How near every item is to every other one: [items, items], NaN where there is no vector.
std::vector<float> similarities(const std::vector<EmbedItem>& items);
std::string similarity_text(const std::vector<EmbedItem>& items, const std::vector<float>& matrix);

// "items":[...] and, when asked, "similarity":[...], each after a comma.
std::string items_json(const std::vector<EmbedItem>& items);
std::string similarity_json(size_t items, const std::vector<float>& matrix);

// Rows of items without vector are NaN.
bool write_vectors(const std::string& path, const std::vector<EmbedItem>& items, size_t dims);

}  // namespace cli

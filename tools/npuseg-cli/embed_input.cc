// SPDX-License-Identifier: Apache-2.0
// Items of the command line and of a file of JSON lines.
#include <fcntl.h>
#include <simdjson.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string_view>
#include <system_error>

#include "embed_items.h"
#include "json.h"
#include "progress.h"

namespace cli {

namespace {

namespace dom = simdjson::dom;

constexpr size_t kMostFileBytes = size_t{1} << 30;
// Longer than any text that the library takes.
constexpr size_t kMostLineBytes = size_t{512} << 20;

// One line as an item; on failure why says what is wrong with it.
class Line {
 public:
  Line(EmbedItem* item, std::string* why) : item_(item), why_(why) {}

  bool read(dom::parser* parser, std::string_view text) {
    if (text.size() > kMostLineBytes) return no("it is longer than 512 MiB");
    dom::element root;
    if (const auto error = parser->parse(text.data(), text.size()).get(root)) {
      return no(std::string("no valid JSON: ") + simdjson::error_message(error));
    }
    dom::object object;
    if (root.get(object)) return no("it is no JSON object");
    bool has_items = false;
    for (const auto& [key, value] : object) {
      if (!once(key, &line_keys_)) return false;
      has_items = has_items || key == "items";
      if (!field(key, value)) return false;
    }
    return has_items || no("it has no \"items\"");
  }

 private:
  bool no(const std::string& why) {
    *why_ = why;
    return false;
  }

  bool once(std::string_view key, std::vector<std::string>* seen) {
    if (std::find(seen->begin(), seen->end(), key) != seen->end()) {
      return no("\"" + name(key) + "\" is there twice");
    }
    seen->emplace_back(key);
    return true;
  }

  static std::string name(std::string_view key) { return std::string(key.substr(0, 60)); }

  bool string(std::string_view key, const dom::element& value, std::string* out) {
    std::string_view text;
    if (value.get(text)) return no("\"" + name(key) + "\" is no string");
    if (!is_utf8(text)) return no("\"" + name(key) + "\" holds half of a surrogate pair");
    *out = text;
    return true;
  }

  // A string that goes to the library as one that ends at its first NUL.
  bool word(std::string_view key, const dom::element& value, std::string* out) {
    if (!string(key, value, out)) return false;
    return (!out->empty() && out->find('\0') == std::string::npos) ||
           no("\"" + name(key) + "\" is empty or holds a NUL");
  }

  bool field(std::string_view key, const dom::element& value) {
    std::string text;
    if (key == "items") return items(value);
    if (key == "task") {
      if (!word(key, value, &text)) return false;
      item_->task = text;
      return true;
    }
    if (key == "exif") {
      if (!string(key, value, &text)) return false;
      item_->how.apply_exif = text == "apply";
      return text == "apply" || text == "ignore" || no("\"exif\" is neither apply nor ignore");
    }
    if (key == "alpha") {
      if (!string(key, value, &text)) return false;
      return read_alpha(text, &item_->how.alpha, &item_->how.colour) ||
             no("\"alpha\" is neither drop nor white nor RRGGBB");
    }
    return no("\"" + name(key) + "\" is unknown; items, task, exif and alpha are known");
  }

  bool items(const dom::element& value) {
    dom::array array;
    if (value.get(array)) return no("\"items\" is no array");
    for (const dom::element& element : array) {
      dom::object object;
      if (element.get(object)) return no("an item is no object");
      std::vector<std::string> keys;
      for (const auto& [key, content] : object) {
        if (!once(key, &keys)) return false;
        EmbedPart part;
        part.picture = key == "image";
        if (!part.picture && key != "text") {
          return no("an item has \"" + name(key) + "\"; image and text are known");
        }
        if (!(part.picture ? word(key, content, &part.value) : string(key, content, &part.value))) {
          return false;
        }
        item_->parts.push_back(std::move(part));
      }
      if (keys.size() != 1) return no("an item needs one of \"image\" and \"text\"");
    }
    return !item_->parts.empty() || no("\"items\" is empty");
  }

  EmbedItem* item_;
  std::string* why_;
  std::vector<std::string> line_keys_;
};

bool blank(std::string_view line) {
  return line.find_first_not_of(" \t\r") == std::string_view::npos;
}

void read_lines(const std::string& where, std::string_view rest, std::vector<EmbedItem>* items) {
  if (rest.starts_with("\xEF\xBB\xBF")) rest.remove_prefix(3);
  dom::parser parser;
  for (size_t number = 1; !rest.empty(); ++number) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (blank(line)) continue;
    EmbedItem item;
    std::string why;
    if (!Line(&item, &why).read(&parser, line)) {
      item = EmbedItem{};
      item.failed = Failure{NPUSEG_CORRUPT_DATA, "cannot read input: " + where + " line " +
                                                     std::to_string(number) + ": " + why +
                                                     "; correct the line"};
    }
    item.line = number;
    items->push_back(std::move(item));
  }
}

}  // namespace

size_t EmbedItem::pictures() const {
  return static_cast<size_t>(std::count_if(parts.begin(), parts.end(),
                                           [](const EmbedPart& part) { return part.picture; }));
}

const char* EmbedItem::kind() const {
  if (parts.empty()) return "";
  if (parts.size() == 1) return parts[0].picture ? "image" : "text";
  return parts.size() == 2 && parts[0].picture && !parts[1].picture ? "pair" : "parts";
}

bool read_all(const std::string& path, std::string* bytes) {
  // The reader of a pipe may wait for long.
  const NoWriting guard;
  const bool standard = path == "-";
  const char* where = standard ? "standard input" : path.c_str();
  const int fd = standard ? STDIN_FILENO : ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  int error = fd < 0 ? errno : 0;
  struct stat info {};
  if (error == 0 && ::fstat(fd, &info) == 0 && S_ISREG(info.st_mode)) {
    bytes->reserve(std::min(static_cast<size_t>(info.st_size), kMostFileBytes));
  }
  std::string chunk(size_t{1} << 18, '\0');
  while (error == 0 && bytes->size() <= kMostFileBytes) {
    const ssize_t got = ::read(fd, chunk.data(), chunk.size());
    if (got == 0) break;
    if (got < 0) {
      if (errno != EINTR) error = errno;
      continue;
    }
    bytes->append(chunk, 0, static_cast<size_t>(got));
  }
  if (fd >= 0 && !standard) ::close(fd);
  if (error != 0) {
    report("cannot read input: " + std::string(where) + ": " +
           std::generic_category().message(error) + "; check the path");
  } else if (bytes->size() > kMostFileBytes) {
    report("cannot read input: " + std::string(where) + ": over 1 GiB; split it");
    return false;
  }
  return error == 0;
}

int read_items(const Options& options, std::vector<EmbedItem>* items) {
  for (const CommandItem& asked : options.items) {
    EmbedItem item;
    if (!asked.has_text || !asked.image.empty()) item.parts.push_back({true, asked.image});
    if (asked.has_text) item.parts.push_back({false, asked.text});
    items->push_back(std::move(item));
  }
  if (!options.input.empty()) {
    std::string bytes;
    if (!read_all(options.input, &bytes)) return kInput;
    read_lines(options.input == "-" ? "standard input" : options.input, bytes, items);
  }
  for (EmbedItem& item : *items) {
    if (!options.task.empty() && !item.task && item.pictures() == 0) item.task = options.task;
  }
  return kDone;
}

}  // namespace cli

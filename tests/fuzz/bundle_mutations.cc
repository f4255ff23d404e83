// SPDX-License-Identifier: Apache-2.0
// Damaged bundles through the public header: opened and, where they open, run. Whatever was
// changed, each call ends with a status; sanitizers see to the rest.
//
//   bundle_mutations [COUNT [SEED]]
//
// A change is a function of the seed and the bundle's number, so a failure is repeated with
// COUNT 1 and the SEED that was printed.
#include <stdlib.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "bundle_files.h"
#include "npuseg.h"

namespace {

namespace fs = std::filesystem;
using npuseg::test::BundleFiles;

// SplitMix64: small, and the same everywhere.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t next() {
    uint64_t z = (state_ += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }
  size_t below(size_t bound) { return bound == 0 ? 0 : static_cast<size_t>(next() % bound); }
  bool one_in(size_t count) { return below(count) == 0; }
  template <class T>
  const T& of(const std::vector<T>& values) {
    return values[below(values.size())];
  }

 private:
  uint64_t state_;
};

npuseg::test::Sam3BundleOptions smallest_sam3(bool by_host) {
  npuseg::test::Sam3BundleOptions options;
  options.grid = options.window = 4;
  options.patch = 4;
  options.vit_dim = 32;
  options.vit_heads = 2;
  options.vit_layers = 2;
  options.vit_ffn = 40;
  options.vit_ffn_pad = 64;
  options.d_model = 32;
  options.d_heads = 2;
  options.d_layers = options.dec_layers = options.text_layers = 1;
  options.d_ffn = options.text_ffn = 32;
  options.text_len = 16;
  options.text_dim = 32;
  options.text_heads = 2;
  options.queries = 6;
  options.mid = 16;
  options.score = 32;
  options.mask_columns = 32;
  options.tracker = false;
  options.host_vit = by_host;
  options.format = by_host ? 1 : 2;
  return options;
}

const std::vector<std::string>& odd_numbers() {
  static const std::vector<std::string> all = {"0",
                                               "1",
                                               "2",
                                               "3",
                                               "7",
                                               "8",
                                               "-1",
                                               "64",
                                               "65",
                                               "4096",
                                               "1048576",
                                               "1048577",
                                               "4294967295",
                                               "4294967296",
                                               "9223372036854775807",
                                               "18446744073709551608",
                                               "18446744073709551615",
                                               "99999999999999999999",
                                               "1e9",
                                               "nan",
                                               "inf",
                                               "0x10",
                                               ""};
  return all;
}

// Changes one number, word, line or byte of a text.
void change_text(Random& random, std::string* text) {
  std::vector<std::string> lines;
  for (size_t at = 0; at < text->size();) {
    const size_t end = std::min(text->find('\n', at), text->size());
    lines.push_back(text->substr(at, end - at));
    at = end + 1;
  }
  if (lines.empty()) return;
  const size_t which = random.below(lines.size());
  std::string& line = lines[which];
  switch (random.below(8)) {
    case 0:
      lines.erase(lines.begin() + static_cast<std::ptrdiff_t>(which));
      break;
    case 1:
      lines.push_back(line);
      break;
    case 2:
      std::swap(line, lines[random.below(lines.size())]);
      break;
    case 3:
      line.resize(random.below(line.size() + 1));
      break;
    case 4:
      if (!line.empty()) line[random.below(line.size())] = static_cast<char>(random.next());
      break;
    case 5: {
      const std::string& other = random.of(lines);
      const size_t space = std::min(other.find(' '), other.size());
      line += other.substr(space);
      break;
    }
    default: {
      // A run of digits.
      const size_t from = random.below(line.size() + 1);
      const size_t begin = std::min(line.find_first_of("0123456789", from), line.size());
      const size_t end = std::min(line.find_first_not_of("0123456789", begin), line.size());
      line.replace(begin, end - begin, random.of(odd_numbers()));
      break;
    }
  }
  text->clear();
  for (const std::string& one : lines) *text += one + "\n";
}

void change_bytes(Random& random, std::string* bytes) {
  if (bytes->empty()) return;
  static const std::vector<std::string> words = {
      std::string(4, '\0'), std::string(4, '\xff'), std::string("\x00\x00\xc0\x7f", 4),
      std::string("\x00\x00\x80\xff", 4), std::string("\x00\x00\x00\x80", 4)};
  switch (random.below(5)) {
    case 0:
      bytes->resize(random.below(bytes->size()));
      break;
    case 1:
      bytes->append(random.below(100), static_cast<char>(random.next()));
      break;
    case 2: {
      const std::string& word = random.of(words);
      const size_t at = random.below(bytes->size()) & ~size_t{3};
      for (size_t i = 0; i < word.size() && at + i < bytes->size(); ++i) (*bytes)[at + i] = word[i];
      break;
    }
    default:
      for (size_t i = 0, count = 1 + random.below(8); i < count; ++i) {
        (*bytes)[random.below(bytes->size())] = static_cast<char>(random.next());
      }
  }
}

struct Tally {
  size_t refused = 0;
  size_t failed = 0;  // opened, and then a call failed
  size_t ran = 0;
};

void check_message(npuseg_status status) {
  if (status != NPUSEG_OK && npuseg_last_error()[0] == '\0') {
    std::fprintf(stderr, "status %d came without a message\n", static_cast<int>(status));
    std::abort();
  }
}

// A picture whose sides and colours follow the number.
std::vector<uint8_t> picture(uint32_t width, uint32_t height, uint64_t seed) {
  Random random(seed);
  std::vector<uint8_t> rgb(size_t{width} * height * 3);
  for (uint8_t& value : rgb) value = static_cast<uint8_t>(random.next());
  return rgb;
}

void run_sam3(const std::string& folder, uint64_t number, Tally* tally) {
  npuseg_sam3* model = nullptr;
  npuseg_status status = npuseg_sam3_load(folder.c_str(), nullptr, &model);
  check_message(status);
  if (status != NPUSEG_OK) {
    ++tally->refused;
    return;
  }
  constexpr uint32_t kSide = 24;
  const std::vector<uint8_t> rgb = picture(kSide, kSide, number);
  npuseg_image* image = nullptr;
  npuseg_result* result = nullptr;
  npuseg_pixels pixels = {};
  pixels.struct_size = sizeof pixels;
  pixels.data = rgb.data();
  pixels.data_bytes = rgb.size();
  pixels.format = NPUSEG_FORMAT_RGB;
  pixels.width = pixels.height = kSide;
  status = npuseg_image_from_pixels(&pixels, nullptr, &image);
  if (status == NPUSEG_OK) status = npuseg_segment(model, image, "the cat", nullptr, &result);
  check_message(status);
  ++(status == NPUSEG_OK ? tally->ran : tally->failed);
  npuseg_release(result);
  npuseg_release(image);
  npuseg_release(model);
}

void run_gemma(const std::string& folder, uint64_t number, Tally* tally) {
  npuseg_embeddinggemma2* model = nullptr;
  npuseg_status status = npuseg_embeddinggemma2_load(folder.c_str(), nullptr, &model);
  check_message(status);
  if (status != NPUSEG_OK) {
    ++tally->refused;
    return;
  }
  constexpr uint32_t kWidth = 40;
  constexpr uint32_t kHeight = 24;
  const std::vector<uint8_t> rgb = picture(kWidth, kHeight, number);
  std::vector<float> vector(4096);
  status = npuseg_embed_rgb(model, rgb.data(), kWidth, kHeight, size_t{kWidth} * 3, nullptr,
                            vector.data(), vector.size());
  check_message(status);
  if (status == NPUSEG_OK) {
    status = npuseg_embed_text(model, "the cat", 7, nullptr, vector.data(), vector.size());
    check_message(status);
  }
  ++(status == NPUSEG_OK ? tally->ran : tally->failed);
  npuseg_release(model);
}

struct Base {
  BundleFiles bundle;
  bool sam3;
  std::vector<std::string> texts;   // paths
  std::vector<std::string> binary;  // paths, the blob first
};

Base base_of(BundleFiles bundle, bool sam3) {
  Base base{std::move(bundle), sam3, {}, {"tensors.bin"}};
  for (const auto& [path, bytes] : base.bundle.files) {
    const bool text = path.ends_with(".txt") || path.ends_with(".json");
    if (path != "tensors.bin") (text ? base.texts : base.binary).push_back(path);
  }
  return base;
}

void write_file(const fs::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary)
      .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

}  // namespace

int main(int argc, char** argv) {
  const size_t count = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 1000;
  const uint64_t seed = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1;
  std::vector<Base> bases;
  bases.push_back(base_of(make_sam3_bundle(smallest_sam3(false)), true));
  bases.push_back(base_of(make_sam3_bundle(smallest_sam3(true)), true));
  bases.push_back(base_of(npuseg::test::make_gemma_bundle(), false));
  std::string folder = (fs::temp_directory_path() / "npuseg_mutations_XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr) return 1;
  for (size_t b = 0; b < bases.size(); ++b) bases[b].bundle.write(folder + "/" + std::to_string(b));

  Tally tally;
  double slowest = 0.0;
  for (uint64_t number = seed; number < seed + count; ++number) {
    Random random(number);
    const size_t which = random.below(bases.size());
    const Base& base = bases[which];
    const std::string at = folder + "/" + std::to_string(which);
    std::map<std::string, std::string> changed;
    for (size_t changes = 1 + random.below(3); changes > 0; --changes) {
      // The manifest and the index are where sizes come from.
      const size_t kind = random.below(6);
      const std::string path = kind < 2   ? "manifest.txt"
                               : kind < 3 ? "tensors.txt"
                               : kind < 4 ? random.of(base.texts)
                               : kind < 5 ? "tensors.bin"
                                          : random.of(base.binary);
      std::string& bytes = changed.try_emplace(path, base.bundle.files.at(path)).first->second;
      if (std::find(base.texts.begin(), base.texts.end(), path) != base.texts.end()) {
        change_text(random, &bytes);
      } else {
        change_bytes(random, &bytes);
      }
    }
    for (const auto& [path, bytes] : changed) {
      fs::remove(fs::path(at) / path);
      if (!random.one_in(40)) write_file(fs::path(at) / path, bytes);
    }
    std::fprintf(stderr, "\r%llu ", static_cast<unsigned long long>(number));
    const auto begin = std::chrono::steady_clock::now();
    (base.sam3 ? run_sam3 : run_gemma)(at, number, &tally);
    slowest = std::max(
        slowest, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    for (const auto& [path, bytes] : changed) {
      write_file(fs::path(at) / path, base.bundle.files.at(path));
    }
  }
  std::error_code ignored;
  fs::remove_all(folder, ignored);
  std::printf(
      "\n%zu damaged bundles: %zu refused, %zu failed while running, %zu ran; longest %.1f "
      "ms\n",
      count, tally.refused, tally.failed, tally.ran, 1e3 * slowest);
  // Were all refused, or none, the changes would say nothing.
  return count < 200 || (tally.refused > 0 && tally.ran > 0) ? 0 : 1;
}

// SPDX-License-Identifier: Apache-2.0
// Runs a fuzz target as a plain test: every file of the given folders as it is, cut short, and with
// bytes changed at places that a fixed generator chooses. Fails when there is no file at all.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

constexpr size_t kCuts = 16;
constexpr size_t kChanges = 64;

// Knuth's 64-bit linear congruential generator; its high bits are the good ones.
struct Generator {
  uint64_t state;
  size_t below(size_t bound) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<size_t>(state >> 33) % bound;
  }
};

// A copy of exactly this size, so that a sanitizer sees a read behind the end.
void run(const uint8_t* data, size_t size) {
  const std::vector<uint8_t> copy(data, data + size);
  static_cast<void>(LLVMFuzzerTestOneInput(copy.data(), copy.size()));
}

void run_file(const std::filesystem::path& path) {
  std::ifstream stream(path, std::ios::binary);
  const std::vector<uint8_t> bytes((std::istreambuf_iterator<char>(stream)),
                                   std::istreambuf_iterator<char>());
  run(bytes.data(), bytes.size());
  if (bytes.empty()) return;
  for (size_t i = 0; i < kCuts; ++i) run(bytes.data(), bytes.size() * i / kCuts);
  Generator generator{bytes.size()};
  for (size_t i = 0; i < kChanges; ++i) {
    std::vector<uint8_t> changed = bytes;
    const size_t count = 1 + generator.below(4);
    for (size_t j = 0; j < count; ++j) {
      changed[generator.below(changed.size())] = static_cast<uint8_t>(generator.below(256));
    }
    run(changed.data(), changed.size());
  }
}

}  // namespace

int main(int argc, char** argv) {
  size_t files = 0;
  for (int i = 1; i < argc; ++i) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(argv[i])) {
      if (!entry.is_regular_file()) continue;
      std::printf("%s\n", entry.path().c_str());
      std::fflush(stdout);
      run_file(entry.path());
      ++files;
    }
  }
  std::printf("%zu files\n", files);
  return files == 0 ? 1 : 0;
}

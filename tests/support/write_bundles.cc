// SPDX-License-Identifier: Apache-2.0
// write_bundles FOLDER: synthetic bundles and damaged ones for tests of the C API and the tool.
//
//   gemma           as spec iron-bundle-embeddinggemma2.md, 25.5, with its references
//   gemma_pictures  the same without texts
//   sam3            as spec iron-bundle-sam3.md, 19.12, with references
//   sam3_format1, sam3_host   the same of format 1, and with a ViT on the host
//   cut             gemma whose tensors.bin has lost its last byte
//   lacking         gemma without the tensor t1.plep
//   nowhere         gemma whose manifest names an instruction file that is not there
//   wrong           gemma with a changed id, pixel and vector among its references
//   summed          gemma with SHA256SUMS, where the build has SHA-256
//   flipped         the same, then one bit of tensors.bin changed
//   pointer         gemma with a git-lfs pointer in place of kernels/txt.xclbin
//   sam3_cut, sam3_lacking, sam3_nowhere   likewise: without d.1.o, rope's instructions
//   sam3_wordless   sam3 without vocab.json
//   sam3_bos        sam3 whose manifest and vocabulary begin texts differently
//   sam3_swapped    sam3 of which weights of two convolutions are swapped
//   sam3_nan        sam3 with a bias that is no number
//   sam3_kernels    of the sizes of the demo model, with a picture and a text of the demo
//   sam3_kernels_bare   the same without them
//   expected/NAME.f32, NAME.i64   values of the public programs for gemma and sam3
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "bundle_builder.h"
#include "checkpoint/safetensors.h"
#include "core/file.h"
#include "core/sha256.h"
#include "demo_kernels.h"
#include "sam3_references.h"

namespace {

using namespace npuseg::test;
using npuseg::core::TensorView;

struct Failed {
  std::string what;
};

void write_file(const std::string& path, const std::string& bytes) {
  std::ofstream file(path, std::ios::binary);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  if (!file) throw Failed{"cannot write " + path};
}

// Golden values by name.
class References {
 public:
  explicit References(const std::string& path) {
    auto opened = npuseg::core::MappedFile::open(path);
    if (!opened.ok()) throw Failed{opened.status().message()};
    file_ = std::move(opened).value();
    auto parsed = npuseg::checkpoint::parse_safetensors(file_.bytes(), path);
    if (!parsed.ok()) throw Failed{parsed.status().message()};
    for (auto& tensor : parsed.value()) tensors_.emplace(tensor.name, tensor.entry.view);
  }
  [[nodiscard]] std::string bytes(const std::string& name) const {
    const auto at = tensors_.find(name);
    if (at == tensors_.end()) throw Failed{"golden file lacks " + name};
    return {static_cast<const char*>(at->second.data), at->second.bytes()};
  }

 private:
  npuseg::core::MappedFile file_;
  std::map<std::string, TensorView> tensors_;
};

template <class To, class From>
std::string converted(const std::string& bytes) {
  std::string out;
  for (size_t at = 0; at + sizeof(From) <= bytes.size(); at += sizeof(From)) {
    From value;
    std::memcpy(&value, bytes.data() + at, sizeof value);
    const auto wanted = static_cast<To>(value);
    out.append(reinterpret_cast<const char*>(&wanted), sizeof wanted);
  }
  return out;
}

std::string hex(const std::string& text) {
  std::string out;
  char digits[3];
  for (const char c : text) {
    std::snprintf(digits, sizeof digits, "%02x", static_cast<unsigned>(c) & 0xFFu);
    out += digits;
  }
  return out.empty() ? "-" : out;
}

struct Text {
  const char* prompt;
  std::string text;
};
const std::vector<Text>& texts() {
  static const std::vector<Text> all = {
      {"-", "the cat"},
      {"SearchQuery", "the cat"},
      {"-", "hello aaaa <mask> x\xc3\xa9\xf0\x9f\x8e\x89 \n\n  aaaaaaa"},
      {"Document", ""}};
  return all;
}

// The first value of a stored list is another one.
std::string spoilt(std::string bytes) {
  bytes[1] = static_cast<char>(bytes[1] ^ 1);
  return bytes;
}

// The records and tensors that make_bundle.py --refs adds. wrong: some of them changed.
void add_references(const References& golden, bool wrong, BundleFiles* bundle) {
  constexpr size_t kWidth = 120, kHeight = 90, kAcross = 9, kDown = 6, kPatch = 192, kOut = 48;
  const auto vector_of = [&](const std::string& name, const std::string& golden_name) {
    const std::string values = golden.bytes(golden_name);
    bundle->add_tensor(name + ".embedding", "f32", {kOut}, values);
    bundle->add_tensor(name + ".npu_embedding", "f32", {kOut}, values);
  };
  bundle->add_line("ref synth w=120 h=90");
  bundle->add_tensor("ref.synth.rgb", "u8", {kHeight, kWidth, 3}, test_picture(kWidth, kHeight));
  const std::string pixels = golden.bytes("pixels");
  bundle->add_tensor("ref.synth.pixels", "f32", {kAcross * kDown, kPatch},
                     wrong ? spoilt(pixels) : pixels);
  std::string positions;
  for (int32_t i = 0; i < static_cast<int32_t>(kAcross * kDown); ++i) {
    const int32_t place[] = {i % static_cast<int32_t>(kAcross), i / static_cast<int32_t>(kAcross)};
    positions.append(reinterpret_cast<const char*>(place), sizeof place);
  }
  bundle->add_tensor("ref.synth.positions", "i32", {kAcross * kDown, 2}, positions);
  bundle->add_tensor("ref.synth.soft", "f32", {6, 64}, golden.bytes("soft"));
  vector_of("ref.synth", "picture");
  std::string rows = golden.bytes("text.0") + golden.bytes("text.1");
  bundle->add_tensor("ref.texts", "f32", {2, kOut}, rows);
  bundle->add_line("text a " + hex("the cat"));
  bundle->add_line("text b " + hex("query"));
  for (size_t i = 0; i < texts().size(); ++i) {
    const std::string number = std::to_string(i);
    const std::string ids = converted<int32_t, int64_t>(golden.bytes("text." + number + ".ids"));
    bundle->add_line("tref " + number + " " + texts()[i].prompt + " " + hex(texts()[i].text));
    bundle->add_tensor("tref." + number + ".ids", "i32", {ids.size() / sizeof(int32_t)},
                       wrong && i == 1 ? spoilt(ids) : ids);
    vector_of("tref." + number, wrong && i == 2 ? "text.0" : "text." + number);
  }
}

void write_sam3(const std::string& folder) {
  BundleFiles sam3 = make_sam3_bundle();
  if (!add_sam3_references(folder + "/sam3", &sam3)) throw Failed{"the tiny bundle does not run"};
  sam3.write(folder + "/sam3");
  Sam3BundleOptions options;
  options.format = 1;
  make_sam3_bundle(options).write(folder + "/sam3_format1");
  options = {};
  options.host_vit = true;
  make_sam3_bundle(options).write(folder + "/sam3_host");
  options = {};
  options.drop = {"d.1.o"};
  make_sam3_bundle(options).write(folder + "/sam3_lacking");
  BundleFiles damaged = sam3;
  damaged.files["tensors.bin"].pop_back();
  damaged.write(folder + "/sam3_cut");
  damaged = sam3;
  damaged.files.erase("kernels/rope.insts.bin");
  damaged.write(folder + "/sam3_nowhere");
  damaged = sam3;
  damaged.files.erase("vocab.json");
  damaged.write(folder + "/sam3_wordless");
  damaged = sam3;
  damaged.replace_line("param bos", "param bos 3");
  damaged.write(folder + "/sam3_bos");
  damaged = sam3;
  std::swap_ranges(damaged.find_tensor("n.conv0"), damaged.find_tensor("n.conv0") + 100000,
                   damaged.find_tensor("n.conv1"));
  damaged.write(folder + "/sam3_swapped");
  damaged = sam3;
  const uint32_t nan = 0x7fc00000;
  std::memcpy(damaged.find_tensor("n.conv1.b") + 4, &nan, sizeof nan);
  damaged.write(folder + "/sam3_nan");
  const std::string demo = std::string(NPUSEG_SOURCE_DIR) + "/demo/sam3";
  kernels_for_demo(demo_kernels(), demo).write(folder + "/sam3_kernels");
  options = demo_kernels();
  options.drop = {"ref_image", "ref_prompt"};
  make_sam3_bundle(options).write(folder + "/sam3_kernels_bare");
}

std::string sums_of(const std::string& folder, const BundleFiles& bundle) {
  std::string lines;
  if (!npuseg::core::has_sha256()) return lines;
  for (const auto& [name, content] : bundle.files) {
    npuseg::core::Call call;
    auto sum = npuseg::core::sha256_of_file(folder + "/" + name, call);
    if (!sum.ok()) throw Failed{sum.status().message()};
    lines += sum.value() + "  " + name + "\n";
  }
  return lines;
}

void run(const std::string& folder) {
  namespace fs = std::filesystem;
  fs::remove_all(folder);
  const References golden(std::string(NPUSEG_SOURCE_DIR) +
                          "/tests/unit/embeddinggemma2/golden/npu_tiny.safetensors");
  const BundleFiles plain = make_gemma_bundle();
  BundleFiles gemma = plain;
  add_references(golden, false, &gemma);
  gemma.write(folder + "/gemma");
  BundleFiles wrong = plain;
  add_references(golden, true, &wrong);
  wrong.write(folder + "/wrong");

  BundleFiles cut = gemma;
  cut.files["tensors.bin"].pop_back();
  cut.write(folder + "/cut");
  BundleFiles nowhere = gemma;
  nowhere.files.erase("kernels/t_o_x2.insts.bin");
  nowhere.write(folder + "/nowhere");
  BundleFiles pointer = gemma;
  pointer.files["kernels/txt.xclbin"] =
      "version https://git-lfs.github.com/spec/v1\noid sha256:" + std::string(64, '0') +
      "\nsize 4\n";
  pointer.write(folder + "/pointer");
  gemma.write(folder + "/summed");
  gemma.files["SHA256SUMS"] = sums_of(folder + "/summed", gemma);
  gemma.write(folder + "/summed");
  std::string& blob = gemma.files["tensors.bin"];
  blob[blob.size() / 2] = static_cast<char>(blob[blob.size() / 2] ^ 4);
  gemma.write(folder + "/flipped");

  GemmaBundleOptions options;
  options.drop = {"t1.plep"};
  make_gemma_bundle(options).write(folder + "/lacking");
  options = {};
  options.image_only = true;
  make_gemma_bundle(options).write(folder + "/gemma_pictures");
  write_sam3(folder);

  const std::string expected = folder + "/expected";
  fs::create_directories(expected);
  const References sam3(std::string(NPUSEG_SOURCE_DIR) +
                        "/tests/unit/sam3/golden/npu_tiny.safetensors");
  write_file(expected + "/sam3_logits.f32", sam3.bytes("logits"));
  write_file(expected + "/picture.f32", golden.bytes("picture"));
  write_file(expected + "/pixels.f32", golden.bytes("pixels"));
  for (size_t i = 0; i < texts().size(); ++i) {
    const std::string name = "text." + std::to_string(i);
    write_file(expected + "/" + name + ".f32", golden.bytes(name));
    write_file(expected + "/" + name + ".i64", golden.bytes(name + ".ids"));
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: write_bundles FOLDER\n");
    return 1;
  }
  try {
    run(argv[1]);
  } catch (const Failed& failed) {
    std::fprintf(stderr, "write_bundles: %s\n", failed.what.c_str());
    return 1;
  }
  return 0;
}

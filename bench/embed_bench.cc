// SPDX-License-Identifier: Apache-2.0
// Time of pictures and texts through the public functions of EmbeddingGemma 2, beside the GEMM peak
// measured in the same run.
//
//   embed_bench MODEL [--precision auto|f32|bf16|int8] [--reps N] [--threads N] [--texts N]
//               [--no-pictures]
//
// Prints one JSON line: load, picture (960 x 672 noise: 280 soft tokens of the released model), one
// text of 18 tokens, and N (1000) texts one by one and as one batch; milliseconds, minimum and
// median. With --precision also the least cosines of the picture's and the texts' vectors with
// those of f32. Peers: bench/peers/embeddinggemma2_*.py print the same for the same texts.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "npuseg.h"
#include "peak.h"

namespace {

using npuseg::bench::now_ms;

struct Args {
  std::string model;
  int reps = 3;
  int threads = 0;
  size_t texts = 1000;
  bool pictures = true;
  uint32_t precision = NPUSEG_PRECISION_AUTO;
};

constexpr uint32_t kWidth = 960;
constexpr uint32_t kHeight = 672;
constexpr const char* kPrecisions[] = {"auto", "f32", "bf16", "int8"};

bool parse_precision(const char* word, uint32_t* precision) {
  for (uint32_t i = 0; i < 4; ++i) {
    if (std::strcmp(word, kPrecisions[i]) != 0) continue;
    *precision = i;
    return true;
  }
  return false;
}

bool parse(int argc, char** argv, Args* args) {
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--no-pictures") {
      args->pictures = false;
    } else if (word == "--precision" && i + 1 < argc) {
      if (!parse_precision(argv[++i], &args->precision)) return false;
    } else if (word == "--reps" && i + 1 < argc) {
      args->reps = std::atoi(argv[++i]);
    } else if (word == "--threads" && i + 1 < argc) {
      args->threads = std::atoi(argv[++i]);
    } else if (word == "--texts" && i + 1 < argc) {
      args->texts = static_cast<size_t>(std::atoi(argv[++i]));
    } else if (args->model.empty() && word[0] != '-') {
      args->model = word;
    } else {
      return false;
    }
  }
  return !args->model.empty() && args->reps > 0 && args->texts > 0;
}

[[noreturn]] void fail(const char* what) {
  std::fprintf(stderr, "embed_bench: %s: %s\n", what, npuseg_last_error());
  std::exit(1);
}

// Minimum and median of `reps` runs.
template <class Fn>
std::string time_of(const char* name, int reps, Fn&& run) {
  std::vector<double> ms;
  for (int i = 0; i < reps; ++i) {
    const double begin = now_ms();
    run(i);
    ms.push_back(now_ms() - begin);
  }
  std::sort(ms.begin(), ms.end());
  char text[128];
  std::snprintf(text, sizeof text, ",\"%s\":{\"min_ms\":%.2f,\"median_ms\":%.2f}", name, ms.front(),
                ms[ms.size() / 2]);
  return text;
}

size_t tokens_of(const npuseg_embeddinggemma2* model, const std::string& text) {
  npuseg_embed_part part{nullptr, text.c_str(), text.size()};
  npuseg_embed_input input{&part, 1, 0, nullptr};
  size_t tokens = 0;
  if (npuseg_embed_tokens(model, &input, nullptr, &tokens, nullptr) != NPUSEG_OK) fail("tokens");
  return tokens;
}

// A text of exactly `tokens` tokens, another for every seed.
std::string text_of(const npuseg_embeddinggemma2* model, size_t tokens, size_t seed) {
  std::string text = std::to_string(seed % 10);
  for (size_t i = 1; tokens_of(model, text) < tokens; ++i) {
    text += static_cast<char>('0' + (seed / (1 + i % 3) + i * 7) % 10);
    text += static_cast<char>('!' + (seed + i * 5) % 14);
  }
  while (tokens_of(model, text) > tokens) text.pop_back();
  return text;
}

using Model = std::unique_ptr<npuseg_embeddinggemma2, decltype(&npuseg_release)>;

Model load(const Args& args, uint32_t precision) {
  npuseg_model_options options{};
  options.struct_size = sizeof options;
  options.threads = static_cast<uint32_t>(args.threads);
  options.precision = precision;
  npuseg_embeddinggemma2* model = nullptr;
  if (npuseg_embeddinggemma2_load(args.model.c_str(), &options, &model) != NPUSEG_OK) fail("load");
  return {model, npuseg_release};
}

std::vector<uint8_t> noise() {
  std::vector<uint8_t> rgb(size_t{3} * kWidth * kHeight);
  for (size_t i = 0; i < rgb.size(); ++i) rgb[i] = static_cast<uint8_t>((i * 2654435761u) >> 16);
  return rgb;
}

void embed_picture(const npuseg_embeddinggemma2* model, const std::vector<uint8_t>& rgb,
                   float* vector, size_t dims) {
  if (npuseg_embed_rgb(model, rgb.data(), kWidth, kHeight, 0, nullptr, vector, dims) != NPUSEG_OK) {
    fail("picture");
  }
}

void embed_text(const npuseg_embeddinggemma2* model, const std::string& text, float* vector,
                size_t dims) {
  if (npuseg_embed_text(model, text.data(), text.size(), nullptr, vector, dims) != NPUSEG_OK) {
    fail("text");
  }
}

double cosine(const float* a, const float* b, size_t dims) {
  double sum = 0;
  for (size_t i = 0; i < dims; ++i) sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  return sum;
}

// Least cosines with the vectors of f32. picture: null for none.
std::string closeness(const Args& args, const std::vector<std::string>& texts, const float* vectors,
                      const float* picture, size_t dims) {
  const Model model = load(args, NPUSEG_PRECISION_F32);
  std::vector<float> want(dims);
  double of_texts = 1;
  for (size_t i = 0; i < texts.size(); ++i) {
    embed_text(model.get(), texts[i], want.data(), dims);
    of_texts = std::min(of_texts, cosine(want.data(), vectors + i * dims, dims));
  }
  char text[128];
  std::snprintf(text, sizeof text, ",\"cosine_texts\":%.7f", of_texts);
  std::string out = text;
  if (picture != nullptr) {
    embed_picture(model.get(), noise(), want.data(), dims);
    std::snprintf(text, sizeof text, ",\"cosine_picture\":%.7f",
                  cosine(want.data(), picture, dims));
    out += text;
  }
  return out;
}

int run(const Args& args) {
  npuseg::core::Call call(npuseg::core::Call::Options{args.threads, nullptr, nullptr, 0});
  const double peak = npuseg::bench::gemm_peak(call);
  const double begin = now_ms();
  Model opened = load(args, args.precision);
  const double load_ms = now_ms() - begin;
  const double loaded_mib = npuseg::bench::rss_mib();
  npuseg_embeddinggemma2* model = opened.get();
  npuseg_model_info info{};
  info.struct_size = sizeof info;
  if (npuseg_embeddinggemma2_info(model, &info) != NPUSEG_OK) fail("info");
  const size_t dims = info.embedding_dim;
  std::vector<float> vectors(args.texts * dims);
  std::vector<float> picture(dims);

  std::string out;
  if (args.pictures) {
    const std::vector<uint8_t> rgb = noise();
    out += time_of("picture", args.reps,
                   [&](int) { embed_picture(model, rgb, picture.data(), dims); });
  }
  std::vector<std::string> texts;
  for (size_t i = 0; i < args.texts; ++i) texts.push_back(text_of(model, 18, i));
  const auto embed_one = [&](size_t i) {
    embed_text(model, texts[i], vectors.data() + i * dims, dims);
  };
  const size_t single = std::min<size_t>(args.texts, 20);
  out += time_of("text18", static_cast<int>(single),
                 [&](int i) { embed_one(static_cast<size_t>(i)); });
  out += time_of("texts_one_by_one", 1, [&](int) {
    for (size_t i = 0; i < args.texts; ++i) embed_one(i);
  });
  const std::vector<float> alone = vectors;
  std::vector<npuseg_embed_part> parts(args.texts);
  std::vector<npuseg_embed_input> inputs(args.texts);
  for (size_t i = 0; i < args.texts; ++i) {
    parts[i] = {nullptr, texts[i].data(), texts[i].size()};
    inputs[i] = {&parts[i], 1, 0, nullptr};
  }
  out += time_of("texts_as_one_batch", args.reps, [&](int) {
    if (npuseg_embed_batch(model, inputs.data(), sizeof inputs[0], inputs.size(), nullptr,
                           vectors.data(), 0, vectors.size()) != NPUSEG_OK) {
      fail("batch");
    }
  });
  const bool same = std::memcmp(alone.data(), vectors.data(), alone.size() * sizeof(float)) == 0;
  const double peak_mib = npuseg::bench::peak_rss_mib();
  opened.reset();
  std::string close;
  if (args.precision != NPUSEG_PRECISION_AUTO) {
    close = closeness(args, texts, vectors.data(), args.pictures ? picture.data() : nullptr, dims);
  }
  std::printf(
      "{\"precision\":\"%s\",\"threads\":%d,\"peak_gflops\":%.1f,\"load_ms\":%.1f%s,\"texts\":%zu,"
      "\"batch_equals_alone\":%s%s,\"weights_mib\":%.1f,\"loaded_rss_mib\":%.1f,"
      "\"peak_rss_mib\":%.1f}\n",
      kPrecisions[args.precision], call.threads(), peak, load_ms, out.c_str(), args.texts,
      same ? "true" : "false", close.c_str(), static_cast<double>(info.weight_bytes) / 1048576.0,
      loaded_mib, peak_mib);
  return same ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  Args args;
  if (!parse(argc, argv, &args)) {
    std::fprintf(stderr,
                 "usage: embed_bench MODEL [--precision auto|f32|bf16|int8] [--reps N] "
                 "[--threads N] [--texts N] [--no-pictures]\n");
    return 1;
  }
  return run(args);
}

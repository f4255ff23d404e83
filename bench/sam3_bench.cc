// SPDX-License-Identifier: Apache-2.0
// Time and FLOP/s of every SAM 3 stage, beside the GEMM peak measured in the same run.
//
//   sam3_bench MODEL [--reps N] [--threads N] [--tokens N] [--faithful] [--json]
//
// MODEL is a checkpoint, or a bundle, which runs on the software NPU.
// Pixels are a fixed pattern, the prompt is N token ids: speed does not depend on either. Stages
// are the library's own functions, so skips that a result would allow (no mask decoder when nothing
// passes the threshold) are switched off here: every stage runs in full.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "bundle/bundle.h"
#include "compute/elementwise.h"
#include "compute/gemm.h"
#include "model/sam3/npu_model.h"
#include "model/sam3/sam3.h"
#include "npu/soft/soft_device.h"
#include "peak.h"

namespace {

using npuseg::core::Call;
using npuseg::sam3::Stage;
using npuseg::sam3::StageTimes;

using npuseg::bench::gemm_peak;
using npuseg::bench::now_ms;
using npuseg::bench::peak_rss_mib;

// Multiply-adds of every stage times two (spec sam3-model.md, section 20).
struct Flops {
  double by_stage[npuseg::sam3::kStageCount] = {};

  explicit Flops(const npuseg::checkpoint::Sam3Config& config, size_t tokens) {
    const auto d = static_cast<double>(config.hidden_size);
    const auto& vit = config.vit;
    const auto v = static_cast<double>(vit.hidden_size);
    const auto grid = static_cast<double>(vit.grid());
    const double t = grid * grid;
    const auto w = static_cast<double>(vit.window_size);
    const double windows = std::max(1.0, t / (w * w));
    const double linear =
        2.0 * t * v * (4.0 * v + 2.0 * static_cast<double>(vit.intermediate_size));
    const auto globals = static_cast<double>(vit.global_layers.size());
    const auto layers = static_cast<double>(vit.layers);
    at(Stage::kVit) =
        2.0 * t * v * static_cast<double>(vit.channels * vit.patch_size * vit.patch_size) +
        layers * linear + globals * 4.0 * t * t * v +
        (layers - globals) * windows * 4.0 * w * w * w * w * v;
    double neck = 0.0;
    double masks = 0.0;
    for (size_t i = 0; i < config.kept_levels(); ++i) {
      const double pixels = static_cast<double>(config.level_side(i) * config.level_side(i));
      double width = v;
      if (config.scale_factors[i] == 4.0) {
        neck += 2.0 * t * v * 2.0 * v + 2.0 * 4.0 * t * (v / 2.0) * v;
        width = v / 4.0;
      } else if (config.scale_factors[i] == 2.0) {
        neck += 2.0 * t * v * 2.0 * v;
        width = v / 2.0;
      }
      neck += 2.0 * pixels * width * d + 2.0 * pixels * 9.0 * d * d;
      if (i + 1 < config.kept_levels()) masks += 2.0 * pixels * 9.0 * d * d;
    }
    const auto side = static_cast<double>(config.map_side());
    const double m = side * side;
    const auto n = static_cast<double>(tokens);
    const double self = 2.0 * m * 4.0 * d * d + 4.0 * m * m * d;
    at(Stage::kNeck) = neck + self;  // with the DETR encoder's first self-attention
    const auto& text = config.text;
    const auto x = static_cast<double>(text.hidden_size);
    at(Stage::kText) = static_cast<double>(text.layers) * 2.0 * n * x *
                       (4.0 * x + 2.0 * static_cast<double>(text.intermediate_size));
    const auto& encoder = config.detr_encoder;
    const auto depth = static_cast<double>(encoder.layers);
    at(Stage::kDetrEncoder) =
        (depth - 1.0) * self +
        depth * (2.0 * m * 2.0 * d * d + 4.0 * m * n * d +
                 4.0 * m * d * static_cast<double>(encoder.intermediate_size));
    const auto& decoder = config.detr_decoder;
    const auto q = static_cast<double>(config.queries + 1);
    const auto heads = static_cast<double>(decoder.heads);
    at(Stage::kDetrDecoder) =
        static_cast<double>(decoder.layers) *
        (2.0 * m * 2.0 * d * d + 4.0 * q * m * d + 2.0 * q * 8.0 * d * d +
         4.0 * q * d * static_cast<double>(decoder.intermediate_size) +
         2.0 * 2.0 * q * side * (2.0 * d + d * heads) + 2.0 * q * 5.0 * d * d);
    const double finest = static_cast<double>(config.mask_side() * config.mask_side());
    at(Stage::kMaskDecoder) =
        masks + 2.0 * m * 2.0 * d * d + 4.0 * m * n * d + 2.0 * (q - 1.0) * finest * d;
  }
  double& at(Stage stage) { return by_stage[static_cast<size_t>(stage)]; }
};

struct Args {
  std::string model;
  int reps = 1;
  int threads = 0;
  size_t tokens = 4;
  bool json = false;
  bool faithful = false;
};

bool parse(int argc, char** argv, Args* args) {
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--json") {
      args->json = true;
    } else if (word == "--faithful") {
      args->faithful = true;
    } else if (word == "--reps" && i + 1 < argc) {
      args->reps = std::atoi(argv[++i]);
    } else if (word == "--threads" && i + 1 < argc) {
      args->threads = std::atoi(argv[++i]);
    } else if (word == "--tokens" && i + 1 < argc) {
      args->tokens = static_cast<size_t>(std::atoi(argv[++i]));
    } else if (args->model.empty() && word[0] != '-') {
      args->model = word;
    } else {
      return false;
    }
  }
  return !args->model.empty() && args->reps > 0 && args->tokens > 1;
}

constexpr const char* kNames[npuseg::sam3::kStageCount] = {
    "",         "load",         "preprocess",   "vit",          "neck",       "text",
    "geometry", "detr_encoder", "detr_decoder", "mask_decoder", "postprocess"};

using Graph = std::shared_ptr<const npuseg::sam3::Graph>;

npuseg::core::Result<Graph> load(const Args& args, Call& call) {
  const auto budget = std::make_shared<npuseg::core::MemoryBudget>(SIZE_MAX);
  if (!npuseg::bundle::Bundle::is_bundle(args.model)) {
    npuseg::sam3::Model::Options options;
    options.budget = budget;
    NPUSEG_ASSIGN_OR_RETURN(Graph graph, npuseg::sam3::Model::load(args.model, options, call));
    return graph;
  }
  using npuseg::npu::soft::Mode;
  NPUSEG_ASSIGN_OR_RETURN(auto bundle, npuseg::bundle::Bundle::open(args.model));
  const auto mode = args.faithful ? Mode::kFaithful : Mode::kFast;
  npuseg::sam3::NpuModel::Options options;
  options.budget = budget;
  NPUSEG_ASSIGN_OR_RETURN(Graph graph,
                          npuseg::sam3::NpuModel::load(
                              std::make_shared<const npuseg::bundle::Bundle>(std::move(bundle)),
                              npuseg::npu::soft::make_device({mode, budget, {}}), options));
  return graph;
}

int run(const Args& args) {
  Call call(Call::Options{args.threads, nullptr, nullptr, 0});
  const double peak = gemm_peak(call);
  const double load_begin = now_ms();
  auto loaded = load(args, call);
  if (!loaded.ok()) {
    std::fprintf(stderr, "sam3_bench: %s\n", loaded.status().message().c_str());
    return 1;
  }
  const double load_ms = now_ms() - load_begin;
  const auto& model = *loaded.value();
  const auto& config = model.config();
  const size_t side = config.vit.image_size;
  std::vector<float> pixels(config.vit.channels * side * side);
  for (size_t i = 0; i < pixels.size(); ++i) {
    pixels[i] = static_cast<float>((i * 2654435761u) >> 8 & 0xFFFF) / 32768.0f - 1.0f;
  }
  std::vector<int64_t> ids(std::min(args.tokens, config.text.positions));
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int64_t>(i + 1);

  Flops flops(config, ids.size());
  std::vector<StageTimes> times(static_cast<size_t>(args.reps));
  for (StageTimes& at : times) {
    auto image = model.encode_image(call, pixels.data(), &at);
    auto text = model.encode_text(call, ids, &at);
    if (!image.ok() || !text.ok()) {
      std::fprintf(stderr, "sam3_bench: %s%s\n", image.status().message().c_str(),
                   text.status().message().c_str());
      return 1;
    }
    npuseg::sam3::DetectOptions detect;
    detect.all_masks = true;
    auto found = model.detect(call, *image.value(), *text.value(), {}, detect, &at);
    if (!found.ok()) {
      std::fprintf(stderr, "sam3_bench: %s\n", found.status().message().c_str());
      return 1;
    }
  }
  if (args.json) {
    std::printf(
        "{\"threads\":%d,\"backend\":\"%s\",\"simd\":\"%s\",\"peak_gflops\":%.2f,"
        "\"load_ms\":%.1f,\"stages\":{",
        call.threads(), npuseg::compute::gemm_backend(), npuseg::compute::simd_target(), peak,
        load_ms);
  } else {
    std::printf("%d threads, %s, SIMD %s, GEMM peak %.1f GFLOP/s, load %.0f ms\n", call.threads(),
                npuseg::compute::gemm_backend(), npuseg::compute::simd_target(), peak, load_ms);
    std::printf("%-14s %10s %10s %10s %10s %9s %6s\n", "stage", "min ms", "median ms", "max ms",
                "GFLOP", "GFLOP/s", "peak");
  }
  double image_ms = 0.0;
  double prompt_ms = 0.0;
  bool first = true;
  for (size_t s = 3; s < npuseg::sam3::kStageCount; ++s) {
    std::vector<double> ms;
    for (const StageTimes& at : times) ms.push_back(static_cast<double>(at.nanoseconds[s]) / 1e6);
    std::sort(ms.begin(), ms.end());
    const double median = ms[ms.size() / 2];
    if (median == 0.0) continue;
    const bool of_image = s == 3 || s == 4;
    (of_image ? image_ms : prompt_ms) += median;
    const double rate = flops.by_stage[s] / median / 1e6;
    if (args.json) {
      std::printf("%s\"%s\":{\"min_ms\":%.2f,\"median_ms\":%.2f,\"max_ms\":%.2f,\"gflop\":%.2f}",
                  first ? "" : ",", kNames[s], ms.front(), median, ms.back(),
                  flops.by_stage[s] / 1e9);
    } else {
      std::printf("%-14s %10.1f %10.1f %10.1f %10.1f %9.1f %5.0f%%\n", kNames[s], ms.front(),
                  median, ms.back(), flops.by_stage[s] / 1e9, rate, 100.0 * rate / peak);
    }
    first = false;
  }
  const double weights = static_cast<double>(model.weight_bytes()) / 1048576.0;
  const double rss = peak_rss_mib();
  if (args.json) {
    std::printf(
        "},\"image_ms\":%.1f,\"prompt_ms\":%.1f,\"peak_rss_mib\":%.1f,"
        "\"weights_mib\":%.1f}\n",
        image_ms, prompt_ms, rss, weights);
  } else {
    std::printf("image %.0f ms, prompt %.0f ms, peak RSS %.0f MiB = %.2f x weights (%.0f MiB)\n",
                image_ms, prompt_ms, rss, rss / weights, weights);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Args args;
  if (!parse(argc, argv, &args)) {
    std::fprintf(stderr,
                 "usage: sam3_bench MODEL [--reps N] [--threads N] [--tokens N] [--faithful] "
                 "[--json]\n");
    return 1;
  }
  return run(args);
}

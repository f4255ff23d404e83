// SPDX-License-Identifier: Apache-2.0
#include "model/sam3/detection.h"

#include <algorithm>
#include <numeric>

#include "compute/elementwise.h"

namespace npuseg::sam3 {

namespace {

void score_queries(const DetectOptions& options, float presence, Detection* out) {
  out->scores.resize(out->logits.size());
  compute::sigmoid(out->logits.data(), out->scores.data(), out->logits.size());
  for (float& score : out->scores) score *= presence;
  for (uint32_t q = 0; q < out->scores.size(); ++q) {
    if (out->scores[q] > options.threshold) out->kept.push_back(q);
  }
  std::stable_sort(out->kept.begin(), out->kept.end(),
                   [&](uint32_t a, uint32_t b) { return out->scores[a] > out->scores[b]; });
  if (options.max_instances != 0 && out->kept.size() > options.max_instances) {
    out->kept.resize(options.max_instances);
  }
}

void corners_of(const std::vector<float>& references, std::vector<float>* boxes) {
  boxes->resize(references.size());
  for (size_t i = 0; i < references.size(); i += 4) {
    const float* box = references.data() + i;
    (*boxes)[i] = box[0] - 0.5f * box[2];
    (*boxes)[i + 1] = box[1] - 0.5f * box[3];
    (*boxes)[i + 2] = box[0] + 0.5f * box[2];
    (*boxes)[i + 3] = box[1] + 0.5f * box[3];
  }
}

}  // namespace

size_t ImageFeatures::bytes() const {
  size_t sum = encoder_input.bytes();
  for (const core::Matrix& level : levels) sum += level.bytes();
  return sum;
}

size_t TextFeatures::bytes() const {
  size_t sum = tokens.bytes();
  for (const auto& weights : folded) sum += weights.size();
  return sum;
}

size_t Detection::bytes() const {
  return masks.bytes() + semantic.bytes() +
         (logits.size() + scores.size() + boxes.size()) * sizeof(float) +
         (kept.size() + masked.size()) * sizeof(uint32_t);
}

void choose_queries(const DecoderOutput& decoded, const DetectOptions& options, Detection* out) {
  out->presence_logit = decoded.presence_logit;
  corners_of(decoded.references, &out->boxes);
  float presence = 0.0f;
  compute::sigmoid(&decoded.presence_logit, &presence, 1);
  score_queries(options, presence, out);
  out->masked = out->kept;
  if (options.all_masks) {
    out->masked.resize(out->logits.size());
    std::iota(out->masked.begin(), out->masked.end(), 0u);
  }
}

}  // namespace npuseg::sam3

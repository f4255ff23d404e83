// SPDX-License-Identifier: Apache-2.0
// What the tests of EmbeddingGemma 2 share: its golden files, a model from a rule.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "fixture.h"
#include "gemma_weights.h"
#include "model/embeddinggemma2/embeddinggemma2.h"
// Behind all others.
#include "cmocka_cpp.h"

namespace npuseg::test {

class Golden : public GoldenFile {
 public:
  explicit Golden(const std::string& name) : GoldenFile("embeddinggemma2", name) {}
};

using GemmaPtr = std::shared_ptr<const embeddinggemma2::Model>;

inline GemmaPtr make_gemma(std::string_view config, core::DType dtype, const GemmaRule& rule) {
  const Folder folder;
  assert_true(write_gemma_checkpoint(folder.path, config, dtype, rule));
  core::Call call;
  return must(embeddinggemma2::Model::load(folder.path, {}, call));
}

}  // namespace npuseg::test

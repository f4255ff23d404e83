// SPDX-License-Identifier: Apache-2.0
// The two files in which bundles keep a CLIP tokenizer, made of whichever files a checkpoint has.
#pragma once

#include <string>

#include "core/status.h"

namespace npuseg::text {

struct ClipVocabularyFiles {
  std::string vocab;   // vocab.json: token -> id
  std::string merges;  // merges.txt: two symbols a line, in order of rank
};

// Of a folder that ClipTokenizer::load opens. Added tokens become part of the vocabulary.
core::Result<ClipVocabularyFiles> clip_vocabulary_files(const std::string& directory);

}  // namespace npuseg::text

// SPDX-License-Identifier: Apache-2.0
// From the decoder's outputs to the queries that are an answer (spec section 14).
#pragma once

#include "model/sam3/detr_decoder.h"
#include "model/sam3/sam3.h"

namespace npuseg::sam3 {

// Fills presence_logit, boxes, scores, kept and masked of `out`, whose logits are there.
void choose_queries(const DecoderOutput& decoded, const DetectOptions& options, Detection* out);

}  // namespace npuseg::sam3

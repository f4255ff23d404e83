// SPDX-License-Identifier: Apache-2.0
#include "model/embeddinggemma2/weight_forms.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "compute/elementwise.h"
#include "compute/weight_forms.h"
#include "core/file.h"

namespace npuseg::embeddinggemma2 {

using core::Buffer;
using core::Code;
using core::DType;
using core::Status;
using core::TensorView;

namespace {

// Elements a worker reads before it looks whether the call was stopped (a millisecond at most).
constexpr size_t kScanChunk = size_t{1} << 21;
constexpr size_t kCopyChunk = size_t{1} << 18;
constexpr size_t kAlign = 64;

constexpr size_t aligned(size_t bytes) { return (bytes + kAlign - 1) / kAlign * kAlign; }

// What the form makes of a linear layer's tensor; data and scales are null.
TensorView shape_of_copy(const TensorView& stored, WeightForm form) {
  TensorView copy;
  copy.shape = stored.shape;
  copy.dtype = form == WeightForm::kBf16 ? DType::kBF16 : DType::kI8;
  return copy;
}

// Copies of all linear layers that are not stored in the form, one behind the other.
class Copies {
 public:
  Copies(const Weights& weights, WeightForm form) : of_(weights.used.size()) {
    if (form == WeightForm::kAsStored) return;
    for (const Weights::Linear& linear : weights.linears) {
      const TensorView& stored = weights.used[linear.index].second;
      const TensorView copy = shape_of_copy(stored, form);
      if (copy.dtype == stored.dtype) continue;
      Copy& at = of_[linear.index];
      at.wanted = true;
      at.view = copy;
      at.values = bytes_;
      bytes_ += aligned(copy.shape.elements() * core::dtype_bytes(copy.dtype));
      at.scales = bytes_;
      if (copy.dtype == DType::kI8) {
        bytes_ += aligned(copy.shape[0] * copy.scales_of_row() * sizeof(float));
      }
    }
  }

  Status allocate(const core::MemoryBudgetPtr& budget, WeightForm form) {
    if (bytes_ == 0) return {};
    const std::string what = std::string("weights in ") + form_name(form);
    NPUSEG_ASSIGN_OR_RETURN(buffer_, Buffer::make(budget, bytes_, what.c_str()));
    for (Copy& copy : of_) {
      if (!copy.wanted) continue;
      copy.view.data = buffer_.data() + copy.values;
      if (copy.view.dtype == DType::kI8) {
        copy.view.scales = reinterpret_cast<const float*>(buffer_.data() + copy.scales);
      }
    }
    return {};
  }

  [[nodiscard]] bool wanted(size_t index) const { return of_[index].wanted; }
  [[nodiscard]] const TensorView& view(size_t index) const { return of_[index].view; }
  Buffer take() { return std::move(buffer_); }

  // Rows [first, first + count) of a tensor.
  void make_rows(size_t index, const TensorView& stored, size_t first, size_t count,
                 std::vector<float>* scratch) {
    const Copy& copy = of_[index];
    const size_t length = stored.row_elements();
    const size_t row_scales = copy.view.scales_of_row();
    const bool in_place = stored.dtype == DType::kF32 &&
                          reinterpret_cast<uintptr_t>(stored.data) % alignof(float) == 0;
    scratch->resize(in_place ? 0 : length);
    for (size_t row = first; row < first + count; ++row) {
      const float* values = scratch->data();
      if (in_place) {
        values = static_cast<const float*>(stored.data) + row * length;
      } else {
        compute::widen(stored, row * length, length, scratch->data());
      }
      unsigned char* to = buffer_.data() + copy.values;
      if (copy.view.dtype == DType::kBF16) {
        compute::narrow_bf16(values, reinterpret_cast<uint16_t*>(to) + row * length, length);
      } else {
        compute::narrow_i8(
            values, reinterpret_cast<int8_t*>(to) + row * length,
            reinterpret_cast<float*>(buffer_.data() + copy.scales) + row * row_scales, length);
      }
    }
  }

 private:
  struct Copy {
    bool wanted = false;
    size_t values = 0;  // offsets into the buffer
    size_t scales = 0;
    TensorView view;
  };
  std::vector<Copy> of_;  // by index of Weights::used
  size_t bytes_ = 0;
  Buffer buffer_;
};

// Some elements of a tensor; whole rows of one that is copied.
struct Chunk {
  size_t tensor;
  size_t first;
  size_t count;
};

std::vector<Chunk> cut(const Weights& weights, const Copies& copies, bool check) {
  std::vector<Chunk> chunks;
  for (size_t t = 0; t < weights.used.size(); ++t) {
    if (!check && !copies.wanted(t)) continue;
    const TensorView& stored = weights.used[t].second;
    const size_t elements = stored.shape.elements();
    size_t step = kScanChunk;
    if (copies.wanted(t)) {
      const size_t length = std::max<size_t>(1, stored.row_elements());
      step = std::max<size_t>(1, kCopyChunk / length) * length;
    }
    for (size_t first = 0; first < elements; first += step) {
      chunks.push_back({t, first, std::min(step, elements - first)});
    }
  }
  return chunks;
}

void give_back(const TensorView& stored, size_t first, size_t count) {
  const size_t size = core::dtype_bytes(stored.dtype);
  core::give_back_pages(static_cast<const unsigned char*>(stored.data) + first * size,
                        count * size);
}

}  // namespace

const char* form_name(WeightForm form) {
  switch (form) {
    case WeightForm::kAsStored:
      return nullptr;
    case WeightForm::kBf16:
      return core::dtype_name(DType::kBF16);
    case WeightForm::kInt8:
      return core::dtype_name(DType::kI8);
  }
  return nullptr;
}

Status prepare_weights(const std::string& directory, WeightForm form, bool check,
                       const core::MemoryBudgetPtr& budget, core::Call& call, Weights* weights,
                       Buffer* copies_out) {
  Copies copies(*weights, form);
  NPUSEG_RETURN_IF_ERROR(copies.allocate(budget, form));
  // Of a smaller form only what every input reads stays resident.
  std::vector<bool> leaves(weights->used.size(), form != WeightForm::kAsStored);
  for (const Weights::Linear& linear : weights->linears) {
    if (!copies.wanted(linear.index)) leaves[linear.index] = false;
  }
  const std::vector<Chunk> chunks = cut(*weights, copies, check);
  std::vector<size_t> bad(chunks.size(), SIZE_MAX);
  std::vector<std::vector<float>> scratch(static_cast<size_t>(call.threads()));
  call.begin_stage(static_cast<uint32_t>(Stage::kLoad), chunks.size());
  NPUSEG_RETURN_IF_ERROR(core::parallel_for(call, chunks.size(), [&](size_t i, int slot) {
    const Chunk& chunk = chunks[i];
    const TensorView& stored = weights->used[chunk.tensor].second;
    if (check) {
      const size_t found = compute::find_non_finite(stored, chunk.first, chunk.count);
      if (found < chunk.first + chunk.count) bad[i] = found;
    }
    if (copies.wanted(chunk.tensor)) {
      const size_t length = stored.row_elements();
      copies.make_rows(chunk.tensor, stored, chunk.first / length, chunk.count / length,
                       &scratch[static_cast<size_t>(slot)]);
    }
    if (leaves[chunk.tensor]) give_back(stored, chunk.first, chunk.count);
    call.advance();
  }));
  for (size_t i = 0; i < chunks.size(); ++i) {
    if (bad[i] == SIZE_MAX) continue;
    const auto& [name, view] = weights->used[chunks[i].tensor];
    return Status(
        Code::kCorruptData,
        core::format("cannot use model: %s: tensor %s (%s) holds NaN or infinity at "
                     "element %zu; the file is damaged or badly converted, get it again",
                     directory.c_str(), name.c_str(), core::dtype_name(view.dtype), bad[i]));
  }
  // Once more as a whole: reading a chunk brings its neighbours' pages back.
  for (size_t t = 0; t < weights->used.size(); ++t) {
    const TensorView& stored = weights->used[t].second;
    if (leaves[t]) give_back(stored, 0, stored.shape.elements());
  }
  for (const Weights::Linear& linear : weights->linears) {
    if (!copies.wanted(linear.index)) continue;
    *linear.view = copies.view(linear.index);
    weights->used[linear.index].second = *linear.view;
  }
  *copies_out = copies.take();
  return {};
}

}  // namespace npuseg::embeddinggemma2

// SPDX-License-Identifier: Apache-2.0
#include "model/embeddinggemma2/npu_kernels.h"

#include <algorithm>
#include <set>

#include "compute/row_bands.h"
#include "compute/simd_kernels.h"
#include "compute/weight_forms.h"

namespace npuseg::embeddinggemma2 {

using bundle::Gemma2Gemm;
using bundle::Gemma2Mha;
using bundle::Gemma2Params;
using compute::Exec;
using compute::over_rows;
using core::Call;
using core::Code;
using core::ConstMatrixView;
using core::format;
using core::MatrixView;
using core::Result;
using core::Status;

namespace {

constexpr size_t kValue = sizeof(uint16_t);

npu::Gemm operation_of(const std::string& key, const Gemma2Gemm& record, size_t chunks) {
  npu::Gemm gemm;
  gemm.rows = chunks * record.m;
  gemm.k = record.k;
  gemm.n = record.n;
  gemm.lda = record.lda;
  gemm.c_stride = record.c_stride;
  gemm.tile_k = record.tile_k;
  gemm.tile_n = record.tile_n;
  gemm.ct_k = record.ct_k;
  gemm.pair = key == "v_gu" || key == "t_gu";
  if (key == "t_pleg") gemm.activation = npu::GemmActivation::kGeluTanh;
  return gemm;
}

npu::Attention operation_of(const Gemma2Params& params, const Gemma2Mha& record) {
  const size_t width = params.v_dim;
  npu::Attention attention;
  attention.length = record.rows;
  attention.heads = params.v_heads;
  attention.head_dim = params.v_head_dim;
  attention.q = {0, 3 * width};
  attention.k = {width, 3 * width};
  attention.v = {2 * width, 3 * width};
  attention.o = {0, width};
  attention.base2 = true;
  attention.key_words = record.kv_words;
  attention.window_words = record.win_words;
  attention.no_window = params.no_window;
  return attention;
}

const unsigned char* value_at(const DeviceRows& rows, size_t row, size_t column) {
  return rows.buffer->map().data() + (row * rows.stride + column) * kValue;
}

Status check_rows(const DeviceRows& device, size_t rows, size_t columns) {
  if (rows <= device.rows && columns <= device.stride) return {};
  return {Code::kLimitExceeded,
          format("cannot run on the NPU: %zu rows of %zu values, the bundle's buffers have %zu of "
                 "%zu",
                 rows, columns, device.rows, device.stride)};
}

Status run_once(npu::Run* run, Call& call) {
  NPUSEG_RETURN_IF_ERROR(run->submit(call));
  return run->wait(call);
}

}  // namespace

Result<std::unique_ptr<NpuKernels>> NpuKernels::make(std::shared_ptr<const bundle::Bundle> bundle,
                                                     std::shared_ptr<npu::Device> device) {
  std::unique_ptr<NpuKernels> kernels(new NpuKernels(std::move(bundle), std::move(device)));
  NPUSEG_RETURN_IF_ERROR(kernels->make_buffers());
  for (const auto& weight : kernels->bundle_->gemma2().packed_weights()) {
    NPUSEG_RETURN_IF_ERROR(kernels->weight_buffer(weight.name).status());
  }
  return kernels;
}

Result<DeviceRows> NpuKernels::rows_of(size_t rows, size_t stride, size_t spare, const char* what) {
  constexpr size_t kMost = size_t{1} << 31;
  if (rows + spare > kMost / kValue / std::max<size_t>(1, stride)) {
    return Status(Code::kLimitExceeded,
                  format("cannot use bundle: %s of %zu rows of %zu values are too large; export "
                         "the bundle again",
                         what, rows, stride));
  }
  DeviceRows made;
  made.rows = rows;
  made.stride = stride;
  NPUSEG_ASSIGN_OR_RETURN(made.buffer,
                          device_->make_buffer((rows + spare) * stride * kValue, what));
  return made;
}

size_t NpuKernels::row_bytes(const bundle::Gemma2Manifest& manifest) {
  const Gemma2Params& p = manifest.params;
  const size_t v_gu = manifest.gemms.find("v_gu")->second.c_stride;
  const size_t t_gu = manifest.gemms.find("t_gu")->second.c_stride;
  const size_t vision = p.v_rows * (8 * p.v_dim + v_gu + p.v_inner) + p.max_soft_tokens * p.dim;
  size_t wide = 2 * p.dim + t_gu + p.o_width + std::max(p.inner, p.o_width) + p.layers * p.dim;
  std::set<size_t> widths;
  for (size_t i = 0; i < p.layers; ++i) widths.insert(p.qkv_width(i));
  for (const size_t width : widths) wide += width;
  return (vision + p.t_rows * wide) * kValue;
}

Status NpuKernels::make_buffers() {
  const auto& manifest = bundle_->gemma2();
  const Gemma2Params& p = manifest.params;
  const auto gemm = [&](const char* key) -> const Gemma2Gemm& {
    return manifest.gemms.find(key)->second;
  };
  const char* what = "vision rows of the NPU";
  const size_t v = p.v_dim;
  NPUSEG_ASSIGN_OR_RETURN(vision.a, rows_of(p.v_rows, v, 0, what));
  NPUSEG_ASSIGN_OR_RETURN(vision.c, rows_of(p.v_rows, v, 0, what));
  NPUSEG_ASSIGN_OR_RETURN(vision.gu, rows_of(p.v_rows, gemm("v_gu").c_stride, 1, what));
  NPUSEG_ASSIGN_OR_RETURN(vision.att, rows_of(p.v_rows, 3 * v, 0, what));
  NPUSEG_ASSIGN_OR_RETURN(vision_qkv, rows_of(p.v_rows, 3 * v, 0, what));
  for (size_t s = 0; s < p.v_inner / v; ++s) {
    NPUSEG_ASSIGN_OR_RETURN(DeviceRows part, rows_of(p.v_rows, v, 0, what));
    vision.parts.push_back(std::move(part));
  }
  const size_t m = gemm("v_ev").m;
  NPUSEG_ASSIGN_OR_RETURN(soft_tokens,
                          rows_of((p.max_soft_tokens + m - 1) / m * m, p.dim, 0, what));
  what = "text rows of the NPU";
  NPUSEG_ASSIGN_OR_RETURN(text.a, rows_of(p.t_rows, p.dim, 0, what));
  NPUSEG_ASSIGN_OR_RETURN(text.c, rows_of(p.t_rows, p.dim, 0, what));
  NPUSEG_ASSIGN_OR_RETURN(text.gu, rows_of(p.t_rows, gemm("t_gu").c_stride, 1, what));
  NPUSEG_ASSIGN_OR_RETURN(text.att, rows_of(p.t_rows, p.o_width, 1, what));
  for (size_t s = 0; s < std::max(p.inner, p.o_width) / p.dim; ++s) {
    NPUSEG_ASSIGN_OR_RETURN(DeviceRows part, rows_of(p.t_rows, p.dim, 0, what));
    text.parts.push_back(std::move(part));
  }
  for (size_t i = 0; i < p.layers; ++i) {
    const size_t width = p.qkv_width(i);
    if (text_qkv.count(width) != 0) continue;
    NPUSEG_ASSIGN_OR_RETURN(text_qkv[width], rows_of(p.t_rows, width, 0, what));
  }
  NPUSEG_ASSIGN_OR_RETURN(per_layer, rows_of(p.t_rows, p.layers * p.dim, 0, what));
  return {};
}

Result<std::shared_ptr<npu::Buffer>> NpuKernels::weight_buffer(const std::string& name) {
  const auto found = weights_.find(name);
  if (found != weights_.end()) return found->second;
  const bundle::StoredTensor* tensor = bundle_->tensors().find(name);
  if (tensor == nullptr) {
    return Status(Code::kCorruptData, "cannot use bundle: " + bundle_->directory() +
                                          ": there is no tensor " + name +
                                          "; export the bundle again");
  }
  NPUSEG_ASSIGN_OR_RETURN(auto buffer, device_->make_constant(tensor->bytes(), name.c_str()));
  weights_[name] = buffer;
  return buffer;
}

Result<std::shared_ptr<npu::Kernel>> NpuKernels::kernel(const std::string& key,
                                                        const npu::Operation& operation) {
  const auto found = kernels_.find(key);
  if (found != kernels_.end()) return found->second;
  const bundle::KernelFiles* files = bundle_->find_kernel(key);
  if (files == nullptr) {
    return Status(Code::kInternal, "cannot load kernel: the bundle lists none named " + key);
  }
  NPUSEG_ASSIGN_OR_RETURN(const auto context,
                          device_->context({bundle_->path(files->xclbin), files->kernel_name}));
  NPUSEG_ASSIGN_OR_RETURN(auto made,
                          context->make_kernel({key, bundle_->instructions(key), operation}));
  kernels_[key] = made;
  return made;
}

Status NpuKernels::gemm(Call& call, std::string_view key, const std::string& weight,
                        const DeviceRows& a, size_t column, const DeviceRows& c, size_t rows) {
  const auto& gemms = bundle_->gemma2().gemms;
  const auto record = gemms.find(key);
  if (record == gemms.end()) {
    return {Code::kInternal, "cannot run kernel: the bundle lists no GEMM " + std::string(key)};
  }
  const Gemma2Gemm& gemm = record->second;
  const size_t chunks = (rows + gemm.m - 1) / gemm.m;
  if (rows == 0 || chunks > gemm.chunks.size()) {
    return {Code::kLimitExceeded,
            format("cannot run kernel: %s: %zu rows, the bundle has instruction streams for %zu",
                   record->first.c_str(), rows, gemm.chunks.size() * gemm.m)};
  }
  std::unique_ptr<npu::Run>& run = runs_[{weight, chunks}];
  if (run == nullptr) {
    const Gemma2Gemm::Chunk& chunk = gemm.chunks[chunks - 1];
    NPUSEG_ASSIGN_OR_RETURN(const auto loaded,
                            kernel(chunk.key, operation_of(record->first, gemm, chunks)));
    NPUSEG_ASSIGN_OR_RETURN(const auto b, weight_buffer(weight));
    const npu::BufferRange arguments[] = {{a.buffer, column * kValue, chunk.a_elems * kValue},
                                          {b, 0, b->bytes()},
                                          {c.buffer, 0, chunk.c_elems * kValue}};
    NPUSEG_ASSIGN_OR_RETURN(run, loaded->make_run(arguments));
  }
  run->expect_rows(rows);
  return run_once(run.get(), call);
}

Status NpuKernels::linear(const Exec& exec, std::string_view key, const std::string& weight,
                          const DeviceRows& a, const DeviceRows& c, MatrixView out) {
  NPUSEG_RETURN_IF_ERROR(gemm(*exec.call, key, weight, a, 0, c, out.rows));
  NPUSEG_RETURN_IF_ERROR(get_ready(c, out.rows));
  return get(exec, c, 0, out);
}

Status NpuKernels::attend(Call& call, size_t rows) {
  const auto& manifest = bundle_->gemma2();
  const auto bucket = std::find_if(manifest.mhas.begin(), manifest.mhas.end(),
                                   [&](const Gemma2Mha& mha) { return mha.rows >= rows; });
  if (bucket == manifest.mhas.end()) {
    return {Code::kLimitExceeded,
            format("cannot run attention: %zu patches, the bundle's largest kernel takes %zu", rows,
                   manifest.mhas.back().rows)};
  }
  NPUSEG_ASSIGN_OR_RETURN(const auto loaded,
                          kernel(bucket->files.key, operation_of(manifest.params, *bucket)));
  std::vector<npu::WordPatch> words;
  words.reserve(bucket->kv_words.size() + bucket->win_words.size());
  for (const uint32_t word : bucket->kv_words) words.push_back({word, static_cast<uint32_t>(rows)});
  for (const uint32_t word : bucket->win_words) {
    words.push_back({word, manifest.params.no_window});
  }
  NPUSEG_RETURN_IF_ERROR(loaded->patch(words));
  std::unique_ptr<npu::Run>& run = runs_[{"attention", bucket->rows}];
  if (run == nullptr) {
    const npu::BufferRange arguments[] = {{vision.att.buffer, 0, bucket->q_elems * kValue},
                                          {vision.att.buffer, 0, bucket->k_elems * kValue},
                                          {vision.att.buffer, 0, bucket->v_elems * kValue},
                                          {vision.a.buffer, 0, bucket->o_elems * kValue}};
    NPUSEG_ASSIGN_OR_RETURN(run, loaded->make_run(arguments));
  }
  return run_once(run.get(), call);
}

Status NpuKernels::put(const Exec& exec, ConstMatrixView values, const DeviceRows& to) {
  NPUSEG_RETURN_IF_ERROR(check_rows(to, values.rows, values.cols));
  NPUSEG_RETURN_IF_ERROR(over_rows(exec, values.rows, values.cols, [&](size_t r) {
    auto* out = to.buffer->map().data() + r * to.stride * kValue;
    compute::narrow_bf16(values.row(r), reinterpret_cast<uint16_t*>(out), values.cols);
  }));
  return to.buffer->to_device(0, values.rows * to.stride * kValue);
}

Status NpuKernels::get_ready(const DeviceRows& from, size_t rows) {
  return from.buffer->from_device(0, rows * from.stride * kValue);
}

Status NpuKernels::get(const Exec& exec, const DeviceRows& from, size_t first, MatrixView out) {
  NPUSEG_RETURN_IF_ERROR(check_rows(from, out.rows, first + out.cols));
  return over_rows(exec, out.rows, out.cols, [&](size_t r) {
    compute::widen_bf16(value_at(from, r, first), out.row(r), out.cols);
  });
}

Status NpuKernels::get_sum(const Exec& exec, const Tower& tower, size_t count, MatrixView out) {
  for (size_t p = 0; p < count; ++p) {
    NPUSEG_RETURN_IF_ERROR(check_rows(tower.parts[p], out.rows, out.cols));
    NPUSEG_RETURN_IF_ERROR(get_ready(tower.parts[p], out.rows));
  }
  constexpr size_t kPiece = 512;
  return over_rows(exec, out.rows, out.cols * count, [&](size_t r) {
    float piece[kPiece];
    for (size_t first = 0; first < out.cols; first += kPiece) {
      const size_t columns = std::min(kPiece, out.cols - first);
      float* to = out.row(r) + first;
      compute::widen_bf16(value_at(tower.parts[0], r, first), to, columns);
      for (size_t p = 1; p < count; ++p) {
        compute::widen_bf16(value_at(tower.parts[p], r, first), piece, columns);
        compute::add_rows(to, piece, to, columns);
      }
    }
  });
}

}  // namespace npuseg::embeddinggemma2

// SPDX-License-Identifier: Apache-2.0
#include "model/sam3/npu_kernels.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace npuseg::sam3 {

using bundle::Sam3Gemm;
using bundle::Sam3Mha;
using bundle::Sam3Params;
using core::Call;
using core::Code;
using core::format;
using core::Result;
using core::Status;

namespace {

constexpr size_t kValue = sizeof(uint16_t);
constexpr const char* kQkvo[] = {"q", "k", "v", "o"};

npu::Gemm operation_of(const std::string& key, const Sam3Gemm& record) {
  npu::Gemm gemm;
  gemm.rows = record.m;
  gemm.k = record.b.k;
  gemm.n = record.b.n;
  gemm.lda = record.lda;
  gemm.c_stride = record.b.n;
  gemm.tile_k = record.b.tile_k;
  gemm.tile_n = record.b.tile_n;
  gemm.ct_k = record.b.ct_k;
  gemm.bias = record.b.bias;
  if (key == "v_fc1") gemm.activation = npu::GemmActivation::kGeluTanh;
  if (key == "d_fc1") gemm.activation = npu::GemmActivation::kRelu;
  return gemm;
}

// Where the rows of an attention kernel lie: in buffers of its own, in which the windowed one has
// every head of every window as a dense matrix; on the device, where the kernels before and behind
// it have them.
npu::Attention operation_of(const std::string& key, const Sam3Params& p, const Sam3Mha& record) {
  npu::Attention attention;
  attention.length = record.seq;
  attention.heads = record.heads;
  attention.head_dim = record.d;
  attention.scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(record.d)));
  if (p.vit_device && key != "mha_d") {
    const size_t v = p.vit_dim;
    attention.heads = p.vit_heads;
    attention.windows = record.heads / p.vit_heads;
    attention.q = {0, 2 * v};
    attention.k = {v, 2 * v};
    attention.v = {2 * v, 3 * v};
    attention.o = {0, v};
    return attention;
  }
  if (key == "mha_win") {
    attention.heads = 1;
    attention.windows = record.heads;
  }
  const size_t stride = attention.heads * record.d;
  attention.q = attention.k = attention.v = attention.o = {0, stride};
  return attention;
}

npu::Rope rope_of(const Sam3Params& p) {
  npu::Rope rope;
  rope.rows = p.tokens();
  rope.heads = 2 * p.vit_heads;
  rope.head_dim = p.vit_dim / p.vit_heads;
  rope.in_stride = 3 * p.vit_dim;
  rope.out_stride = 2 * p.vit_dim;
  return rope;
}

npu::BufferRange whole(const DeviceRows& rows) { return {rows.buffer, 0, rows.buffer->bytes()}; }

}  // namespace

Result<std::unique_ptr<NpuKernels>> NpuKernels::make(std::shared_ptr<const bundle::Bundle> bundle,
                                                     std::shared_ptr<npu::Device> device) {
  std::unique_ptr<NpuKernels> kernels(new NpuKernels(std::move(bundle), std::move(device)));
  NPUSEG_RETURN_IF_ERROR(kernels->load_kernels());
  return kernels;
}

Status NpuKernels::load_kernels() {
  const bundle::Sam3Manifest& m = bundle_->sam3();
  for (const auto& [key, gemm] : m.gemms) {
    NPUSEG_RETURN_IF_ERROR(load_kernel(key, operation_of(key, gemm)));
  }
  for (const auto& [key, mha] : m.mhas) {
    NPUSEG_RETURN_IF_ERROR(load_kernel(key, operation_of(key, m.params, mha)));
  }
  if (!m.params.vit_device) return {};
  NPUSEG_RETURN_IF_ERROR(load_kernel("rope", rope_of(m.params)));
  npu::AddNorm norm;
  norm.rows = m.params.tokens();
  norm.columns = m.params.vit_dim;
  norm.eps = m.params.vit_eps;
  norm.residual_f32 = m.params.vit_res_f32;
  return load_kernel("addln", norm);
}

Status NpuKernels::load_kernel(const std::string& key, const npu::Operation& operation) {
  const bundle::KernelFiles* files = bundle_->find_kernel(key);
  if (files == nullptr) {
    return {Code::kInternal, "cannot load kernel: the bundle lists none named " + key};
  }
  NPUSEG_ASSIGN_OR_RETURN(const auto context,
                          device_->context({bundle_->path(files->xclbin), files->kernel_name}));
  NPUSEG_ASSIGN_OR_RETURN(kernels_[key],
                          context->make_kernel({key, bundle_->instructions(key), operation}));
  return {};
}

const Sam3Gemm& NpuKernels::record(std::string_view key) const {
  return bundle_->sam3().gemms.find(key)->second;
}

Result<DeviceRows> NpuKernels::named_rows(const std::string& name, const Shape& shape) {
  const auto found = rows_.find(name);
  if (found != rows_.end()) return found->second;
  const auto [rows, stride, value] = shape;
  constexpr size_t kMost = size_t{1} << 31;
  if (rows > kMost / value / stride) {
    return Status(Code::kLimitExceeded,
                  format("cannot use bundle: %s of %zu rows of %zu values are too large; export "
                         "the bundle again",
                         name.c_str(), rows, stride));
  }
  DeviceRows made;
  made.rows = rows;
  made.stride = stride;
  made.value = value;
  const std::string what = "rows of the NPU, " + name;
  NPUSEG_ASSIGN_OR_RETURN(made.buffer, device_->make_buffer(rows * stride * value, what.c_str()));
  rows_[name] = made;
  return made;
}

Result<DeviceRows> NpuKernels::input(std::string_view key) {
  if (key == "v_fc2") return output("v_fc1");
  if (key == "d_fc2") return output("d_fc1");
  return named_rows(std::string(key) + ".a", input_shape(bundle_->sam3(), key));
}

Result<DeviceRows> NpuKernels::output(std::string_view key) {
  return named_rows(std::string(key) + ".c", output_shape(bundle_->sam3(), key));
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

Status NpuKernels::fill_slot(const std::string& name, std::span<const unsigned char> packed) {
  std::shared_ptr<npu::Buffer>& slot = weights_[name];
  if (slot == nullptr) {
    NPUSEG_ASSIGN_OR_RETURN(slot, device_->make_buffer(packed.size(), name.c_str()));
  }
  if (slot->bytes() != packed.size()) {
    return {Code::kInternal, format("cannot fill weights: %s: %zu bytes, the buffer has %zu",
                                    name.c_str(), packed.size(), slot->bytes())};
  }
  std::memcpy(slot->map().data(), packed.data(), packed.size());
  return slot->to_device(0, packed.size());
}

Status NpuKernels::run(Call& call, const std::string& key, size_t variant,
                       std::span<const npu::BufferRange> arguments) {
  std::unique_ptr<npu::Run>& run = runs_[{key, variant}];
  if (run == nullptr) {
    NPUSEG_ASSIGN_OR_RETURN(run, kernels_[key]->make_run(arguments));
  }
  NPUSEG_RETURN_IF_ERROR(run->submit(call));
  return run->wait(call);
}

Status NpuKernels::run_chunks(Call& call, const std::string& key, const std::string& weight,
                              const DeviceRows& a, const DeviceRows& c, size_t used) {
  const Sam3Gemm& gemm = record(key);
  NPUSEG_ASSIGN_OR_RETURN(const auto b, weight_buffer(weight));
  const size_t a_bytes = ((gemm.m - 1) * gemm.lda + gemm.b.k) * kValue;
  const size_t c_bytes = gemm.m * gemm.b.n * kValue;
  for (size_t i = 0; i * gemm.m < used; ++i) {
    std::unique_ptr<npu::Run>& run = runs_[{weight, i}];
    if (run == nullptr) {
      const npu::BufferRange arguments[] = {{a.buffer, i * gemm.m * gemm.lda * kValue, a_bytes},
                                            {b, 0, b->bytes()},
                                            {c.buffer, i * c_bytes, c_bytes}};
      NPUSEG_ASSIGN_OR_RETURN(run, kernels_[key]->make_run(arguments));
      run->expect_rows(std::min<size_t>(gemm.m, used - i * gemm.m));
    }
    NPUSEG_RETURN_IF_ERROR(run->submit(call));
    NPUSEG_RETURN_IF_ERROR(run->wait(call));
  }
  return {};
}

Status NpuKernels::gemm(Call& call, const std::string& key, const std::string& weight) {
  NPUSEG_ASSIGN_OR_RETURN(const DeviceRows a, input(key));
  NPUSEG_ASSIGN_OR_RETURN(const DeviceRows c, output(key));
  return run_chunks(call, key, weight, a, c, used_rows(bundle_->sam3(), key));
}

Result<NpuKernels::Convolution> NpuKernels::convolution(size_t side) {
  const auto [a, c] = convolution_shapes(bundle_->sam3(), side);
  const std::string name = "conv" + std::to_string(side);
  Convolution made;
  NPUSEG_ASSIGN_OR_RETURN(made.a, named_rows(name + ".a", a));
  NPUSEG_ASSIGN_OR_RETURN(made.c, named_rows(name + ".c", c));
  return made;
}

Status NpuKernels::convolve(Call& call, size_t side, const std::string& weight) {
  NPUSEG_ASSIGN_OR_RETURN(const Convolution rows, convolution(side));
  return run_chunks(call, "conv", weight, rows.a, rows.c,
                    used_convolution_rows(bundle_->sam3(), side));
}

Result<DeviceRows> NpuKernels::attention_rows(std::string_view key, size_t index) {
  if (key == "mha_d" && index == 3) return input("d_o");
  return named_rows(std::string(key) + "." + kQkvo[index], attention_shape(bundle_->sam3(), key));
}

Status NpuKernels::attend(Call& call, const std::string& key) {
  npu::BufferRange arguments[4];
  for (size_t i = 0; i < 4; ++i) {
    NPUSEG_ASSIGN_OR_RETURN(const DeviceRows rows, attention_rows(key, i));
    arguments[i] = whole(rows);
  }
  return run(call, key, 0, arguments);
}

Result<DeviceRows> NpuKernels::residual(size_t index) {
  return named_rows("residual" + std::to_string(index), residual_shape(bundle_->sam3()));
}

Status NpuKernels::rotate(Call& call, bool global) {
  NPUSEG_ASSIGN_OR_RETURN(const DeviceRows from, output("v_qkv"));
  NPUSEG_ASSIGN_OR_RETURN(const auto table,
                          weight_buffer(global ? "v.rope_tab.glob" : "v.rope_tab.win"));
  NPUSEG_ASSIGN_OR_RETURN(const DeviceRows to,
                          named_rows("rotated", rotated_shape(bundle_->sam3())));
  const npu::BufferRange arguments[] = {whole(from), {table, 0, table->bytes()}, whole(to)};
  return run(call, "rope", global ? 1 : 0, arguments);
}

Status NpuKernels::attend_in_place(Call& call, bool global) {
  NPUSEG_ASSIGN_OR_RETURN(const DeviceRows rotated,
                          named_rows("rotated", rotated_shape(bundle_->sam3())));
  NPUSEG_ASSIGN_OR_RETURN(const DeviceRows qkv, output("v_qkv"));
  NPUSEG_ASSIGN_OR_RETURN(const DeviceRows to, input("v_o"));
  const npu::BufferRange arguments[] = {whole(rotated), whole(rotated), whole(qkv), whole(to)};
  return run(call, global ? "mha_glob" : "mha_win", 0, arguments);
}

Status NpuKernels::add_norm(Call& call, size_t from, const std::string& delta,
                            const std::string& normed) {
  NPUSEG_ASSIGN_OR_RETURN(const DeviceRows x, residual(from));
  NPUSEG_ASSIGN_OR_RETURN(const DeviceRows branch, output(delta));
  NPUSEG_ASSIGN_OR_RETURN(const DeviceRows sum, residual(1 - from));
  NPUSEG_ASSIGN_OR_RETURN(const DeviceRows h, input(normed));
  const npu::BufferRange arguments[] = {whole(x), whole(branch), whole(sum), whole(h)};
  return run(call, "addln", from, arguments);
}

}  // namespace npuseg::sam3

// SPDX-License-Identifier: Apache-2.0
#include "npu/soft/soft_device.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <map>
#include <mutex>
#include <vector>

#include "bundle/instructions.h"
#include "npu/soft/checks.h"
#include "npu/soft/kernels.h"

namespace npuseg::npu::soft {

using compute::Exec;
using core::Call;
using core::Code;
using core::format;
using core::Result;
using core::Status;

namespace {

// What contexts, kernels and runs share with the device; lives as long as any of them.
struct State {
  explicit State(const Options& given) : options(given) {}

  const Options options;
  std::mutex running;  // one run at a time, as on an array
  Scratch scratch;     // guarded by running
  std::atomic<uint64_t> runs{0};
  std::atomic<uint64_t> contexts{0};
  std::atomic<uint64_t> resident{0};
};

class SoftBuffer final : public Buffer {
 public:
  SoftBuffer(core::Buffer owned, size_t bytes) : owned_(std::move(owned)), bytes_(bytes) {
    std::memset(owned_.data(), 0, bytes_);
    data_ = owned_.data();
  }
  explicit SoftBuffer(std::span<const unsigned char> constant)
      : bytes_(constant.size()), data_(constant.data()) {}

  [[nodiscard]] size_t bytes() const override { return bytes_; }
  [[nodiscard]] std::span<unsigned char> map() override {
    if (owned_.empty()) return {};
    return {owned_.data(), bytes_};
  }
  Status to_device(size_t offset, size_t bytes) override { return check(offset, bytes); }
  Status from_device(size_t offset, size_t bytes) override { return check(offset, bytes); }

  [[nodiscard]] bool constant() const { return owned_.empty(); }
  [[nodiscard]] const unsigned char* data() const { return data_; }
  [[nodiscard]] unsigned char* writable() { return owned_.data(); }

 private:
  [[nodiscard]] Status check(size_t offset, size_t bytes) const {
    if (offset <= bytes_ && bytes <= bytes_ - offset) return {};
    return {Code::kInvalidArgument,
            format("cannot synchronise buffer: %zu bytes at %zu of a buffer of %zu", bytes, offset,
                   bytes_)};
  }

  core::Buffer owned_;
  size_t bytes_;
  const unsigned char* data_ = nullptr;
};

class SoftContext final : public Context, public std::enable_shared_from_this<SoftContext> {
 public:
  explicit SoftContext(std::shared_ptr<State> state) : state_(std::move(state)) {
    state_->contexts.fetch_add(1);
    state_->resident.fetch_add(1);
  }
  ~SoftContext() override { state_->resident.fetch_sub(1); }

  Result<std::shared_ptr<Kernel>> make_kernel(const KernelSpec& spec) override;

 private:
  std::shared_ptr<State> state_;
};

class SoftKernel final : public Kernel, public std::enable_shared_from_this<SoftKernel> {
 public:
  SoftKernel(std::shared_ptr<State> state, std::shared_ptr<Context> context, const KernelSpec& spec,
             Operation operation)
      : state_(std::move(state)),
        context_(std::move(context)),
        key_(spec.key),
        operation_(std::move(operation)),
        stream_(spec.instructions.begin(), spec.instructions.end()) {}

  [[nodiscard]] const std::string& key() const override { return key_; }
  [[nodiscard]] const Operation& operation() const override { return operation_; }
  Status patch(std::span<const WordPatch> words) override {
    std::vector<bundle::StreamWord> list;
    list.reserve(words.size());
    for (const WordPatch& word : words) list.push_back({word.index, word.value});
    return bundle::patch_stream(stream_, list, key_);
  }
  Result<std::unique_ptr<Run>> make_run(std::span<const BufferRange> arguments) override;

  [[nodiscard]] std::span<const unsigned char> stream() const { return stream_; }
  [[nodiscard]] State& state() const { return *state_; }

 private:
  std::shared_ptr<State> state_;
  std::shared_ptr<Context> context_;
  std::string key_;
  Operation operation_;
  std::vector<unsigned char> stream_;
};

Status refuse_stream(const std::string& key, const std::string& why) {
  return {Code::kInvalidArgument, "cannot run kernel " + key + ": " + why};
}

// The value that all these words of the stream have.
Result<uint32_t> common_word(const SoftKernel& kernel, const std::vector<uint32_t>& indices,
                             const char* what) {
  std::optional<uint32_t> common;
  for (const uint32_t index : indices) {
    const std::optional<uint32_t> value = bundle::stream_word(kernel.stream(), index);
    if (!value) {
      return refuse_stream(kernel.key(), format("instruction word %u is past the stream", index));
    }
    if (common && *common != *value) {
      return refuse_stream(kernel.key(), format("its cores have %u and %u as %s; patch all of them",
                                                *common, *value, what));
    }
    common = value;
  }
  return *common;
}

class SoftRun final : public Run {
 public:
  SoftRun(std::shared_ptr<SoftKernel> kernel, std::vector<BufferRange> arguments, size_t planes)
      : kernel_(std::move(kernel)), arguments_(std::move(arguments)), planes_(planes) {}

  void expect_rows(size_t rows) override { rows_ = rows; }
  Status submit(Call& call) override {
    if (submitted_) return {Code::kWrongState, "cannot submit run: it has not been waited for"};
    State& state = kernel_->state();
    const std::lock_guard lock(state.running);
    const auto begin = std::chrono::steady_clock::now();
    const Exec exec{&call, state.options.budget};
    NPUSEG_RETURN_IF_ERROR(
        std::visit([&](const auto& operation) { return execute(exec, operation, &state); },
                   kernel_->operation()));
    const auto spent = std::chrono::steady_clock::now() - begin;
    nanoseconds_ =
        static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(spent).count());
    state.runs.fetch_add(1);
    submitted_ = true;
    return {};
  }
  Status wait(Call& call) override {
    if (!submitted_) return {Code::kWrongState, "cannot wait for run: it was not submitted"};
    submitted_ = false;
    return call.check();
  }
  [[nodiscard]] uint64_t nanoseconds() const override { return nanoseconds_; }

 private:
  [[nodiscard]] const unsigned char* at(size_t index) const {
    const BufferRange& range = arguments_[index];
    return static_cast<const SoftBuffer&>(*range.buffer).data() + range.offset;
  }
  [[nodiscard]] const uint16_t* halves(size_t index) const {
    return reinterpret_cast<const uint16_t*>(at(index));
  }
  [[nodiscard]] unsigned char* written(size_t index) const {
    const BufferRange& range = arguments_[index];
    return static_cast<SoftBuffer&>(*range.buffer).writable() + range.offset;
  }
  [[nodiscard]] uint16_t* written_halves(size_t index) const {
    return reinterpret_cast<uint16_t*>(written(index));
  }

  Status execute(const Exec& exec, const Gemm& gemm, State* state) const {
    Gemm now = gemm;
    // The stream may have been patched to another activation.
    const std::optional<uint32_t> mode = bundle::find_epilogue(kernel_->stream());
    if (mode == bundle::kEpilogueNone) now.activation = GemmActivation::kNone;
    if (mode == bundle::kEpilogueGeluTanh) now.activation = GemmActivation::kGeluTanh;
    if (rows_ != 0) now.rows = std::min(now.rows, rows_);
    const GemmOperands operands{
        halves(0), {at(1), arguments_[1].bytes}, planes_, written_halves(2)};
    return run_gemm(exec, state->options.mode, now, operands, &state->scratch);
  }
  Status execute(const Exec& exec, const Attention& attention, State* state) const {
    AttentionOperands operands{halves(0), halves(1), halves(2), written_halves(3),
                               attention.length};
    if (!attention.key_words.empty()) {
      NPUSEG_ASSIGN_OR_RETURN(const uint32_t keys,
                              common_word(*kernel_, attention.key_words, "number of keys"));
      if (keys == 0 || keys > attention.length) {
        return refuse_stream(kernel_->key(),
                             format("%u keys of %zu rows are asked for", keys, attention.length));
      }
      operands.keys = keys;
    }
    if (!attention.window_words.empty()) {
      NPUSEG_ASSIGN_OR_RETURN(const uint32_t window,
                              common_word(*kernel_, attention.window_words, "window"));
      if (window != attention.no_window) {
        return refuse_stream(kernel_->key(),
                             format("its window is %u, without one it is %u; patch it", window,
                                    attention.no_window));
      }
    }
    return run_attention(exec, state->options.mode, attention, operands, &state->scratch);
  }
  Status execute(const Exec& exec, const Rope& rope, State*) const {
    return run_rope(exec, rope, halves(0), halves(1), written_halves(2));
  }
  Status execute(const Exec& exec, const AddNorm& norm, State* state) const {
    const AddNormOperands operands{at(0), halves(1), written(2), written_halves(3)};
    return run_add_norm(exec, state->options.mode, norm, operands);
  }

  std::shared_ptr<SoftKernel> kernel_;
  std::vector<BufferRange> arguments_;
  size_t planes_;
  size_t rows_ = 0;  // that count; 0: all
  bool submitted_ = false;
  uint64_t nanoseconds_ = 0;
};

Result<std::shared_ptr<Kernel>> SoftContext::make_kernel(const KernelSpec& spec) {
  NPUSEG_ASSIGN_OR_RETURN(
      Operation operation,
      complete_operation(spec.key, spec.operation, spec.instructions, state_->options.log));
  return std::shared_ptr<Kernel>(
      std::make_shared<SoftKernel>(state_, shared_from_this(), spec, std::move(operation)));
}

Result<std::unique_ptr<Run>> SoftKernel::make_run(std::span<const BufferRange> arguments) {
  const auto refuse = [&](const std::string& why) {
    return Status(Code::kInvalidArgument, "cannot bind kernel " + key_ + ": " + why);
  };
  if (arguments.size() != argument_count(operation_)) {
    return refuse(
        format("%zu arguments, it has %zu", arguments.size(), argument_count(operation_)));
  }
  for (size_t i = 0; i < arguments.size(); ++i) {
    const BufferRange& range = arguments[i];
    const ArgumentNeed need = argument_need(operation_, i);
    const auto* buffer = dynamic_cast<const SoftBuffer*>(range.buffer.get());
    if (buffer == nullptr) return refuse(format("argument %zu is no buffer of this device", i));
    if (range.offset > buffer->bytes() || range.bytes > buffer->bytes() - range.offset) {
      return refuse(format("argument %zu is %zu bytes at %zu of a buffer of %zu", i, range.bytes,
                           range.offset, buffer->bytes()));
    }
    if (range.bytes < need.bytes) {
      return refuse(format("argument %zu has %zu bytes, %s needs %zu", i, range.bytes,
                           operation_name(operation_), need.bytes));
    }
    const auto address = reinterpret_cast<uintptr_t>(buffer->data() + range.offset);
    if (address % need.alignment != 0) {
      return refuse(format("argument %zu begins at %zu, no multiple of its elements of %zu bytes",
                           i, range.offset, need.alignment));
    }
    if ((written_arguments(operation_) >> i & 1u) != 0 && buffer->constant()) {
      return refuse(format("argument %zu is written, its buffer is constant", i));
    }
  }
  size_t planes = 1;
  if (const auto* gemm = std::get_if<Gemm>(&operation_)) {
    const auto& buffer = static_cast<const SoftBuffer&>(*arguments[1].buffer);
    NPUSEG_ASSIGN_OR_RETURN(
        planes,
        weight_planes(key_, *gemm, {buffer.data() + arguments[1].offset, arguments[1].bytes}));
  }
  return std::unique_ptr<Run>(std::make_unique<SoftRun>(
      shared_from_this(), std::vector<BufferRange>(arguments.begin(), arguments.end()), planes));
}

class SoftDevice final : public Device {
 public:
  explicit SoftDevice(const Options& options) : state_(std::make_shared<State>(options)) {}

  [[nodiscard]] const std::string& name() const override { return name_; }

  Result<std::shared_ptr<Buffer>> make_buffer(size_t bytes, const char* what) override {
    if (bytes == 0) {
      return Status(Code::kInvalidArgument, format("cannot make buffer: %s of 0 bytes", what));
    }
    NPUSEG_ASSIGN_OR_RETURN(core::Buffer owned,
                            core::Buffer::make(state_->options.budget, bytes, what));
    return std::shared_ptr<Buffer>(std::make_shared<SoftBuffer>(std::move(owned), bytes));
  }
  Result<std::shared_ptr<Buffer>> make_constant(std::span<const unsigned char> bytes,
                                                const char* what) override {
    if (bytes.empty()) {
      return Status(Code::kInvalidArgument, format("cannot make buffer: %s of 0 bytes", what));
    }
    return std::shared_ptr<Buffer>(std::make_shared<SoftBuffer>(bytes));
  }
  Result<std::shared_ptr<Context>> context(const ContextSpec& spec) override {
    const std::lock_guard lock(mutex_);
    std::weak_ptr<Context>& held = contexts_[{spec.xclbin_path, spec.kernel_name}];
    std::shared_ptr<Context> context = held.lock();
    if (context == nullptr) {
      context = std::make_shared<SoftContext>(state_);
      held = context;
    }
    return context;
  }

  // Nobody else could use them.
  size_t release_contexts() override { return 0; }
  [[nodiscard]] DeviceCounters counters() const override {
    return {state_->runs.load(), state_->contexts.load(), 0, state_->resident.load()};
  }

 private:
  const std::string name_ = "soft";
  std::shared_ptr<State> state_;
  std::mutex mutex_;
  std::map<std::pair<std::string, std::string>, std::weak_ptr<Context>> contexts_;  // by mutex_
};

}  // namespace

std::shared_ptr<Device> make_device(const Options& options) {
  return std::make_shared<SoftDevice>(options);
}

}  // namespace npuseg::npu::soft

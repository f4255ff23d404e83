// SPDX-License-Identifier: Apache-2.0
// What runs the kernels of a bundle: an NPU through XRT, an NPU through the driver's ioctls, or
// software. Graphs use this interface alone.
//
//   device   make_buffer, make_constant        memory that kernels read and write
//            context                           an array configuration (xclbin), shared by key
//   context  make_kernel                       an instruction stream on it
//   kernel   patch                             words of the stream
//            make_run                          with its buffers bound: made once, submitted often
//   run      submit, wait
//
// Contexts are few (16, shared by all processes), so a device loads them when a run needs them and
// may drop them in between; patches survive that. What the user of the interface sees is the same.
//
// Caches: a kernel sees what the host wrote only behind to_device, and the host what a kernel wrote
// only behind from_device. What passes from kernel to kernel needs neither.
//
// Threads: a device and its counters may be used by any number of threads at once. Buffers, kernels
// and runs by one at a time; runs are executed in the order in which they were submitted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "core/log.h"
#include "core/status.h"
#include "core/threads.h"
#include "npu/operation.h"

namespace npuseg::npu {

// Memory that kernels can use. Freed with its last holder; runs hold the buffers they name.
class Buffer {
 public:
  virtual ~Buffer() = default;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  [[nodiscard]] virtual size_t bytes() const = 0;
  // The host's view, all of it, for as long as the buffer lives; empty of a constant. On hardware
  // it may be slow to read: move rows in bulk, do not compute in it.
  [[nodiscard]] virtual std::span<unsigned char> map() = 0;
  // INVALID_ARGUMENT outside the buffer. No run that uses the range may be in flight.
  virtual core::Status to_device(size_t offset, size_t bytes) = 0;
  virtual core::Status from_device(size_t offset, size_t bytes) = 0;

 protected:
  Buffer() = default;
};

// A part of a buffer as a kernel's argument. Ranges may overlap.
struct BufferRange {
  std::shared_ptr<Buffer> buffer;
  size_t offset = 0;
  size_t bytes = 0;
};

// A kernel with its arguments.
class Run {
 public:
  virtual ~Run() = default;
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  // What a GEMM makes of rows from `rows` on will not be read, until this is called again; 0: all
  // rows count. Hardware computes them all the same, software need not. Not while it is submitted.
  virtual void expect_rows(size_t /*rows*/) {}
  // Loads the kernel if it is not, and starts it. Submitting again before wait is WRONG_STATE.
  // `call` gives threads to software and can stop what waits for a free context.
  virtual core::Status submit(core::Call& call) = 0;
  // Until the run is over, or the call is stopped, or the device's own deadline passes. OK only
  // when the device reports completion. Without a submitted run: WRONG_STATE.
  virtual core::Status wait(core::Call& call) = 0;
  // From submission to completion of the last completed run.
  [[nodiscard]] virtual uint64_t nanoseconds() const = 0;

 protected:
  Run() = default;
};

// One 32-bit word of an instruction stream, counted from its begin.
struct WordPatch {
  uint32_t index = 0;
  uint32_t value = 0;
};

struct KernelSpec {
  std::string key;                              // of the manifest, for messages and timings
  std::span<const unsigned char> instructions;  // copied
  Operation operation;
};

// An instruction stream on a context. Holds its context.
class Kernel {
 public:
  virtual ~Kernel() = default;
  Kernel(const Kernel&) = delete;
  Kernel& operator=(const Kernel&) = delete;

  [[nodiscard]] virtual const std::string& key() const = 0;
  [[nodiscard]] virtual const Operation& operation() const = 0;
  // All words or, when one is past the stream, none. They stay across reloading. No run of the
  // kernel may be in flight. Words that hold the value already cost nothing.
  virtual core::Status patch(std::span<const WordPatch> words) = 0;
  // One range an argument of the operation, in its order; INVALID_ARGUMENT when their number is
  // wrong or one is outside its buffer or too short for what the operation touches.
  virtual core::Result<std::unique_ptr<Run>> make_run(std::span<const BufferRange> arguments) = 0;

 protected:
  Kernel() = default;
};

struct ContextSpec {
  std::string xclbin_path;
  std::string kernel_name;  // "MLIR_AIE"
};

// A configuration of the array. Two kernels of one context follow each other without cost.
class Context {
 public:
  virtual ~Context() = default;
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  virtual core::Result<std::shared_ptr<Kernel>> make_kernel(const KernelSpec& spec) = 0;

 protected:
  Context() = default;
};

// Since the device was opened.
struct DeviceCounters {
  uint64_t runs = 0;
  uint64_t contexts = 0;   // created
  uint64_t evictions = 0;  // contexts dropped to make room
  uint64_t resident = 0;   // contexts there are now
};

class Device {
 public:
  virtual ~Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  // "soft", "amdxdna:0", "xrt:0".
  [[nodiscard]] virtual const std::string& name() const = 0;

  // Zero-filled and synchronised. `what` names it in messages.
  virtual core::Result<std::shared_ptr<Buffer>> make_buffer(size_t bytes, const char* what) = 0;
  // Holds these bytes and is never written. The device may use them where they lie, so they stay
  // there for as long as the buffer does.
  virtual core::Result<std::shared_ptr<Buffer>> make_constant(std::span<const unsigned char> bytes,
                                                              const char* what) = 0;
  // The same object for the same spec while somebody holds it.
  virtual core::Result<std::shared_ptr<Context>> context(const ContextSpec& spec) = 0;

  // Drops contexts that no run is using, for others to have them; returns how many. They come back
  // when a run needs them. Buffers and patches stay.
  virtual size_t release_contexts() = 0;
  [[nodiscard]] virtual DeviceCounters counters() const = 0;

 protected:
  Device() = default;
};

}  // namespace npuseg::npu

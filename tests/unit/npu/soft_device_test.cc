// SPDX-License-Identifier: Apache-2.0
// The software NPU as a device: contexts by key, what is refused and when, order of submission and
// waiting, patches of the activation, what streams confirm.
#include <cstring>

#include "bundle_files.h"
#include "soft_support.h"
// Behind all others.
#include "cmocka_cpp.h"

namespace {

using namespace npuseg::test;
using namespace npuseg::npu;
using npuseg::core::Code;
using npuseg::core::Status;
using npuseg::npu::soft::Mode;

Gemm small_gemm() {
  Gemm gemm;
  gemm.rows = 16;
  gemm.k = gemm.lda = 32;
  gemm.n = gemm.c_stride = 32;
  gemm.tile_k = gemm.tile_n = gemm.ct_k = 16;
  return gemm;
}

std::string gemm_stream(uint32_t mode, uint32_t rows = 16, uint32_t tile = 16) {
  return make_stream(StreamKind::kGemm, "k", {rows, 32, 32, 32, 32, tile, tile, tile, 0, 1, 0},
                     mode, 2);
}

std::span<const unsigned char> bytes_of(const std::string& text) {
  return npuseg::test::bytes_of(text.data(), text.size());
}

void expect(const Status& status, Code code, const char* words) {
  if (status.code() != code || std::strstr(status.message().c_str(), words) == nullptr) {
    print_message("found \"%s\", expected \"%s\"\n", status.message().c_str(), words);
  }
  assert_int_equal(static_cast<int>(status.code()), static_cast<int>(code));
  assert_non_null(std::strstr(status.message().c_str(), words));
}

void test_contexts(void**) {
  Machine machine(Mode::kFast);
  assert_string_equal(machine.device->name().c_str(), "soft");
  const auto same = machine.device->context({"k.xclbin", "MLIR_AIE"}).value();
  assert_ptr_equal(same.get(), machine.context.get());
  auto other = machine.device->context({"l.xclbin", "MLIR_AIE"}).value();
  assert_ptr_not_equal(other.get(), machine.context.get());
  assert_int_equal(machine.device->counters().contexts, 2);
  assert_int_equal(machine.device->counters().resident, 2);
  // A kernel holds its context.
  auto kernel = other->make_kernel({"k", {}, small_gemm()}).value();
  other.reset();
  assert_int_equal(machine.device->counters().resident, 2);
  kernel.reset();
  assert_int_equal(machine.device->counters().resident, 1);
}

void test_buffers(void**) {
  Machine machine(Mode::kFast);
  const auto buffer = machine.device->make_buffer(100, "test").value();
  for (const unsigned char byte : buffer->map()) assert_int_equal(byte, 0);
  assert_true(buffer->to_device(0, 100).ok());
  assert_true(buffer->from_device(100, 0).ok());
  expect(buffer->to_device(1, 100), Code::kInvalidArgument, "100 bytes at 1");
  expect(buffer->from_device(101, 0), Code::kInvalidArgument, "of a buffer of 100");
  expect(buffer->to_device(SIZE_MAX, 2), Code::kInvalidArgument, "buffer of 100");
  assert_false(machine.device->make_buffer(0, "test").ok());
  assert_false(machine.device->make_constant({}, "test").ok());
  const Bytes content(7);
  assert_true(machine.device->make_constant(content, "test").value()->map().empty());
}

void test_runs(void**) {
  Random random(1);
  Machine machine(Mode::kFast);
  const Gemm gemm = small_gemm();
  const Weight weight(gemm, 1, random);
  const auto kernel = machine.kernel(gemm).value();
  const auto a = machine.buffer(random.halves(512));
  const auto b = machine.buffer(weight.packed);
  const auto c = machine.buffer(Halves(512));
  const BufferRange arguments[] = {a, b, c};
  const auto run = kernel->make_run(arguments).value();
  expect(run->wait(machine.call), Code::kWrongState, "not submitted");
  assert_true(run->submit(machine.call).ok());
  expect(run->submit(machine.call), Code::kWrongState, "not been waited for");
  assert_true(run->wait(machine.call).ok());
  assert_true(run->nanoseconds() > 0);
  assert_true(run->submit(machine.call).ok());
  assert_true(run->wait(machine.call).ok());
  assert_int_equal(machine.device->counters().runs, 2);
  // A stopped call computes nothing and says so.
  npuseg::core::Call stopped;
  stopped.fail_from_worker(Status(Code::kCancelled, "stop"));
  expect(run->submit(stopped), Code::kCancelled, "stop");
}

void test_arguments(void**) {
  Random random(2);
  Machine machine(Mode::kFast);
  const auto kernel = machine.kernel(small_gemm()).value();
  const Weight weight(small_gemm(), 1, random);
  const auto a = machine.buffer(Halves(512));
  const auto b = machine.buffer(weight.packed);
  const auto c = machine.buffer(Halves(512));
  const auto bind = [&](std::vector<BufferRange> arguments) {
    return kernel->make_run(arguments).status();
  };
  assert_true(kernel->make_run(std::vector<BufferRange>{a, b, c}).ok());
  expect(bind({a, b}), Code::kInvalidArgument, "2 arguments, it has 3");
  expect(bind({a, b, {nullptr, 0, 0}}), Code::kInvalidArgument, "argument 2 is no buffer");
  expect(bind({{a.buffer, 2, 1022}, b, c}), Code::kInvalidArgument, "argument 0 has 1022 bytes");
  expect(bind({{a.buffer, 2, 1024}, b, c}), Code::kInvalidArgument, "1024 bytes at 2");
  expect(bind({{a.buffer, SIZE_MAX, 2}, b, c}), Code::kInvalidArgument, "buffer of 1024");
  const auto longer = machine.buffer(Halves(600));
  expect(bind({{longer.buffer, 1, 1024}, b, c}), Code::kInvalidArgument, "no multiple");
  const Bytes constant(1024);
  const BufferRange fixed{machine.device->make_constant(constant, "test").value(), 0, 1024};
  expect(bind({a, b, fixed}), Code::kInvalidArgument, "constant");
  // Weights: one plane, two planes, nothing else.
  const auto odd = machine.buffer(Bytes(weight.packed.size() + 9));
  expect(bind({a, odd, c}), Code::kCorruptData, "its weights have 1161 bytes");
  Bytes two = Weight(small_gemm(), 2, random).packed;
  assert_true(kernel->make_run(std::vector<BufferRange>{a, machine.buffer(two), c}).ok());
  std::rotate(two.begin(), two.begin() + 1152, two.end());
  expect(bind({a, machine.buffer(two), c}), Code::kCorruptData, "second half of its weights");
}

void test_refused_operations(void**) {
  Machine machine(Mode::kFast);
  const auto refused = [&](const Operation& operation, const char* words) {
    expect(machine.kernel(operation).status(), Code::kCorruptData, words);
  };
  Gemm gemm = small_gemm();
  gemm.rows = 0;
  refused(gemm, "M is 0");
  gemm = small_gemm();
  gemm.lda = SIZE_MAX;
  refused(gemm, "lda is 18446744073709551615");
  gemm = small_gemm();
  gemm.ct_k = 12;
  refused(gemm, "no multiple of");
  gemm = small_gemm();
  gemm.c_stride = 31;
  refused(gemm, "c_stride 31");
  gemm = small_gemm();
  gemm.pair = gemm.bias = true;
  refused(gemm, "pairs");
  Attention attention;
  attention.length = 16;
  attention.heads = 2;
  attention.head_dim = 8;
  attention.q = attention.k = attention.v = attention.o = {0, 16};
  assert_true(machine.kernel(attention).ok());
  attention.k.stride = 15;
  refused(attention, "cannot lie 15 apart");
  attention.k = {SIZE_MAX, 16};
  refused(attention, "offset");
  attention.k = {0, 16};
  attention.windows = attention.length = size_t{1} << 20;
  refused(attention, "rows is");
  attention.windows = 2;
  attention.length = 16;
  attention.key_words = {8};
  refused(attention, "several windows");
  attention.key_words.clear();
  attention.scale = NAN;
  refused(attention, "scale");
  refused(Rope{4, 2, 7, 14, 14}, "heads of 7 columns");
  refused(Rope{4, 2, 8, 15, 16}, "15 and 16 apart");
  refused(AddNorm{0, 4, 1e-6f, false}, "rows is 0");
}

// What the stream says beside the manifest.
void test_streams(void**) {
  Machine machine(Mode::kFaithful);
  const auto make = [&](const Gemm& gemm, const std::string& stream) {
    return machine.context->make_kernel({"k", bytes_of(stream), gemm});
  };
  Gemm gemm = small_gemm();
  assert_true(make(gemm, gemm_stream(0)).ok());
  expect(make(gemm, gemm_stream(5)).status(), Code::kCorruptData, "says activation 5");
  gemm.activation = GemmActivation::kGeluTanh;
  assert_true(make(gemm, gemm_stream(5)).ok());
  expect(make(gemm, gemm_stream(0)).status(), Code::kCorruptData, "should have tanh-GELU");
  gemm.activation = GemmActivation::kRelu;
  assert_true(make(gemm, gemm_stream(4)).ok());
  assert_true(make(gemm, gemm_stream(7)).ok());
  expect(make(gemm, gemm_stream(5)).status(), Code::kCorruptData, "should have ReLU");
  gemm.activation = GemmActivation::kNone;
  expect(make(gemm, gemm_stream(0, 32)).status(), Code::kCorruptData, "is 32, by the manifest");
  expect(make(gemm, make_stream(StreamKind::kRope, "k", {16, 1, 32, 32, 32})).status(),
         Code::kCorruptData, "of another kind");
  // A manifest without the order of weights.
  gemm.tile_k = gemm.tile_n = gemm.ct_k = 0;
  const auto kernel = make(gemm, gemm_stream(0)).value();
  assert_int_equal(std::get<Gemm>(kernel->operation()).tile_n, 16);
  expect(machine.context->make_kernel({"k", {}, gemm}).status(), Code::kCorruptData,
         "no multiple of");
  gemm.k = gemm.lda = 128;
  gemm.n = gemm.c_stride = 64;
  const auto usual = machine.context->make_kernel({"k", {}, gemm}).value();
  assert_int_equal(std::get<Gemm>(usual->operation()).tile_n, 64);
  assert_int_equal(std::get<Gemm>(usual->operation()).ct_k, 128);
}

// The activation of all cores patched away and back.
void test_patched_activation(void**) {
  Random random(5);
  Gemm gemm = small_gemm();
  gemm.activation = GemmActivation::kGeluTanh;
  const Weight weight(gemm, 1, random);
  const Halves a = random.halves(512);
  Machine machine(Mode::kFaithful);
  const std::string stream = gemm_stream(5);
  const auto kernel = machine.kernel(gemm, bytes_of(stream)).value();
  std::vector<WordPatch> off;
  for (uint32_t core = 0; core < 32; ++core) off.push_back({20 + 24 * core, 0});
  assert_true(kernel->patch(off).ok());
  const auto c = machine.buffer(Halves(512));
  assert_true(machine.run(*kernel, {machine.buffer(a), machine.buffer(weight.packed), c}).ok());
  gemm.activation = GemmActivation::kNone;
  const auto expected = expect_gemm(gemm, a, 0, weight);
  const Halves found = halves_of(c);
  for (size_t i = 0; i < found.size(); ++i) assert_int_equal(found[i], stored(expected[i].value));
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(test_contexts),
      cmocka_unit_test(test_buffers),
      cmocka_unit_test(test_runs),
      cmocka_unit_test(test_arguments),
      cmocka_unit_test(test_refused_operations),
      cmocka_unit_test(test_streams),
      cmocka_unit_test(test_patched_activation),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}

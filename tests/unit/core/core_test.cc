// SPDX-License-Identifier: Apache-2.0
// Buffers and budgets, atomic file writes, JSON, and loops on threads.
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "cmocka_cpp.h"
#include "core/buffer.h"
#include "core/file.h"
#include "core/json.h"
#include "core/threads.h"

namespace {

using namespace npuseg::core;

void expect_code(const Status& status, Code code) {
  assert_int_equal(static_cast<int>(status.code()), static_cast<int>(code));
}

void test_budget(void**) {
  const auto budget = std::make_shared<MemoryBudget>(1000);
  {
    auto first = Buffer::make(budget, 600, "first");
    assert_true(first.ok());
    assert_int_equal(reinterpret_cast<uintptr_t>(first.value().data()) % 64, 0);
    expect_code(Buffer::make(budget, 600, "second").status(), Code::kLimitExceeded);
  }
  assert_int_equal(budget->used(), 0);
  assert_true(budget->peak() >= 600);
  assert_false(Buffer::make_floats(nullptr, SIZE_MAX / 2, 8, "huge").ok());
}

std::string temporary_folder() {
  char path[] = "/tmp/npuseg-core-XXXXXX";
  assert_non_null(mkdtemp(path));
  return path;
}

void test_atomic_write(void**) {
  const std::string folder = temporary_folder();
  const std::string path = join_path(folder, "f");
  const std::vector<unsigned char> old(10, 1);
  assert_true(write_file_atomically(path, old).ok());
  const std::vector<unsigned char> larger(100000, 2);
  // A file-size limit fails the write half way, like a full disk; the old file must stay.
  const pid_t child = fork();
  if (child == 0) {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{5000, 5000};
    const bool limited = setrlimit(RLIMIT_FSIZE, &limit) == 0;
    _exit(limited && write_file_atomically(path, larger).code() == Code::kIo ? 0 : 1);
  }
  int state = -1;
  assert_int_equal(waitpid(child, &state, 0), child);
  assert_int_equal(state, 0);
  const auto content = read_file(path, 1000);
  assert_true(content.ok());
  assert_int_equal(content.value().size(), 10);
  assert_false(read_file(path, 9).ok());
  assert_false(MappedFile::open(folder).ok());
  expect_code(MappedFile::open(path + "x").status(), Code::kNotFound);
  assert_int_equal(unlink(path.c_str()), 0);
  assert_int_equal(rmdir(folder.c_str()), 0);  // no temporary file is left behind
}

void test_json(void**) {
  const auto document = JsonDocument::parse("{\"a\":1,\"b\":[1.5,\"x\"],\"c\":-1}", "t");
  assert_true(document.ok());
  const JsonValue root = document.value().root();
  uint64_t number = 9;
  assert_true(root["a"].get(&number));
  assert_int_equal(number, 1);
  assert_false(root["c"].get(&number));
  assert_int_equal(number, 1);
  assert_int_equal(root["b"].size(), 2);
  assert_false(root["z"].exists());
  for (const char* bad : {"", "{", "{\"a\":}", "\"\xff\"", "{} x"}) {
    assert_false(JsonDocument::parse(bad, "t").ok());
  }
  assert_false(JsonDocument::parse(std::string(65, '[') + std::string(65, ']'), "t").ok());
}

Call::Options four_threads() {
  Call::Options options;
  options.threads = 4;
  return options;
}

void test_every_index_once(void**) {
  Call call(four_threads());
  std::vector<std::atomic<int>> seen(1000);
  std::atomic<size_t> inner{0};
  const Status status = parallel_for(call, seen.size(), [&](size_t i, int slot) {
    if (slot < 0 || slot >= 4) return;
    ++seen[i];
    const Status nested = parallel_for(call, 3, [&](size_t, int) { ++inner; });
    if (!nested.ok()) inner = 0;
  });
  assert_true(status.ok());
  for (const auto& count : seen) assert_int_equal(count.load(), 1);
  assert_int_equal(inner.load(), 3000);
  assert_true(parallel_for(call, 0, [](size_t, int) {}).ok());
}

void test_stopping(void**) {
  Call::Options options = four_threads();
  options.progress = [](void*, uint32_t, uint64_t, uint64_t) -> int32_t { return 7; };
  Call cancelled(options);
  const Status status = parallel_for(cancelled, 10, [](size_t, int) {});
  expect_code(status, Code::kCancelled);
  assert_int_equal(status.os_error(), 7);
  options = four_threads();
  options.deadline_ns = 1;
  Call late(options);
  expect_code(parallel_for(late, 10, [](size_t, int) {}), Code::kTimeout);
}

void test_exception_in_a_body(void**) {
  Call call(four_threads());
  expect_code(parallel_for(call, 10,
                           [](size_t i, int) {
                             if (i == 5) throw std::bad_alloc();
                           }),
              Code::kOutOfMemory);
}

void test_fork_after_threads(void**) {
  Call warm(four_threads());
  assert_true(parallel_for(warm, 100, [](size_t, int) {}).ok());
  const pid_t child = fork();
  if (child == 0) {
    alarm(10);  // a hang ends the child by signal
    Call call(four_threads());
    size_t sum = 0;  // unsynchronised: the child runs serially
    const Status status = parallel_for(call, 100, [&](size_t i, int) { sum += i; });
    _exit(status.ok() && sum == 4950 ? 0 : 1);
  }
  int state = -1;
  assert_int_equal(waitpid(child, &state, 0), child);
  assert_int_equal(state, 0);
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(test_budget),
      cmocka_unit_test(test_atomic_write),
      cmocka_unit_test(test_json),
      cmocka_unit_test(test_every_index_once),
      cmocka_unit_test(test_stopping),
      cmocka_unit_test(test_exception_in_a_body),
      cmocka_unit_test(test_fork_after_threads),
  };
  return cmocka_run_group_tests_name("core", tests, nullptr, nullptr);
}

// SPDX-License-Identifier: Apache-2.0
// Attention, rotation, sum-and-norm on the software NPU against formulas in double.
#include "bundle_files.h"
#include "soft_support.h"
// Behind all others.
#include "cmocka_cpp.h"

namespace {

using namespace npuseg::test;
using npuseg::npu::AddNorm;
using npuseg::npu::Attention;
using npuseg::npu::HeadRows;
using npuseg::npu::Operation;
using npuseg::npu::Rope;
using npuseg::npu::WordPatch;
using npuseg::npu::soft::Mode;

constexpr Mode kModes[] = {Mode::kFaithful, Mode::kFast};

double at(const Halves& values, const HeadRows& rows, size_t row, size_t column) {
  return wide(values[rows.first + row * rows.stride + column]);
}

// [windows * length, heads * head_dim]
std::vector<Expected> expect_attention(const Attention& a, const Halves& qkv, size_t keys) {
  const size_t width = a.heads * a.head_dim;
  std::vector<Expected> out(a.windows * a.length * width);
  for (size_t row = 0; row < a.windows * a.length; ++row) {
    const size_t first = row / a.length * a.length;
    for (size_t head = 0; head < a.heads; ++head) {
      std::vector<double> weights(keys);
      double largest = -HUGE_VAL;
      for (size_t j = 0; j < keys; ++j) {
        double score = 0.0;
        for (size_t i = 0; i < a.head_dim; ++i) {
          score += at(qkv, a.q, row, head * a.head_dim + i) *
                   at(qkv, a.k, first + j, head * a.head_dim + i);
        }
        weights[j] = score * static_cast<double>(a.scale);
        largest = std::max(largest, weights[j]);
      }
      double total = 0.0;
      for (double& weight : weights) {
        weight = a.base2 ? std::exp2(weight - largest) : std::exp(weight - largest);
        total += weight;
      }
      for (size_t i = 0; i < a.head_dim; ++i) {
        Expected& e = out[row * width + head * a.head_dim + i];
        for (size_t j = 0; j < keys; ++j) {
          const double part = weights[j] / total * at(qkv, a.v, first + j, head * a.head_dim + i);
          e.value += part;
          e.mass += std::fabs(part);
        }
      }
    }
  }
  return out;
}

// q, k and v side by side in one buffer of `columns`, the output in another.
Attention side_by_side(size_t windows, size_t length, size_t heads, size_t dim, size_t columns,
                       size_t out_columns) {
  Attention a;
  a.windows = windows;
  a.length = length;
  a.heads = heads;
  a.head_dim = dim;
  const size_t width = heads * dim;
  a.q = {0, columns};
  a.k = {width, columns};
  a.v = {2 * width, columns};
  a.o = {0, out_columns};
  a.scale = 0.125f;
  return a;
}

void compare_attention(const Attention& a, const Halves& qkv, const Halves& out, size_t keys,
                       Mode mode) {
  const auto expected = expect_attention(a, qkv, keys);
  const size_t width = a.heads * a.head_dim;
  Difference difference;
  for (size_t i = 0; i < expected.size(); ++i) {
    // Scores reach some 10 in these tests: their float32 error and that of the exponential are
    // below 32 u each, those of weight, sum and quotient a few more.
    Expected e = expected[i];
    e.mass *= 64.0;
    compare(out[a.o.first + i / width * a.o.stride + i % width], e, keys, &difference);
  }
  print_message("attention %zu x %zu, %zu keys: %zu of %zu values round elsewhere\n", a.windows,
                a.length, keys, difference.unequal, difference.values);
  assert_int_equal(difference.wrong, 0);
  // The order of sums in double moves ties alone.
  if (mode == Mode::kFaithful) assert_true(difference.unequal <= difference.values / 5000);
  assert_true(difference.unequal <= difference.values / 20 + 2);
}

void test_attention(void**) {
  Random random(1);
  const Attention list[] = {
      side_by_side(1, 1, 1, 8, 24, 8),      side_by_side(1, 64, 2, 64, 384, 128),
      side_by_side(4, 16, 2, 64, 384, 128), side_by_side(3, 37, 3, 24, 240, 90),
      side_by_side(1, 133, 1, 64, 200, 64),
  };
  for (const Attention& a : list) {
    for (const bool base2 : {false, true}) {
      Attention used = a;
      used.base2 = base2;
      const Halves qkv = random.halves(used.windows * used.length * used.q.stride, -2.0f, 2.0f);
      Halves one_thread;
      for (const Mode mode : kModes) {
        for (const int threads : {1, 3}) {
          Machine machine(mode, threads);
          const auto in = machine.buffer(qkv);
          const auto out = machine.buffer(Halves(used.elements(used.o)));
          assert_true(machine.run(used, {in, in, in, out}).ok());
          if (threads == 1) {
            one_thread = halves_of(out);
            compare_attention(used, qkv, one_thread, used.length, mode);
          }
          assert_true(halves_of(out) == one_thread);
        }
      }
    }
  }
}

// Heads whose last columns are zeros, as those of DETR are: whatever is left out for it, the answer
// is that of all columns, and what the output held in the padding is gone.
void test_padded_heads(void**) {
  Random random(7);
  for (const size_t real : {size_t{1}, size_t{20}, size_t{32}, size_t{57}, size_t{63}}) {
    const Attention a = side_by_side(2, 37, 3, 64, 600, 200);
    Halves qkv = random.halves(a.windows * a.length * a.q.stride, -2.0f, 2.0f);
    for (size_t i = 0; i < qkv.size(); ++i) {
      const size_t column = i % a.q.stride;
      // One head of the values alone is wider than the others.
      const size_t used = column / 64 == 7 ? std::min<size_t>(64, real + 9) : real;
      if (column < 576 && column % 64 >= used) qkv[i] = i % 2 == 0 ? 0 : 0x8000;
    }
    for (const Mode mode : kModes) {
      Machine machine(mode);
      const auto in = machine.buffer(qkv);
      const auto out = machine.buffer(Halves(a.elements(a.o), 0x4000));
      assert_true(machine.run(a, {in, in, in, out}).ok());
      compare_attention(a, qkv, halves_of(out), a.length, mode);
    }
  }
}

// Keys past the patched number are not seen, whatever they hold; without the window's word patched
// the kernel does not run.
void test_patched_keys(void**) {
  Random random(2);
  Attention a = side_by_side(1, 96, 3, 64, 576, 192);
  a.scale = 1.0f;
  a.base2 = true;
  a.no_window = 1u << 30;
  std::vector<WordPatch> words;
  for (uint32_t core = 0; core < 32; ++core) {
    a.key_words.push_back(8 + 12 * core);
    a.window_words.push_back(14 + 12 * core);
    words.push_back({8 + 12 * core, 54});
    words.push_back({14 + 12 * core, a.no_window});
  }
  const std::string stream =
      make_stream(StreamKind::kMha, "mha_96",
                  {1, 96, 3, 64, 0, 576, 192, 576, 384, 576, 0, 192, 0x3f800000, 1, 8, 14});
  Halves qkv = random.halves(96 * 576);
  for (const Mode mode : kModes) {
    Machine machine(mode);
    const auto kernel = machine.kernel(a, bytes_of(stream.data(), stream.size())).value();
    const auto in = machine.buffer(qkv);
    const auto out = machine.buffer(Halves(96 * 192));
    auto status = machine.run(*kernel, {in, in, in, out});
    assert_int_equal(static_cast<int>(status.code()),
                     static_cast<int>(npuseg::core::Code::kInvalidArgument));
    assert_non_null(std::strstr(status.message().c_str(), "window"));
    assert_true(kernel->patch(words).ok());
    assert_true(machine.run(*kernel, {in, in, in, out}).ok());
    compare_attention(a, qkv, halves_of(out), 54, mode);
    // One core left behind.
    const WordPatch half[] = {{8, 60}};
    assert_true(kernel->patch(half).ok());
    status = machine.run(*kernel, {in, in, in, out});
    assert_non_null(std::strstr(status.message().c_str(), "60 and 54"));
    for (const uint32_t keys : {0u, 97u}) {
      for (uint32_t core = 0; core < 32; ++core) words[2 * core].value = keys;
      assert_true(kernel->patch(words).ok());
      assert_false(machine.run(*kernel, {in, in, in, out}).ok());
    }
    for (uint32_t core = 0; core < 32; ++core) words[2 * core].value = 54;
    const WordPatch outside[] = {{8, 1}, {100000, 1}};
    assert_false(kernel->patch(outside).ok());
  }
}

void test_rope(void**) {
  Random random(3);
  const size_t shapes[][5] = {{5, 4, 64, 384, 256}, {1, 1, 2, 2, 2}, {13, 3, 10, 33, 41}};
  for (const auto& [rows, heads, dim, in_stride, out_stride] : shapes) {
    const Rope rope{rows, heads, dim, in_stride, out_stride};
    const Halves x = random.halves((rows - 1) * in_stride + heads * dim);
    const Halves table = random.halves(rows * dim);
    Machine machine(Mode::kFast);
    const auto y = machine.buffer(Halves((rows - 1) * out_stride + heads * dim));
    assert_true(machine.run(rope, {machine.buffer(x), machine.buffer(table), y}).ok());
    const Halves found = halves_of(y);
    for (size_t r = 0; r < rows; ++r) {
      for (size_t i = 0; i < heads * dim; ++i) {
        const size_t d = i % dim;
        const size_t half = dim / 2;
        const double cosine = wide(table[r * dim + 2 * (d % half)]);
        const double sine = wide(table[r * dim + 2 * (d % half) + 1]);
        const double own = wide(x[r * in_stride + i]);
        const double other = wide(x[r * in_stride + (d < half ? i + half : i - half)]);
        const double expected = own * cosine + (d < half ? -other : other) * sine;
        assert_int_equal(found[r * out_stride + i], stored(expected));
      }
    }
  }
}

void test_add_norm(void**) {
  Random random(4);
  for (const bool wide_residual : {false, true}) {
    for (const auto& [rows, columns] : {std::pair<size_t, size_t>{7, 128}, {1, 1}, {3, 77}}) {
      const AddNorm norm{rows, columns, 1e-6f, wide_residual};
      const std::vector<float> x = random.floats(rows * columns, -3.0f, 3.0f);
      const Halves delta = random.halves(rows * columns);
      Halves narrow(x.size());
      for (size_t i = 0; i < x.size(); ++i) narrow[i] = npuseg::core::to_bf16(x[i]);
      for (const Mode mode : kModes) {
        Machine machine(mode);
        const auto in = wide_residual ? machine.buffer(x) : machine.buffer(narrow);
        const auto out = machine.buffer(Bytes(in.bytes));
        const auto h = machine.buffer(Halves(delta.size()));
        assert_true(machine.run(norm, {in, machine.buffer(delta), out, h}).ok());
        const Halves found = halves_of(h);
        Difference difference;
        for (size_t r = 0; r < rows; ++r) {
          std::vector<double> sums(columns);
          double mean = 0.0;
          for (size_t i = 0; i < columns; ++i) {
            const size_t at = r * columns + i;
            if (wide_residual) {
              float sum = 0.0f;
              std::memcpy(&sum, out.buffer->map().data() + at * 4, 4);
              assert_true(sum == x[at] + npuseg::core::from_bf16(delta[at]));
              sums[i] = static_cast<double>(sum);
            } else {
              const uint16_t sum = halves_of(out)[at];
              assert_int_equal(sum, stored(wide(narrow[at]) + wide(delta[at])));
              sums[i] = wide(sum);
            }
            mean += sums[i] / static_cast<double>(columns);
          }
          double variance = 0.0;
          for (const double sum : sums) {
            variance += (sum - mean) * (sum - mean) / static_cast<double>(columns);
          }
          for (size_t i = 0; i < columns; ++i) {
            const double scale = 1.0 / std::sqrt(variance + 1e-6);
            compare(found[r * columns + i], {(sums[i] - mean) * scale, 8.0 * scale}, columns,
                    &difference);
          }
        }
        assert_int_equal(difference.wrong, 0);
        if (mode == Mode::kFaithful) assert_true(difference.unequal <= difference.values / 500);
      }
    }
  }
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(test_attention),    cmocka_unit_test(test_padded_heads),
      cmocka_unit_test(test_patched_keys), cmocka_unit_test(test_rope),
      cmocka_unit_test(test_add_norm),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}

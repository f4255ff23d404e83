// SPDX-License-Identifier: Apache-2.0
// Attention against a double softmax: odd sizes, strides, causal, radius and grid bias, shared key
// heads, sequences of different lengths, several key blocks, large logits, out in place of query,
// the same bytes for any thread count, a prompt stop.
#include "compute/attention.h"

#include "compute/elementwise.h"
#include "reference.h"
// Behind all others.
#include "cmocka_cpp.h"

namespace {

using namespace npuseg::test;
using npuseg::compute::Attention;

struct Case {
  size_t batch, queries, keys, heads, dim;
  bool causal = false;
  size_t grid_width = 0;  // 0: no bias
  float largest = 1.0f;   // of q and k
  bool in_place = false;
  size_t key_heads = 0;  // 0: heads
  size_t radius = SIZE_MAX;
};

class AttentionCase {
 public:
  explicit AttentionCase(const Case& c)
      : c_(c),
        width_(c.heads * c.dim),
        key_width_((c.key_heads == 0 ? c.heads : c.key_heads) * c.dim),
        q_((c.batch * c.queries - 1) * (width_ + 3) + width_),
        k_((c.batch * c.keys - 1) * (key_width_ + 1) + key_width_),
        v_((c.batch * c.keys - 1) * (2 * key_width_) + key_width_) {
    Random random(c.queries * 31 + c.keys + c.dim);
    fill(q_, random, -c.largest, c.largest);
    fill(k_, random, -c.largest, c.largest);
    fill(v_, random);
    if (c.grid_width != 0) {
      bias_y_.resize(c.heads * c.queries * (c.keys / c.grid_width));
      bias_x_.resize(c.heads * c.queries * c.grid_width);
      fill(bias_y_, random, -3.0f, 3.0f);
      fill(bias_x_, random, -3.0f, 3.0f);
    }
  }

  std::vector<float> run(int threads) {
    OnThreads on(threads);
    std::vector<float> query(q_.data(), q_.data() + q_.size());
    std::vector<float> out(q_.size(), -7.0f);
    Attention args;
    args.query = c_.in_place ? query.data() : q_.data();
    args.key = k_.data();
    args.value = v_.data();
    args.out = c_.in_place ? query.data() : out.data();
    args.query_stride = args.out_stride = width_ + 3;
    args.key_stride = key_width_ + 1;
    args.value_stride = 2 * key_width_;
    args.batch = c_.batch;
    args.queries = c_.queries;
    args.keys = c_.keys;
    args.heads = c_.heads;
    args.head_dim = c_.dim;
    args.scale = scale();
    args.causal = c_.causal;
    args.key_heads = c_.key_heads;
    args.radius = c_.radius;
    if (c_.grid_width != 0) {
      args.bias_y = bias_y_.data();
      args.bias_x = bias_x_.data();
      args.grid_width = c_.grid_width;
      args.grid_height = c_.keys / c_.grid_width;
    }
    assert_true(npuseg::compute::attention(on.exec, args).ok());
    return c_.in_place ? query : out;
  }

  void check(const std::vector<float>& out) const {
    Worst worst;
    for (size_t b = 0; b < c_.batch; ++b) {
      for (size_t h = 0; h < c_.heads; ++h) {
        for (size_t i = 0; i < c_.queries; ++i) check_query(out, b, h, i, &worst);
      }
    }
    assert_true(worst.within("attention"));
  }

 private:
  float scale() const { return 1.0f / std::sqrt(static_cast<float>(c_.dim)); }

  void check_query(const std::vector<float>& out, size_t b, size_t h, size_t i,
                   Worst* worst) const {
    const size_t begin = i > c_.radius ? i - c_.radius : 0;
    size_t end = c_.causal ? std::min(c_.keys, i + 1) : c_.keys;
    if (c_.radius < c_.keys) end = std::min(end, i + c_.radius + 1);
    const size_t visible = end - begin;
    const size_t key_head = c_.key_heads == 0 ? h : h / (c_.heads / c_.key_heads);
    const float* q = q_.data() + (b * c_.queries + i) * (width_ + 3) + h * c_.dim;
    std::vector<double> score(visible);
    double largest = -1e300;
    double score_error = 0.0;
    for (size_t n = 0; n < visible; ++n) {
      const size_t j = begin + n;
      const float* k = k_.data() + (b * c_.keys + j) * (key_width_ + 1) + key_head * c_.dim;
      double sum = 0.0;
      double size = 0.0;
      for (size_t d = 0; d < c_.dim; ++d) {
        sum += static_cast<double>(q[d]) * k[d];
        size += std::fabs(static_cast<double>(q[d]) * k[d]);
      }
      const double s = static_cast<double>(scale());
      score[n] = sum * s;
      size *= s;
      double bias = 0.0;
      if (c_.grid_width != 0) {
        const size_t row = h * c_.queries + i;
        const size_t y = j / c_.grid_width;
        bias = static_cast<double>(bias_y_[row * (c_.keys / c_.grid_width) + y]) +
               bias_x_[row * c_.grid_width + j % c_.grid_width];
        score[n] += bias;
      }
      largest = std::max(largest, score[n]);
      // Product, scale, the two additions of the bias, and (below) minus the maximum.
      score_error = std::max(score_error, size * (sum_error(c_.dim) + 2 * kU) +
                                              2 * kU * (std::fabs(bias) + std::fabs(score[n])));
    }
    double total = 0.0;
    for (double& s : score) {
      // A difference of 40 weighs 4e-18: what is below does not count.
      score_error = std::max(score_error, kU * std::min(largest - s, 40.0));
      s = std::exp(s - largest);
      total += s;
    }
    // Scores appear above and below the line, so does exp (2 ulp), and both sums run over keys;
    // a block of keys adds a rescaling of 4 roundings to each.
    const auto blocks = static_cast<double>(c_.keys / 256 + 1);
    const double relative =
        2.0 * score_error + (8.0 + 8.0 * blocks) * kU + 2.0 * sum_error(visible) + 2.0 * kU;
    for (size_t d = 0; d < c_.dim; ++d) {
      double sum = 0.0;
      double size = 0.0;
      for (size_t n = 0; n < visible; ++n) {
        const float v = v_[(b * c_.keys + begin + n) * 2 * key_width_ + key_head * c_.dim + d];
        sum += score[n] / total * v;
        size += score[n] / total * std::fabs(static_cast<double>(v));
      }
      worst->add(out[(b * c_.queries + i) * (width_ + 3) + h * c_.dim + d], sum,
                 size * relative + 1e-30);
    }
  }

  Case c_;
  size_t width_;
  size_t key_width_;
  Guarded<float> q_;
  Guarded<float> k_;
  Guarded<float> v_;
  std::vector<float> bias_y_;
  std::vector<float> bias_x_;
};

void run_case(const Case& c) {
  AttentionCase one(c);
  const std::vector<float> first = one.run(1);
  one.check(first);
  for (const int threads : kThreadCounts) {
    const std::vector<float> again = one.run(threads);
    assert_memory_equal(again.data(), first.data(), first.size() * sizeof(float));
  }
}

void test_sizes(void**) {
  run_case({1, 1, 1, 1, 4});
  run_case({2, 7, 13, 3, 8});
  run_case({1, 129, 17, 2, 20});
  run_case({3, 65, 641, 1, 64});
  run_case({1, 201, 1300, 2, 32});
  run_case({4, 144, 144, 2, 64});
  run_case({1, 300, 32, 2, 5});
}

void test_causal(void**) {
  run_case({1, 32, 32, 4, 16, true});
  run_case({2, 77, 77, 2, 16, true});
  // Several key blocks, of which the first queries of a tile see only one.
  run_case({1, 1000, 1000, 1, 8, true});
  // More queries than keys and the other way round.
  run_case({1, 40, 9, 1, 4, true});
  run_case({1, 9, 40, 1, 4, true});
}

void test_grid_bias(void**) {
  run_case({1, 5, 12, 2, 8, false, 4});
  run_case({1, 201, 30 * 24, 2, 32, false, 24});
  run_case({1, 33, 37 * 41, 1, 16, false, 41});
}

void test_large_logits(void**) {
  // Logits up to 3e4, one key takes all: exp must neither overflow nor lose the maximum.
  run_case({1, 50, 700, 2, 32, false, 0, 120.0f});
  run_case({1, 90, 90, 1, 16, true, 0, 120.0f});
}

void test_in_place(void**) {
  run_case({1, 300, 700, 2, 16, false, 0, 1.0f, true});
  run_case({2, 37, 37, 3, 8, true, 0, 1.0f, true});
}

void test_shared_key_heads(void**) {
  run_case({2, 37, 37, 4, 16, false, 0, 1.0f, false, 2});
  run_case({1, 70, 300, 4, 512, false, 0, 1.0f, false, 1});
}

void test_radius(void**) {
  run_case({1, 30, 30, 2, 8, false, 0, 1.0f, false, 0, 0});
  run_case({1, 30, 30, 2, 8, false, 0, 1.0f, false, 0, 29});
  run_case({2, 61, 61, 4, 16, false, 0, 1.0f, true, 2, 7});
  // Whole key blocks in front of and behind what a tile sees.
  run_case({1, 2000, 2000, 1, 8, false, 0, 1.0f, false, 0, 100});
  run_case({1, 700, 700, 2, 256, false, 0, 1.0f, false, 1, 33});
  run_case({1, 900, 900, 1, 8, true, 0, 1.0f, false, 0, 50});
}

// Sequences of different lengths in one call give the bytes that each gives alone.
void test_sequences(void**) {
  const std::vector<size_t> starts = {0, 1, 1, 38, 700, 703};
  constexpr size_t kWidth = 3 * 24;
  std::vector<float> qkv(starts.back() * 3 * kWidth);
  Random random(5);
  fill(qkv, random);
  const auto run = [&](size_t first, size_t batch, const size_t* at) {
    std::vector<float> out(qkv.size() / 3, 0.0f);
    OnThreads on(2);
    Attention args;
    const float* rows = qkv.data() + first * 3 * kWidth;
    args.query = rows;
    args.key = rows + kWidth;
    args.value = rows + 2 * kWidth;
    args.out = out.data() + first * kWidth;
    args.query_stride = args.key_stride = args.value_stride = 3 * kWidth;
    args.out_stride = kWidth;
    args.batch = batch;
    if (at == nullptr) {
      args.queries = args.keys = *std::upper_bound(starts.begin(), starts.end(), first) - first;
    }
    args.starts = at;
    args.heads = 3;
    args.head_dim = 24;
    args.radius = 20;
    assert_true(npuseg::compute::attention(on.exec, args).ok());
    return out;
  };
  const std::vector<float> together = run(0, starts.size() - 1, starts.data());
  for (size_t i = 0; i + 1 < starts.size(); ++i) {
    if (starts[i] == starts[i + 1]) continue;
    const std::vector<float> alone = run(starts[i], 1, nullptr);
    assert_memory_equal(alone.data() + starts[i] * kWidth, together.data() + starts[i] * kWidth,
                        (starts[i + 1] - starts[i]) * kWidth * sizeof(float));
  }
}

void test_stop(void**) {
  const size_t tokens = 5184;
  const size_t width = 1024;
  std::vector<float> q(tokens * width, 0.1f);
  std::vector<float> out(tokens * width, NAN);
  Stopper stopper;
  npuseg::core::Call call(stopper.options());
  npuseg::compute::Exec exec;
  exec.call = &call;
  Attention args;
  args.query = args.key = args.value = q.data();
  args.out = out.data();
  args.query_stride = args.key_stride = args.value_stride = args.out_stride = width;
  args.queries = args.keys = tokens;
  args.heads = 16;
  args.head_dim = 64;
  const auto status = npuseg::compute::attention(exec, args);
  const double took = Stopper::now() - stopper.begin;
  assert_true(status.code() == npuseg::core::Code::kCancelled);
  // Two threads finish a block of keys each after the request; 144 tiles have 11.
  print_message("stopped %.1f ms after the request\n", took - stopper.after_ms);
  assert_true(written_share(out) < 0.25);
}

}  // namespace

int main() {
  npuseg::compute::apply_isa_limit();
  const CMUnitTest tests[] = {
      cmocka_unit_test(test_sizes),     cmocka_unit_test(test_causal),
      cmocka_unit_test(test_grid_bias), cmocka_unit_test(test_large_logits),
      cmocka_unit_test(test_in_place),  cmocka_unit_test(test_shared_key_heads),
      cmocka_unit_test(test_radius),    cmocka_unit_test(test_sequences),
      cmocka_unit_test(test_stop),
  };
  return on_every_target(
      [&] { return cmocka_run_group_tests_name("compute/attention", tests, nullptr, nullptr); });
}

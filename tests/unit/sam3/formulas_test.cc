// SPDX-License-Identifier: Apache-2.0
// Unit constants of the SAM 3 formulas (spec sam3-model.md, section 24): rotary tables, sine
// positions, position bias scale, inverse sigmoid, RoI align. Where ports of this model went wrong.
#include <cmath>
#include <vector>

#include "model/sam3/constants.h"
#include "model/sam3/detr_decoder.h"
#include "model/sam3/positions.h"
#include "model/sam3/roi_align.h"
// Behind all others.
#include "cmocka_cpp.h"

namespace {

using npuseg::sam3::RopeTable;

void assert_near(double got, double want, double bound) {
  if (!(std::fabs(got - want) <= bound)) {
    print_error("got %.9g, want %.9g within %.3g\n", got, want, bound);
    fail();
  }
}

// The constants are float32 evaluations printed with seven decimals; an argument of up to 24 in
// float32 is off by 1e-6 at most, ours is exact.
constexpr double kPrinted = 1.1e-6;

void check_rope(const RopeTable& table, size_t side, const double (&cosine)[6],
                const double (&sine)[6]) {
  const size_t row = 7 * side + 5;  // x = 5, y = 7
  const size_t channels[6] = {0, 2, 30, 32, 34, 62};
  for (size_t i = 0; i < 6; ++i) {
    assert_near(static_cast<double>(table.cosine[row * 32 + channels[i] / 2]), cosine[i], kPrinted);
    assert_near(static_cast<double>(table.sine[row * 32 + channels[i] / 2]), sine[i], kPrinted);
  }
}

void test_rope_tables(void**) {
  check_rope(npuseg::sam3::make_rope_table(72, 1.0 / 3.0, 64, 10000.0), 72,
             {-.0957236, .5920182, .9999999, -.6907582, .2557916, .9999999},
             {.9954079, .8059246, .0002964, .7230858, .9667320, .0004149});
  check_rope(npuseg::sam3::make_rope_table(24, 1.0, 64, 10000.0), 24,
             {.2836622, -.9460793, .9999996, .7539023, -.7004298, .9999992},
             {-.9589243, .3239353, .0008891, .6569866, -.7137213, .0012448});
}

void test_sine_positions(void**) {
  const std::vector<float> pos = npuseg::sam3::make_sine_positions(72, 256);
  const double first[4] = {.0871557, .9961947, .0754978, .9971460};
  for (size_t i = 0; i < 4; ++i) {
    assert_near(static_cast<double>(pos[i]), first[i], kPrinted);
    assert_near(static_cast<double>(pos[128 + i]), first[i], kPrinted);
  }
  const float* cell = pos.data() + (10 * 72 + 20) * 256;
  const double y[4] = {.8191521, .5735765, .7387853, .6739409};
  const double x[4] = {.9659258, -.2588190, .9998693, -.0161655};
  for (size_t i = 0; i < 4; ++i) {
    assert_near(static_cast<double>(cell[i]), y[i], kPrinted);
    assert_near(static_cast<double>(cell[128 + i]), x[i], kPrinted);
  }
  assert_near(static_cast<double>(cell[126]), .000110851, 1e-8);
  assert_near(static_cast<double>(cell[127]), 1.0, kPrinted);
}

void test_log_scale(void**) {
  const double pairs[6][2] = {{-1, -1.0566417}, {-.25, -.5283208}, {0, 0},
                              {.01, .0370104},  {.5, .7739760},    {1, 1.0566417}};
  for (const auto& pair : pairs) {
    // Two float operations of relative error 2^-24 each on values up to about 1.1.
    assert_near(static_cast<double>(npuseg::sam3::log_scale(static_cast<float>(pair[0]))), pair[1],
                2e-7);
  }
}

void test_inverse_sigmoid(void**) {
  const double pairs[7][2] = {{-1, -6.9077554},   {0, -6.9077554}, {.0005, -6.9072552}, {.5, 0},
                              {.9995, 6.9072552}, {1, 6.9077554},  {2, 6.9077554}};
  for (const auto& pair : pairs) {
    // One ulp of the argument 0.9995 moves the clamped quotient by 6e-8 relative, the logarithm by
    // an ulp of 7 (4.8e-7).
    assert_near(static_cast<double>(npuseg::sam3::inverse_sigmoid(static_cast<float>(pair[0]))),
                pair[1], 1e-6);
  }
}

void check_roi(float x0, float y0, float x1, float y1, const double (&want)[9]) {
  std::vector<float> map(64);
  for (size_t i = 0; i < 64; ++i) map[i] = static_cast<float>(i);
  const float box[4] = {x0, y0, x1, y1};
  float out[9];
  npuseg::sam3::roi_align({map.data(), 64, 1, 1}, 8, 8, box, 3, out);
  for (size_t i = 0; i < 9; ++i) assert_near(static_cast<double>(out[i]), want[i], 2e-5);
}

void test_roi_align(void**) {
  check_roi(1, 1, 6, 5,
            {15.16667, 16.83333, 18.5, 25.83334, 27.5, 29.16667, 36.5, 38.16667, 39.83333});
  check_roi(2, 2, 2.3f, 2.3f,
            {19.5, 19.83333, 20.16667, 22.16666, 22.5, 22.83333, 24.83333, 25.16667, 25.5});
  check_roi(-3, -2, 4, 9, {0, 3.44444, 5.125, 0, 28.59259, 30.83333, 0, 39.44445, 41.125});
  check_roi(-80, -80, -80, -80, {0, 0, 0, 0, 0, 0, 0, 0, 0});
}

void test_window_order(void**) {
  npuseg::checkpoint::Sam3Config config;
  config.vit.image_size = 112;
  config.vit.window_size = 3;  // 8 x 8 grid in windows of 3: padded to 9 x 9
  const npuseg::sam3::Constants constants(config);
  assert_int_equal(constants.windows, 9);
  assert_int_equal(constants.from_window.size(), 81);
  size_t padding = 0;
  for (size_t row = 0; row < 81; ++row) {
    const int32_t token = constants.from_window[row];
    if (token < 0) {
      ++padding;
    } else {
      assert_int_equal(constants.to_window[static_cast<size_t>(token)], row);
    }
  }
  assert_int_equal(padding, 17);
  // Token (y 3, x 4) is cell (0, 1) of window (1, 1).
  assert_int_equal(constants.to_window[3 * 8 + 4], 4 * 9 + 1);
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(test_rope_tables), cmocka_unit_test(test_sine_positions),
      cmocka_unit_test(test_log_scale),   cmocka_unit_test(test_inverse_sigmoid),
      cmocka_unit_test(test_roi_align),   cmocka_unit_test(test_window_order),
  };
  return cmocka_run_group_tests_name("sam3 formulas", tests, nullptr, nullptr);
}

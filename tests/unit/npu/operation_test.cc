// SPDX-License-Identifier: Apache-2.0
// What operations say of themselves: the reach of views, arguments, work labels.
#include "npu/device.h"
// Behind all others.
#include "cmocka_cpp.h"

namespace {

using namespace npuseg::npu;

void test_gemm(void**) {
  Gemm gemm;
  gemm.rows = 32;
  gemm.k = 128;
  gemm.n = 192;
  gemm.lda = 128;
  gemm.c_stride = 192;
  assert_int_equal(gemm.a_elements(), 32 * 128);
  assert_int_equal(gemm.c_elements(), 32 * 192);
  assert_int_equal(operation_count(gemm), 2 * 32 * 128 * 192);
  assert_int_equal(argument_count(gemm), 3);
  assert_int_equal(written_arguments(gemm), 4);
  // The 3x3 convolution of sam3: rows of 12 c over pixels of 6 c.
  gemm.k = 768;
  gemm.lda = 384;
  assert_int_equal(gemm.a_elements(), 31 * 384 + 768);
  // Pairs leave half of the columns.
  gemm.pair = true;
  gemm.c_stride = 100;
  assert_int_equal(gemm.out_columns(), 96);
  assert_int_equal(gemm.c_elements(), 31 * 100 + 96);
}

void test_attention(void**) {
  Attention attention;
  attention.windows = 4;
  attention.length = 16;
  attention.heads = 2;
  attention.head_dim = 64;
  attention.k = {128, 256};
  assert_int_equal(attention.elements(attention.k), 128 + 63 * 256 + 128);
  assert_int_equal(operation_count(attention), 4 * 4 * 2 * 16 * 16 * 64);
  assert_int_equal(argument_count(attention), 4);
  assert_int_equal(written_arguments(attention), 8);
}

void test_others(void**) {
  assert_int_equal(argument_count(Rope{}), 3);
  assert_int_equal(written_arguments(Rope{}), 4);
  assert_int_equal(operation_count(Rope{}), 0);
  assert_int_equal(argument_count(AddNorm{}), 4);
  assert_int_equal(written_arguments(AddNorm{}), 12);
  assert_string_equal(operation_name(AddNorm{}), "add and norm");
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(test_gemm),
      cmocka_unit_test(test_attention),
      cmocka_unit_test(test_others),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}

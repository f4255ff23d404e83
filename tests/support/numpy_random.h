// SPDX-License-Identifier: Apache-2.0
// NumPy's default_rng(seed) for the few calls that tests/oracle/make_bundle.py makes: float32
// normal values and bytes, the same bits. Generator PCG64 (XSL RR), seeding by SeedSequence, normal
// values by a ziggurat of 256 layers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace npuseg::test {

class NumpyRandom {
 public:
  explicit NumpyRandom(uint32_t seed);

  float normal();
  std::string bytes(size_t count);

 private:
  __extension__ using Wide = unsigned __int128;

  void step();
  uint64_t next64();
  uint32_t next32();
  float next_float();

  Wide state_ = 0;
  Wide increment_ = 0;
  bool has_half_ = false;
  uint32_t half_ = 0;
};

}  // namespace npuseg::test

// SPDX-License-Identifier: Apache-2.0
#include "numpy_random.h"

#include <cmath>

namespace npuseg::test {

namespace {

// Layer i reaches to edge x[i]; below within[i] a 23-bit number is inside without further tests.
struct Ziggurat {
  static constexpr long double kEdge = 3.6541528853610088L;
  uint32_t within[256];
  float width[256];
  float height[256];

  Ziggurat() {
    const auto density = [](long double x) { return std::exp(-x * x / 2); };
    const long double root = std::sqrt(2.0L);
    const long double area =
        kEdge * density(kEdge) + std::sqrt(std::acos(-1.0L) / 2) * std::erfc(kEdge / root);
    const long double scale = 8388608.0L;
    long double x = kEdge;
    within[0] = static_cast<uint32_t>(std::round(kEdge * density(kEdge) / area * scale));
    within[1] = 0;
    width[0] = static_cast<float>(area / density(kEdge) / scale);
    height[0] = 1.0f;
    width[255] = static_cast<float>(kEdge / scale);
    height[255] = static_cast<float>(density(kEdge));
    for (size_t i = 254; i >= 1; --i) {
      const long double outer = x;
      x = std::sqrt(-2 * std::log(area / outer + density(outer)));
      within[i + 1] = static_cast<uint32_t>(std::round(x / outer * scale));
      width[i] = static_cast<float>(x / scale);
      height[i] = static_cast<float>(density(x));
    }
  }
};

}  // namespace

NumpyRandom::NumpyRandom(uint32_t seed) {
  constexpr uint32_t kShift = 16;
  uint32_t pool[4] = {seed, 0, 0, 0};
  uint32_t factor = 0x43b0d7e5u;
  const auto hash = [&](uint32_t value) {
    value ^= factor;
    factor *= 0x931e8875u;
    value *= factor;
    return value ^ (value >> kShift);
  };
  for (uint32_t& word : pool) word = hash(word);
  for (size_t from = 0; from < 4; ++from) {
    for (size_t to = 0; to < 4; ++to) {
      if (from == to) continue;
      const uint32_t mixed = 0xca01f9ddu * pool[to] - 0x4973f715u * hash(pool[from]);
      pool[to] = mixed ^ (mixed >> kShift);
    }
  }
  uint32_t words[8];
  factor = 0x8b51f9ddu;
  for (size_t i = 0; i < 8; ++i) {
    uint32_t value = pool[i % 4] ^ factor;
    factor *= 0x58f38dedu;
    value *= factor;
    words[i] = value ^ (value >> kShift);
  }
  const auto wide = [&](size_t i) {
    const uint64_t high = words[i] | (uint64_t{words[i + 1]} << 32);
    const uint64_t low = words[i + 2] | (uint64_t{words[i + 3]} << 32);
    return (static_cast<Wide>(high) << 64) | low;
  };
  increment_ = (wide(4) << 1) | 1;
  step();
  state_ += wide(0);
  step();
}

void NumpyRandom::step() {
  constexpr Wide kFactor = (static_cast<Wide>(2549297995355413924u) << 64) | 4865540595714422341u;
  state_ = state_ * kFactor + increment_;
}

uint64_t NumpyRandom::next64() {
  step();
  const uint64_t mixed = static_cast<uint64_t>(state_ >> 64) ^ static_cast<uint64_t>(state_);
  const auto turn = static_cast<unsigned>(state_ >> 122);
  return (mixed >> turn) | (mixed << ((64 - turn) % 64));
}

uint32_t NumpyRandom::next32() {
  if (has_half_) {
    has_half_ = false;
    return half_;
  }
  const uint64_t next = next64();
  has_half_ = true;
  half_ = static_cast<uint32_t>(next >> 32);
  return static_cast<uint32_t>(next);
}

float NumpyRandom::next_float() { return static_cast<float>(next32() >> 8) * (1.0f / 16777216.0f); }

float NumpyRandom::normal() {
  static const Ziggurat table;
  constexpr auto kEdge = static_cast<float>(Ziggurat::kEdge);
  while (true) {
    const uint32_t random = next32();
    const size_t layer = random & 0xff;
    const uint32_t magnitude = (random >> 9) & 0x7fffff;
    float x = static_cast<float>(magnitude) * table.width[layer];
    if (((random >> 8) & 1) != 0) x = -x;
    if (magnitude < table.within[layer]) return x;
    if (layer == 0) {
      while (true) {
        const float beyond = -(1.0f / kEdge) * std::log1p(-next_float());
        const float height = -std::log1p(-next_float());
        if (height + height > beyond * beyond) {
          return ((magnitude >> 8) & 1) != 0 ? -(kEdge + beyond) : kEdge + beyond;
        }
      }
    }
    const float low = table.height[layer];
    const float at = (table.height[layer - 1] - low) * next_float() + low;
    if (double{at} < std::exp(-0.5 * double{x} * double{x})) return x;
  }
}

std::string NumpyRandom::bytes(size_t count) {
  std::string all;
  all.reserve(count + 3);
  while (all.size() < count) {
    const uint32_t word = next32();
    for (unsigned i = 0; i < 4; ++i) all.push_back(static_cast<char>(word >> (8 * i)));
  }
  all.resize(count);
  return all;
}

}  // namespace npuseg::test

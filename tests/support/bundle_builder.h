// SPDX-License-Identifier: Apache-2.0
// What the two makers of bundles share: tensors with an index, random weights, packed matrices,
// manifest lines, kernel files.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "bundle/bfp16.h"
#include "bundle_files.h"
#include "numpy_random.h"

namespace npuseg::test {

using Floats = std::vector<float>;

// A float32's bits as a stream's parameter.
uint32_t float_bits(float value);
std::string joined(const std::vector<size_t>& values);
// 1 / sqrt(n), as the weights are scaled.
inline double inverse_root(size_t n) { return 1.0 / std::sqrt(static_cast<double>(n)); }

struct GemmShape {
  size_t m = 0, lda = 0;
  bundle::PackedLayout b;
};

class BundleBuilder {
 public:
  BundleBuilder(uint32_t seed, const std::set<std::string>& drop) : random_(seed), drop_(drop) {}

  void line(const std::string& text);
  void param(const std::string& name, const std::string& value);
  void param(const std::string& name, size_t value) { param(name, std::to_string(value)); }
  void param(const std::string& name, const std::vector<size_t>& values) {
    param(name, joined(values));
  }
  void file(const std::string& path, const std::string& bytes) { out_.files[path] = bytes; }
  // kernels/<key>.xclbin with the next number.
  void xclbin(const std::string& key);

  void tensor(const std::string& name, const std::string& dtype, const std::vector<size_t>& shape,
              const std::string& bytes);
  void floats(const std::string& name, const std::vector<size_t>& shape, const Floats& values);
  void halves(const std::string& name, const std::vector<size_t>& shape, const Floats& values);
  void integers(const std::string& name, const std::vector<size_t>& shape,
                const std::vector<int32_t>& values);

  Floats random(size_t count, double deviation);
  void random_floats(const std::string& name, const std::vector<size_t>& shape, double deviation);
  void norm(const std::string& name, size_t size);  // .w around 1 and .b
  struct Linear {
    bool half = false;
    double gain = 1;
    const Floats* bias = nullptr;
  };
  void linear(const std::string& name, size_t out, size_t in, const Linear& how);
  void linear(const std::string& name, size_t out, size_t in) { linear(name, out, in, Linear{}); }

  std::map<std::string, GemmShape> gemms;
  // b [K, N] and bias are drawn where they are null and the kernel has them.
  void packed(const std::string& name, const std::string& key, const Floats* b = nullptr,
              const Floats* bias = nullptr, double deviation = 0);
  std::string pack(const bundle::PackedLayout& layout, const Floats& b, const Floats* bias);
  // Bytes drawn in place of numbers, as large matrices are made.
  std::string pack_noise(const bundle::PackedLayout& layout, double deviation, const Floats* bias);

  BundleFiles finish();

 private:
  [[nodiscard]] bool dropped(const std::string& text) const;

  NumpyRandom random_;
  std::set<std::string> drop_;
  BundleFiles out_;
  std::string blob_;
  std::string index_;
  std::string manifest_;
  uint32_t xclbins_ = 0;
};

// 120 x 90 pixels, byte k = u8v(k), as RGB bytes and as a PNG file without compression.
std::string test_picture(size_t width, size_t height);
std::string plain_png(size_t width, size_t height, const std::string& rgb);

}  // namespace npuseg::test

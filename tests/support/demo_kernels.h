// SPDX-License-Identifier: Apache-2.0
// Sizes of a bundle whose kernels fit the demo model of SAM 3.
#pragma once

#include <fstream>
#include <sstream>
#include <string>

#include "bundle_files.h"

namespace npuseg::test {

inline Sam3BundleOptions demo_kernels() {
  Sam3BundleOptions options;
  options.tracker = true;  // which a repacked bundle has not
  options.grid = 12;
  options.window = 6;
  options.vit_dim = 96;
  options.vit_heads = 4;
  options.vit_layers = 4;
  options.vit_ffn = 192;
  options.vit_ffn_pad = 224;
  options.vit_global = {1, 3};
  options.d_model = 64;
  options.d_heads = 4;
  options.d_layers = 2;
  options.d_ffn = 128;
  options.text_dim = 64;
  options.text_heads = 4;
  options.text_layers = 2;
  options.text_ffn = 96;
  options.queries = 24;
  options.dec_layers = 3;
  options.mid = 48;
  return options;
}

// With a picture and a text of the demo, whose folder this is, as the references.
inline BundleFiles kernels_for_demo(const Sam3BundleOptions& options, const std::string& demo) {
  BundleFiles files = make_sam3_bundle(options);
  std::ifstream picture(demo + "/samples/a.png", std::ios::binary);
  std::ostringstream bytes;
  bytes << picture.rdbuf();
  files.files["cases/a.png"] = bytes.str();
  files.replace_line("ref_image ", "ref_image cases/a.png");
  files.replace_line("ref_prompt ", "ref_prompt purple squares");
  return files;
}

}  // namespace npuseg::test

// SPDX-License-Identifier: Apache-2.0
// References of a synthetic SAM 3 bundle, as spec iron-bundle-sam3.md, 3.8 lists them: what its own
// stages give on the software NPU in faithful mode. Of the tiny bundle that is what the public
// program gives, which the unit test of the graph shows.
#pragma once

#include "bundle_files.h"

namespace npuseg::test {

// False, with a message on standard error, when the bundle does not run. `folder` is for its files
// meanwhile.
bool add_sam3_references(const std::string& folder, BundleFiles* bundle);

}  // namespace npuseg::test

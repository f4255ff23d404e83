// SPDX-License-Identifier: Apache-2.0
#include "handles.h"

#include <cstdio>

namespace cli {

int exit_of(npuseg_status status, int otherwise) {
  switch (status) {
    case NPUSEG_CANCELLED:
      return kInterrupted;
    case NPUSEG_OUT_OF_MEMORY:
      return kLimit;
    case NPUSEG_DEVICE_UNAVAILABLE:
    case NPUSEG_DEVICE_BUSY:
    case NPUSEG_DEVICE_LOST:
      return kDevice;
    default:
      return otherwise;
  }
}

void report(const std::string& message) {
  std::string line = message;
  for (char& c : line) {
    if (c == '\n' || c == '\r') c = ' ';
  }
  std::fprintf(stderr, "npuseg-cli: error: %s\n", line.c_str());
}

}  // namespace cli

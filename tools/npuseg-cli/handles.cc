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
  // One line, and nothing that a terminal would take for a command.
  for (char& c : line) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) c = ' ';
  }
  std::fprintf(stderr, "npuseg-cli: error: %s\n", line.c_str());
}

}  // namespace cli

// SPDX-License-Identifier: Apache-2.0
// npuseg-cli: the library from a shell, by its public header alone.
#include <npuseg.h>

#include <cstdio>
#include <exception>
#include <string>

#include "commands.h"
#include "handles.h"
#include "output.h"
#include "progress.h"

namespace {

int run(int argc, char** argv) {
  cli::catch_signals();
  cli::Options options;
  if (const int status = cli::parse(argc, argv, &options); status != cli::kDone) return status;
  if (options.version) {
    return cli::write_stdout(std::string("npuseg-cli ") + npuseg_version_string() + " (" +
                             npuseg_build_info() + ")\n")
               ? cli::kDone
               : cli::kInput;
  }
  if (options.help) {
    return cli::write_stdout(cli::help_text(options.command)) ? cli::kDone : cli::kInput;
  }
  if (options.command.empty()) {
    std::fputs(cli::usage_text(), stderr);
    return cli::kUsage;
  }
  if (options.command == "segment") return cli::run_segment(options);
  if (options.command == "embed") return cli::run_embed(options);
  if (options.command == "info") return cli::run_info(options);
  if (options.command == "devices") return cli::run_devices(options);
  if (options.command == "check") return cli::run_check(options);
  if (options.command == "verify") return cli::run_verify(options);
  if (options.command == "repack") return cli::run_repack(options);
  if (options.command == "doctor") {
    cli::report("wrong usage: doctor: is not in this version; see npuseg-cli --help");
    return cli::kUsage;
  }
  cli::report("wrong usage: " + options.command + ": unknown command; see npuseg-cli --help");
  return cli::kUsage;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::bad_alloc&) {
    cli::report("out of memory: npuseg-cli: no more could be had; free memory and try again");
    return cli::kLimit;
  } catch (const std::exception& error) {
    cli::report(std::string("internal error: npuseg-cli: ") + error.what() + "; please report it");
    return cli::kLimit;
  }
}

// SPDX-License-Identifier: Apache-2.0
// check, verify and repack: a report of the library, row by row.
#include <npuseg.h>

#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "commands.h"
#include "handles.h"
#include "json.h"
#include "model.h"
#include "output.h"
#include "progress.h"
#include "targets.h"

namespace cli {

namespace {

using Make = npuseg_status (*)(const char*, const npuseg_model_options*, npuseg_report**);

constexpr char kCheckFormat[] = "npuseg-check-1";
constexpr char kCheckPassed[] = "ALL CHECKS PASSED";

struct Reported {
  npuseg_report_data data{};
  std::vector<npuseg_row> rows;
};

const char* state_name(uint32_t state) {
  switch (state) {
    case NPUSEG_ROW_OK:
      return "ok";
    case NPUSEG_ROW_FAILED:
      return "failed";
    default:
      return "info";
  }
}

const char* compare_words(uint32_t compare) {
  switch (compare) {
    case NPUSEG_BOUND_AT_MOST:
      return "at most";
    case NPUSEG_BOUND_BELOW:
      return "below";
    case NPUSEG_BOUND_AT_LEAST:
      return "at least";
    case NPUSEG_BOUND_ABOVE:
      return "above";
    case NPUSEG_BOUND_EQUAL:
      return "equal to";
    default:
      return "";
  }
}

std::string short_number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.9g", value);
  return text;
}

bool has_value(const npuseg_row& row) {
  return row.compare != NPUSEG_BOUND_NONE || !std::isnan(row.value);
}

std::string row_text(const npuseg_row& row) {
  std::string text = row.state == NPUSEG_ROW_OK       ? "  [ok]   "
                     : row.state == NPUSEG_ROW_FAILED ? "  [FAIL] "
                                                      : "  [info] ";
  text += std::string(row.subject) + ": " + row.name + ":";
  if (has_value(row)) text += " " + short_number(row.value);
  if (row.detail[0] != '\0') text += std::string(has_value(row) ? " (" : " ") + row.detail;
  if (row.compare != NPUSEG_BOUND_NONE) {
    text += std::string(row.detail[0] != '\0' ? "; " : " (") + compare_words(row.compare) + " " +
            short_number(row.bound);
  }
  if (has_value(row) && (row.detail[0] != '\0' || row.compare != NPUSEG_BOUND_NONE)) text += ")";
  // One line a row, whatever a file is called.
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) c = ' ';
  }
  return text + "\n";
}

std::string report_text(const Reported& reported, const char* all_well) {
  std::string text;
  std::string failed;
  for (const npuseg_row& row : reported.rows) {
    text += row_text(row);
    if (row.state != NPUSEG_ROW_FAILED) continue;
    failed += (failed.empty() ? "" : ", ") + std::string(row.subject) + " " + row.name;
  }
  return text + (failed.empty() ? std::string(all_well) : "FAILED: " + failed) + "\n";
}

std::string report_json(const Options& options, const std::string& path, const char* format,
                        const Reported& reported) {
  JsonWriter json;
  json.open('{').key("format").text(format).key("library").text(npuseg_version_string());
  json.key("model").open('{').key("kind").text(reported.data.kind);
  json.key("source").text(reported.data.source);
  json.key("path").text(path).close('}');
  if (reported.data.device_used[0] != '\0') {
    json.key("device").open('{').key("asked").text(options.device);
    json.key("used").text(reported.data.device_used);
    json.key("why").text(reported.data.device_why).close('}');
  }
  json.key("passed").boolean(reported.data.failures == 0);
  json.key("failures").number(uint64_t{reported.data.failures}).key("rows").open('[');
  for (const npuseg_row& row : reported.rows) {
    json.open('{').key("subject").text(row.subject).key("name").text(row.name);
    json.key("state").text(state_name(row.state));
    if (has_value(row)) json.key("value").number(row.value);
    if (row.compare != NPUSEG_BOUND_NONE) {
      json.key("compare").text(compare_words(row.compare)).key("bound").number(row.bound);
    }
    json.key("detail").text(row.detail).close('}');
  }
  json.close(']').close('}');
  return json.str();
}

npuseg_status read_report(const npuseg_report* report, Reported* out) {
  out->data.struct_size = sizeof out->data;
  npuseg_status status = npuseg_report_info(report, &out->data);
  for (uint32_t i = 0; status == NPUSEG_OK && i < out->data.rows; ++i) {
    npuseg_row row{};
    row.struct_size = sizeof row;
    status = npuseg_report_row(report, i, &row);
    out->rows.push_back(row);
  }
  return status;
}

int wrong_usage(const Options& options, const char* why) {
  report("wrong usage: " + options.command + ": " + why + "; see npuseg-cli " + options.command +
         " --help");
  return kUsage;
}

int run_report(const Options& options, const std::string& path, Make make, const char* format,
               const char* all_well) {
  Progress progress(options.progress && !options.quiet);
  const npuseg_model_options wanted = model_options(options, false, &progress);
  npuseg_report* made = nullptr;
  progress.begin(path);
  npuseg_status status = make(path.c_str(), &wanted, &made);
  progress.end();
  const std::unique_ptr<npuseg_report, Releaser> held(made);
  if (status == NPUSEG_CANCELLED) return stopped();
  if (status != NPUSEG_OK) return load_failed(options, status);
  Reported reported;
  status = read_report(made, &reported);
  if (status != NPUSEG_OK) return load_failed(options, status);
  bool written = true;
  if (!options.json.empty()) {
    written = emit_json(options, report_json(options, path, format, reported));
  }
  if (!options.json_to_stdout()) written = write_stdout(report_text(reported, all_well)) && written;
  if (!written) return kInput;
  return reported.data.failures == 0 ? kDone : kModel;
}

// Kernels without a reference picture leave nothing to check the new bundle against but its files.
npuseg_status check_or_verify(const char* bundle, const npuseg_model_options* options,
                              npuseg_report** report) {
  const npuseg_status status = npuseg_check(bundle, options, report);
  return status == NPUSEG_WRONG_STATE ? npuseg_verify(bundle, options, report) : status;
}

int run_on_model(const Options& options, Make make, const char* format, const char* all_well) {
  if (options.positional.size() != 1) return wrong_usage(options, "takes one MODEL");
  if (const int status = check_targets(options); status != kDone) return status;
  return run_report(options, options.positional[0], make, format, all_well);
}

}  // namespace

int run_check(const Options& options) {
  return run_on_model(options, &npuseg_check, kCheckFormat, kCheckPassed);
}

int run_verify(const Options& options) {
  return run_on_model(options, &npuseg_verify, "npuseg-verify-1", "ALL FILES VERIFIED");
}

int run_repack(const Options& given) {
  Options options = given;
  std::string& made = options.overlay;
  while (made.size() > 1 && made.back() == '/') made.pop_back();
  if (options.positional.size() != 1) return wrong_usage(options, "takes one CHECKPOINT");
  if (options.kernels.empty()) return wrong_usage(options, "takes --kernels BUNDLE");
  if (made.empty()) return wrong_usage(options, "takes -o NEW");
  if (const int status = check_targets(options); status != kDone) return status;
  {
    Progress progress(options.progress && !options.quiet);
    const npuseg_model_options wanted = model_options(options, false, &progress);
    progress.begin(made);
    const npuseg_status status = npuseg_repack(options.positional[0].c_str(),
                                               options.kernels.c_str(), made.c_str(), &wanted);
    progress.end();
    if (status == NPUSEG_CANCELLED) return stopped();
    if (status != NPUSEG_OK) return load_failed(options, status);
  }
  return run_report(options, made, &check_or_verify, kCheckFormat, kCheckPassed);
}

}  // namespace cli

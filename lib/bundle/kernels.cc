// SPDX-License-Identifier: Apache-2.0
#include "bundle/kernels.h"

namespace npuseg::bundle {

using core::Result;

Result<KernelFiles> read_kernel_files(const Record& record, bool by_context,
                                      const Manifest& manifest) {
  NPUSEG_RETURN_IF_ERROR(record.need_fields(1));
  KernelFiles files;
  files.key = record.field(0);
  files.line = record.line();
  if (by_context) {
    NPUSEG_ASSIGN_OR_RETURN(const std::string context, record.value("ctx"));
    const auto at = manifest.xclbins().find(context);
    if (at == manifest.xclbins().end()) {
      return record.refuse(record.tag() + " " + files.key + " runs on unknown xclbin " + context);
    }
    files.xclbin = at->second.file;
    files.kernel_name = at->second.kernel_name;
  } else {
    NPUSEG_ASSIGN_OR_RETURN(files.xclbin, record.path("xclbin"));
    const std::string* name = record.find("name");
    files.kernel_name = name == nullptr ? "MLIR_AIE" : *name;
  }
  NPUSEG_ASSIGN_OR_RETURN(files.insts, record.path("insts"));
  return files;
}

}  // namespace npuseg::bundle

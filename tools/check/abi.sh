#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The binary interface of a built library against the committed one (abi/baseline/):
#   abi.sh LIBRARY            fails when a program built against the baseline could break
#   abi.sh --update LIBRARY   writes the baseline; CONTRIBUTING.md says when
# The library must hold debug information of lib/api (RelWithDebInfo, as the preset dev builds it).
set -eu
update=no
if [ "${1:-}" = --update ]; then
  update=yes
  shift
fi
[ $# = 1 ] || { echo "usage: abi.sh [--update] LIBRARY" >&2; exit 2; }
root=$(cd "$(dirname "$0")/../.." && pwd)
library=$1
baseline="$root/abi/baseline/libnpuseg-x86_64.abi"

if [ "$(uname -m)" != x86_64 ]; then
  echo "check_abi: the baseline is that of x86_64; skipped here"
  exit 77
fi
for tool in abidw abidiff readelf; do
  if ! command -v $tool > /dev/null; then
    echo "check_abi: $tool is missing; run tools/setup test (abigail-tools, binutils)" >&2
    exit 1
  fi
done
if ! readelf -SW "$library" | grep -q '\.debug_info'; then
  echo "check_abi: $library: has no debug information, so types cannot be seen; skipped"
  exit 77
fi

# Only what the public header declares counts; private types are opaque.
dump() {
  abidw --exported-interfaces-only --headers-dir "$root/include" --drop-private-types \
    --no-elf-needed --no-parameter-names --no-show-locs --no-corpus-path --no-comp-dir-path \
    --no-write-default-sizes --type-id-style hash --out-file "$1" "$library"
}
if [ $update = yes ]; then
  mkdir -p "$(dirname "$baseline")"
  dump "$baseline"
  exit 0
fi

functions=$(grep -c '<function-decl ' "$baseline")
if [ "$functions" -lt 30 ]; then
  echo "check_abi: $baseline: only $functions functions; the baseline is not complete" >&2
  exit 1
fi
# Added functions are compatible. Every other change is shown and fails, also a new field at the end
# of a struct: libabigail cannot know struct_size.
now=$(mktemp)
trap 'rm -f "$now"' EXIT
dump "$now"
if report=$(abidiff --no-added-syms "$baseline" "$now" 2>&1); then
  exit 0
fi
printf '%s\n' "$report" >&2
echo "check_abi: $library: differs from abi/baseline; undo the change, or see CONTRIBUTING.md" >&2
exit 1

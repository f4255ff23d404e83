#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Checks of the built library that need binutils or a compiler rather than a program:
#   check.sh symbols LIBRARY SYMBOLS.TXT   exported set and version nodes == the specification
#   check.sh static_init OBJECT...         no constructor or destructor sections
#   check.sh header COMPILER MODE INCLUDE  the header alone, with strict warnings
set -eu
what=$1
shift
case "$what" in
  symbols)
    # "name 0.1" a line, as in symbols.txt; the node itself is an absolute symbol.
    exported=$(LC_ALL=C nm -D --defined-only --with-symbol-versions "$1" |
      awk '$2 != "A" { sub(/@@?NPUSEG_/, " ", $3); print $3 }' | LC_ALL=C sort)
    expected=$(grep -v '^#' "$2" | LC_ALL=C sort)
    if [ "$(printf '%s\n' "$expected" | wc -l)" -lt 30 ]; then
      echo "symbols: $2: fewer than 30 names; the list is not complete" >&2
      exit 1
    fi
    if [ "$exported" != "$expected" ]; then
      echo "symbols: $1: exports differ from $2:" >&2
      printf '%s\n' "$exported" > exported.tmp
      printf '%s\n' "$expected" | diff - exported.tmp >&2 || true
      rm -f exported.tmp
      exit 1
    fi
    ;;
  static_init)
    found=0
    for object in "$@"; do
      if readelf -SW "$object" | grep -Eq '\.(init_array|ctors|fini_array|dtors)'; then
        echo "static_init: $object: runs code before or after main(); make it lazy" >&2
        found=1
      fi
    done
    exit $found
    ;;
  header)
    case "$2" in c++*) language=c++ ;; *) language=c ;; esac
    printf '%s\n' '#include <npuseg.h>' '#include <npuseg.h>' \
      'int main(void) { npuseg_instance one; one.query = 0; return (int)one.query; }' |
      "$1" -std="$2" -Wall -Wextra -Wpedantic -Wconversion -Werror -fsyntax-only -I"$3" \
        -x "$language" -
    ;;
  *)
    echo "usage: check.sh symbols|static_init|header ..." >&2
    exit 2
    ;;
esac

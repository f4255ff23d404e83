#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# run.sh WAY SOURCE BUILD CC CXX: uses npuseg in one of the ways a stranger would: builds the
# example programs and runs them on sample pictures from another folder.
set -euo pipefail
way=$1 source=$2 build=$3 cc=$4 cxx=$5
scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT

# must_say PATTERN PROGRAM ARGUMENT...
must_say() {
  local pattern=$1 out
  shift
  out=$(cd / && "$@")
  echo "$out"
  grep -q "$pattern" <<< "$out" && return
  echo "error: $1 did not say $pattern" >&2
  return 1
}

# The programs of a folder must say the same as the tool does.
check() {
  local language samples="$source/demo/embeddinggemma2/samples"
  for language in c cc; do
    must_say '0\.74' "$1/segment_$language" "$source/demo/sam3" "$source/demo/sam3/samples/a.png" \
      "purple squares"
    must_say '0\.683 .*red-circle' "$1/embed_$language" "$source/demo/embeddinggemma2" \
      "a red circle" "$samples"/*.png "$samples"/*.jpg
  done
}

# Both languages read the same file; C++ is told so by -x or by a copy with another ending.
for example in segment embed; do
  cp "$source/examples/$example.c" "$scratch/$example.c"
  cp "$source/examples/$example.c" "$scratch/$example.cc"
done

write_project() {
  mkdir -p "$scratch/user"
  cat > "$scratch/user/CMakeLists.txt" << END
cmake_minimum_required(VERSION 3.22)
project(user LANGUAGES C CXX)
set(CMAKE_C_STANDARD 11)
set(CMAKE_CXX_STANDARD 20)
$1
foreach(example segment embed)
  foreach(language c cc)
    add_executable(\${example}_\${language} ../\${example}.\${language})
    target_link_libraries(\${example}_\${language} PRIVATE npuseg::npuseg)
  endforeach()
endforeach()
END
}

build_project() {
  cmake -S "$scratch/user" -B "$scratch/out" -G Ninja -DCMAKE_BUILD_TYPE=Release \
    -DCMAKE_C_COMPILER="$cc" -DCMAKE_CXX_COMPILER="$cxx" "$@"
  cmake --build "$scratch/out" > "$scratch/out.log" 2>&1 ||
    { tail -n 40 "$scratch/out.log"; exit 1; }
  check "$scratch/out"
}

prefix="$scratch/moved"
if [ "$way" != add_subdirectory ]; then
  # Staged below /usr, then moved elsewhere: nothing may depend on the configured prefix.
  DESTDIR="$scratch/stage" cmake --install "$build" --prefix /usr > "$scratch/install.log"
  mv "$scratch/stage/usr" "$prefix"
  library=$(find "$prefix" -name libnpuseg.so)
  for link in libnpuseg.so libnpuseg.so.0.1 libnpuseg.so.0.1.0; do
    [ -e "$(dirname "$library")/$link" ] || { echo "error: no $link" >&2; exit 1; }
  done
  [ -e "$prefix/include/npuseg.h" ] && [ -e "$prefix/share/man/man1/npuseg-cli.1" ]
  [ -e "$prefix/share/man/man3/npuseg.3" ]
  # The moved tool finds the moved library.
  "$prefix/bin/npuseg-cli" --version
fi

case "$way" in
  pkg_config)
    PKG_CONFIG_PATH="$(dirname "$library")/pkgconfig"
    export PKG_CONFIG_PATH
    flags=$(pkg-config --cflags --libs npuseg)
    [[ "$flags" == *"$prefix"* ]] || { echo "error: not relocated: $flags" >&2; exit 1; }
    for example in segment embed; do
      # shellcheck disable=SC2086  # the flags are words
      "$cc" -std=c11 -Wall -Wextra -Wpedantic -Werror "$scratch/$example.c" $flags -lm \
        -Wl,-rpath,"$(dirname "$library")" -o "$scratch/${example}_c"
      # shellcheck disable=SC2086
      "$cxx" -std=c++20 -Wall -Wextra -Wpedantic -Werror "$scratch/$example.cc" $flags \
        -Wl,-rpath,"$(dirname "$library")" -o "$scratch/${example}_cc"
    done
    check "$scratch"
    ;;
  find_package)
    write_project 'find_package(npuseg 0.1 REQUIRED)'
    build_project -DCMAKE_PREFIX_PATH="$prefix"
    # Another minor version before 1.0 is not compatible.
    write_project 'find_package(npuseg 0.2 QUIET)
if(npuseg_FOUND)
  message(FATAL_ERROR "0.2 accepted")
endif()
find_package(npuseg REQUIRED)'
    cmake -S "$scratch/user" -B "$scratch/other" -G Ninja -DCMAKE_C_COMPILER="$cc" \
      -DCMAKE_CXX_COMPILER="$cxx" -DCMAKE_PREFIX_PATH="$prefix" > "$scratch/log" ||
      { cat "$scratch/log"; exit 1; }
    ;;
  add_subdirectory)
    write_project "include(FetchContent)
FetchContent_Declare(npuseg SOURCE_DIR \"$source\")
FetchContent_MakeAvailable(npuseg)"
    build_project
    ;;
  *)
    echo "error: no way '$way'" >&2
    exit 1
    ;;
esac

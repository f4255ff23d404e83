#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# go.sh SOURCE BUILD: vets and tests bindings/go against the library as installed from BUILD, and
# runs the README's program as a module of its own. Status 77: there is no Go here.
set -euo pipefail
source_folder=$1
build=$2
if ! command -v go > /dev/null; then
  echo "SKIPPED: go is not installed (Debian: golang-go)" >&2
  exit 77
fi
scratch="$(mktemp -d)"
# shellcheck disable=SC2064  # the value of now
trap "rm -rf '$scratch'" EXIT
DESTDIR="$scratch/stage" cmake --install "$build" --prefix /npuseg > "$scratch/install.log"
prefix="$scratch/stage/npuseg"
pc="$(find "$prefix" -name npuseg.pc)"
library="$(dirname "$(dirname "$pc")")"
export PKG_CONFIG_PATH="$(dirname "$pc")" LD_LIBRARY_PATH="$library"
export NPUSEG_DEMO="$source_folder/demo"
export GOFLAGS=-mod=mod GOTOOLCHAIN=local GOPROXY=off CGO_ENABLED=1

cp -r "$source_folder/bindings/go" "$scratch/go"
cd "$scratch/go"
unformatted="$(gofmt -l .)"
[ -z "$unformatted" ] || { echo "error: gofmt wants to change $unformatted" >&2; exit 1; }
go vet ./...
# cgocheck=1 is the run-time check of the rules for pointers that are handed to C.
GODEBUG=cgocheck=1 go test -count=1 ./...

mkdir "$scratch/program"
cd "$scratch/program"
sed -n '/^```go$/,/^```$/p' "$source_folder/bindings/go/README.md" | sed '1d;$d' > main.go
cat > go.mod << END
module program

go 1.19

require example.org/npuseg v0.0.0

replace example.org/npuseg => $scratch/go
END
go run . "$NPUSEG_DEMO/sam3" "$NPUSEG_DEMO/sam3/samples/a.png" 'purple squares' | tee found
grep -q '0\.7403' found

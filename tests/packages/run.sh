#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# run.sh reproducible       builds the Debian packages twice, in two folders, compares the bytes;
#                           lintian must have nothing to say.
# run.sh bookworm|forky...  builds them in a clean chroot without network, installs them in a second
#                           clean chroot, runs the tool and debian/tests there, prints sizes,
#                           lintian's words and the time from nothing to the first mask.
# Chroots are kept in NPUSEG_CHROOTS (build/chroots). Exit status 77: skipped, and says why.
set -euo pipefail
here="$(cd "$(dirname "$0")/../.." && pwd)"
chroots="${NPUSEG_CHROOTS:-$here/build/chroots}"
out="${NPUSEG_PACKAGES_OUT:-$here/build/packages}"
# The first changelog entry of an upload to Debian names the bug that asked for the package;
# there is none yet.
not_yet=initial-upload-closes-no-bugs
export LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive

skip() {
  echo "SKIPPED: packages for $1: $2" >&2
  exit 77
}

# The committed tree with what is not committed yet, as a fresh folder.
copy_source() {
  mkdir -p "$1"
  git -C "$here" ls-files -z --cached --others --exclude-standard |
    (cd "$here" && xargs -0 tar --no-recursion -cf - --ignore-failed-read) | tar -xf - -C "$1"
}

# A failing build shows its end.
build_here() {
  if ! (cd "$1" && env -u CFLAGS -u CXXFLAGS -u LDFLAGS dpkg-buildpackage -us -uc -b) \
    > "$1.log" 2>&1; then
    tail -n 60 "$1.log"
    echo "error: dpkg-buildpackage failed in $1" >&2
    exit 1
  fi
}

reproducible() {
  local tool scratch package count=0
  for tool in dpkg-buildpackage dh lintian; do
    command -v "$tool" > /dev/null || skip "this system" "$tool is not installed"
  done
  scratch="$(mktemp -d)"
  # shellcheck disable=SC2064  # the value of now: the variable ends with the function
  trap "rm -rf '$scratch'" EXIT
  # The second without tests and with another file mode mask, home and time zone.
  copy_source "$scratch/one/npuseg"
  build_here "$scratch/one/npuseg"
  copy_source "$scratch/other-place/source"
  (umask 027 && export TZ=Pacific/Kiritimati HOME=/nonexistent DEB_BUILD_OPTIONS=nocheck &&
    build_here "$scratch/other-place/source")
  for package in "$scratch"/one/*.deb; do
    cmp "$package" "$scratch/other-place/$(basename "$package")"
    count=$((count + 1))
  done
  [ "$count" -ge 6 ] || { echo "error: only $count packages" >&2; exit 1; }
  echo "$count packages, the same bytes twice"
  lintian --fail-on error,warning --suppress-tags $not_yet --tag-display-limit 0 \
    "$scratch"/one/*.changes
  rm -rf "$out/here" && mkdir -p "$out/here" && cp "$scratch"/one/*.deb "$out/here"
}

# The archive that this machine takes its Debian packages from.
mirror() {
  apt-get indextargets --format '$(ORIGIN) $(LABEL) $(REPO_URI)' 'Created-By: Packages' |
    awk '$1 == "Debian" && $2 == "Debian" { print $3; exit }'
}

# inside ROOT [--offline] COMMAND...: runs in the chroot with its own processes and mounts.
inside() {
  local root=$1 network=""
  shift
  if [ "$1" = --offline ]; then
    network=--net
    shift
  fi
  # shellcheck disable=SC2086  # no word or one
  unshare --mount --pid --fork $network sh -c '
    mount -t proc proc "$0/proc" && mount -t tmpfs tmpfs "$0/dev/shm" && exec chroot "$0" "$@"' \
    "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 \
    DEBIAN_FRONTEND=noninteractive "$@"
}

# base SUITE: a clean system in $chroots/SUITE.base, made once.
base() {
  local suite=$1 from script="/usr/share/debootstrap/scripts/$1"
  [ -d "$chroots/$suite.base" ] && return
  from=$(mirror)
  [ -n "$from" ] || skip "$suite" "apt knows no Debian archive"
  [ -e "$script" ] || script=/usr/share/debootstrap/scripts/sid
  mkdir -p "$chroots"
  rm -rf "$chroots/$suite.part"
  if ! debootstrap --variant=minbase "$suite" "$chroots/$suite.part" "$from" "$script" \
    > "$chroots/$suite.log" 2>&1; then
    tail -n 5 "$chroots/$suite.log"
    skip "$suite" "debootstrap failed"
  fi
  mv "$chroots/$suite.part" "$chroots/$suite.base"
}

# fresh SUITE NAME: a copy of the clean system with this machine's way to the network.
fresh() {
  local root="$chroots/$1.$2"
  rm -rf "$root"
  cp -a "$chroots/$1.base" "$root"
  cp -L /etc/resolv.conf /etc/hosts "$root/etc/"
  apt-config dump | grep -i '^Acquire::.*Proxy' > "$root/etc/apt/apt.conf.d/90proxy" || true
}

# run_in ROOT WHAT COMMAND...: a step whose output is shown only when it fails.
run_in() {
  local root=$1 what=$2
  shift 2
  if ! inside "$root" "$@" > "$root.step.log" 2>&1; then
    tail -n 60 "$root.step.log"
    echo "error: $what" >&2
    exit 1
  fi
}

build_in() {
  local suite=$1 root="$chroots/$1.build"
  # Kept with the build dependencies while these are the same.
  if ! cmp -s "$here/debian/control" "$root/control.used"; then
    fresh "$suite" build
    mkdir -p "$root/build/npuseg/debian"
    cp "$here/debian/control" "$root/build/npuseg/debian/"
    run_in "$root" "no package lists in $suite" apt-get -q update
    run_in "$root" "no build dependencies in $suite" \
      sh -c 'apt-get -q -y --no-install-recommends install build-essential lintian &&
             cd /build/npuseg && apt-get -q -y --no-install-recommends build-dep .'
    cp "$here/debian/control" "$root/control.used"
  fi
  rm -rf "$root/build"
  copy_source "$root/build/npuseg"
  chown -R 0:0 "$root/build"
  run_in "$root" "the packages do not build in $suite" --offline \
    sh -c 'cd /build/npuseg && dpkg-buildpackage -us -uc -b'
  grep -E 'tests passed' "$root.step.log"
  echo "lintian of $suite:"
  inside "$root" sh -c "lintian --allow-root --fail-on error --suppress-tags $not_yet \
    --tag-display-limit 0 /build/*.changes" && echo "  no error"
  rm -rf "${out:?}/$suite" && mkdir -p "$out/$suite" && cp "$root"/build/*.deb "$out/$suite"
}

install_in() {
  local suite=$1 root="$chroots/$1.clean" started test
  fresh "$suite" clean
  mkdir -p "$root/packages" "$root/tests"
  cp "$out/$suite"/*.deb "$root/packages"
  rm -f "$root"/packages/*-dbgsym_*
  cp "$here"/debian/tests/* "$root/tests"
  run_in "$root" "no package lists in $suite" apt-get -q update
  started=$(date +%s.%N)
  run_in "$root" "npuseg-cli does not install in $suite" sh -c \
    'cd /packages && apt-get -q -y --no-install-recommends install \
     ./libnpuseg0.1_*.deb ./npuseg-cli_*.deb ./npuseg-demo_*.deb'
  inside "$root" sh -c 'cd /tmp && npuseg-cli segment /usr/share/npuseg/demo/sam3 \
    /usr/share/npuseg/demo/sam3/samples/a.png -p "purple squares" -o /tmp/overlay.png'
  echo "$suite: from nothing to the first mask: 2 commands (apt-get install, npuseg-cli segment)," \
    "$(awk -v a="$started" -v b="$(date +%s.%N)" 'BEGIN { printf "%.1f", b - a }') s"
  run_in "$root" "the packages do not install in $suite" sh -c \
    "cd /packages && apt-get -q -y --no-install-recommends install ./*.deb \
     $(sed -n 's/^Depends: //p' "$here/debian/tests/control" | tr -d ,)"
  for test in $(sed -n 's/^Tests: //p' "$here/debian/tests/control"); do
    run_in "$root" "debian/tests/$test fails in $suite" \
      sh -c "mkdir -p /tmp/$test && AUTOPKGTEST_TMP=/tmp/$test /tests/$test"
    echo "debian/tests/$test: passed"
  done
  run_in "$root" "the packages cannot be removed in $suite" sh -c \
    'apt-get -q -y purge libnpuseg0.1 npuseg-demo && ! ls -d /usr/share/npuseg'
  rm -rf "$root"
  echo "packages of $suite, bytes of the file and KiB installed:"
  for test in "$out/$suite"/*.deb; do
    echo "  $(stat -c %s "$test") $(dpkg-deb -f "$test" Installed-Size) $(basename "$test")"
  done
}

distribution() {
  [ "$(id -u)" = 0 ] || skip "$1" "a chroot needs root"
  command -v debootstrap > /dev/null || skip "$1" "debootstrap is not installed"
  unshare --mount --pid --fork true 2> /dev/null || skip "$1" "this place allows no namespaces"
  base "$1"
  build_in "$1"
  install_in "$1"
}

for leg in "${@:-reproducible}"; do
  case "$leg" in
    reproducible) reproducible ;;
    bookworm | trixie | forky | sid) distribution "$leg" ;;
    *) echo "error: no leg '$leg'; there are reproducible, bookworm, forky" >&2; exit 1 ;;
  esac
done

#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The archive of a release, as "meson dist" makes it, is enough outside git: it configures and builds, its tests of tier
# quick pass, and what it installs is sufficient to build and run a program.
#
# usage: run_archive_test.sh SOURCE VERSION CC...
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=tests/install/use_root.sh
. "$here/use_root.sh"
source=$1 version=$2
shift 2
git -C "$source" rev-parse HEAD >/dev/null 2>&1 || skip 'this is no checkout'
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export GIT_CEILING_DIRECTORIES=$work

step() { # NAME COMMAND...
    local name=$1
    shift
    "$@" >"$work/log" 2>&1 </dev/null || { tail -40 "$work/log"; fail "$name"; exit 1; }
}

step 'meson setup' meson setup "$work/here" "$source" -Dtests=disabled -Dman=false
step 'meson dist' meson dist -C "$work/here" --no-tests --allow-dirty --formats gztar
archive=$work/here/meson-dist/utofu-verbs-$version.tar.gz
[ -f "$archive" ] || { fail "there is no $archive"; exit 1; }
tar -x -z -f "$archive" -C "$work"
cd "$work/utofu-verbs-$version" || exit 1
[ ! -e .git ] || fail 'the archive has a .git'
step 'scripts/release --check' scripts/release --check
step 'meson setup of the archive' meson setup build -Dtests=enabled
step 'meson compile' meson compile -C build
build/tools/utofu-info --version >"$work/log" 2>&1
grep -q "$version (release)" "$work/log" || { fail 'a build of the archive is of no commit'; cat "$work/log"; }
step 'tier quick' meson test -C build --no-rebuild --suite quick --print-errorlogs -t "${UT_TEST_TIMEOUT_SCALE:-3}"
DESTDIR=$work/root step 'meson install' meson install -C build --no-rebuild --quiet
use_root "$work/root" "$(find "$work/root" -path '*/doc/utofu-verbs/examples')" "$@"
[ $failures = 0 ] && echo ok
[ $failures = 0 ]

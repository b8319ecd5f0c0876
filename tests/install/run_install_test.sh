#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The files that "meson install" puts into an empty folder are sufficient to build and run programs.
#
# usage: run_install_test.sh BUILD CC...
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=tests/install/use_root.sh
. "$here/use_root.sh"
build=$1
shift
command -v pkg-config >/dev/null || skip 'pkg-config is not installed'
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
DESTDIR=$root meson install -C "$build" --no-rebuild --quiet >"$root.log" 2>&1 ||
    { cat "$root.log"; fail "meson install"; }
rm -f "$root.log"
use_root "$root" "$(find "$root" -path '*/doc/utofu-verbs/examples')" "$@"
[ $failures = 0 ] && echo ok
[ $failures = 0 ]

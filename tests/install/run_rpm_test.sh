#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The RPM packages build from this tree, rpmlint finds nothing, no file is in two of them or in none, rpm installs them
# into an empty root and finds each file as it was packaged (rpm -V), the files are sufficient to build and run a
# program, and rpm removes all of them.
#
# usage: run_rpm_test.sh CC...
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=tests/install/use_root.sh
. "$here/use_root.sh"
for tool in rpmbuild rpm pkg-config; do
    command -v $tool >/dev/null || skip "there is no $tool (scripts/install-deps installs it)"
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
source=$here/../..

options=(--nocheck)
pkg-config --exists ompi-c mpich || options+=(--without prdma)
if ! "$source/scripts/build-rpm" "$work/rpms" "${options[@]}" >"$work/log" 2>&1; then
    tail -40 "$work/log"
    fail rpmbuild
    exit 1
fi
if command -v rpmlint >/dev/null; then
    rpmlint -r "$source/packaging/rpm/packages.rpmlintrc" "$work/rpms" >"$work/out" 2>&1 &&
        grep -q ' 0 errors, 0 warnings' "$work/out" || { fail rpmlint; cat "$work/out"; }
else
    echo 'not tried: rpmlint is not installed'
fi

rm -f "$work"/rpms/*.src.rpm "$work"/rpms/*-debug*.rpm
root=$work/root
mkdir "$root"
in_root() { rpm --root "$root" --dbpath /var/lib/rpm "$@"; }
in_root --initdb && in_root -i --nodeps --noscripts "$work"/rpms/*.rpm >"$work/out" 2>&1 || { fail 'rpm -i'; cat "$work/out"; }
mapfile -t packages < <(in_root -qa --qf '%{NAME}\n' | sort)
[ ${#packages[@]} -ge 4 ] || fail "only ${packages[*]} are installed"
in_root -V --nodeps "${packages[@]}" >"$work/out" 2>&1 || { fail 'rpm -V'; cat "$work/out"; }
in_root -qa --filesbypkg --qf '[%{FILENAMES}\n]' | grep -v '/share/utofu-verbs$\|/.build-id' | sort | uniq -d >"$work/twice"
[ ! -s "$work/twice" ] || fail "in two packages: $(paste -sd' ' "$work/twice")"
find "$root" -name utofu.h -exec sh -c 'echo >>"$1"' sh {} \;
in_root -V --nodeps "${packages[@]}" >"$work/out" 2>&1 && fail 'rpm -V does not notice a file that has changed'
grep -q '/usr/include/utofu.h' "$work/out" || fail 'rpm -V does not name it'
find "$root" -name utofu.h -exec sed -i '$d' {} \;

for package in libs devel; do
    rpm -qp --recommends --suggests --requires "$work/rpms/utofu-verbs-$package"-[0-9]*.rpm >"$work/out" 2>&1
    case $package in
    libs) grep -qx libfabric "$work/out" && grep -q 'libibverbs.so.1' "$work/out" ;;
    devel) grep -q '^utofu-verbs-libs' "$work/out" ;;
    esac || { fail "what utofu-verbs-$package requires"; cat "$work/out"; }
done

# left_behind: what is still there of the packages
left_behind() {
    (cd "$root" && find . -path ./var/lib/rpm -prune -o \( ! -type d -o -path '*utofu*' \) -print)
}
use_root "$root" "$(find "$root" -path '*/doc/utofu-verbs/examples')" "$@"
find "$root" -name __pycache__ -exec rm -rf {} + # of Python, which was run in there
[ -n "$(left_behind)" ] || fail 'nothing is installed'
in_root -e --nodeps --noscripts "${packages[@]}" >"$work/out" 2>&1 || { fail 'rpm -e'; cat "$work/out"; }
left_behind >"$work/left"
[ ! -s "$work/left" ] || { fail 'rpm -e leaves behind:'; cat "$work/left"; }
[ $failures = 0 ] && echo "ok: ${packages[*]}"
[ $failures = 0 ]

#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The Debian packages build, lintian finds nothing, and the files that they install into an empty root are
# sufficient to build and run programs. Needs dpkg-dev, debhelper and the build dependencies.
#
# usage: run_package_test.sh CC...
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=tests/install/use_root.sh
. "$here/use_root.sh"
for tool in dpkg-buildpackage dh dpkg-deb pkg-config; do
    command -v $tool >/dev/null || skip "there is no $tool (scripts/install-deps installs it)"
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
(cd "$here/../.." && dpkg-checkbuilddeps) 2>"$work/missing" || skip "$(cat "$work/missing")"

if ! DEB_BUILD_OPTIONS=nocheck "$here/../../scripts/build-deb" "$work/debs" >"$work/log" 2>&1; then
    tail -40 "$work/log"
    fail "dpkg-buildpackage"
    exit 1
fi
if command -v lintian >/dev/null; then
    lintian --profile debian --allow-root --info --display-info --pedantic \
        --fail-on error,warning,info,pedantic "$work/debs"/*.changes || fail "lintian"
else
    echo 'not tried: lintian is not installed'
fi

mkdir "$work/root"
for package in libtofucom1 libacpbl-utofu1 liblapi-utofu1 libtofucom-dev utofu-verbs-tools; do
    deb=$(echo "$work/debs/${package}"_*.deb)
    dpkg-deb -x "$deb" "$work/root" || fail "dpkg-deb -x $package"
    dpkg-deb -c "$deb" | awk '$1 !~ /^d/ {print $6}' >>"$work/files"
    dpkg-deb -f "$deb" Depends >"$work/depends"
    case $package in
    libtofucom-dev) continue ;;
    libacpbl-utofu1 | liblapi-utofu1) needs=libtofucom1 ;;
    *) needs=libibverbs1 ;;
    esac
    grep -q "$needs" "$work/depends" || fail "$package does not depend on $needs"
done
[ -z "$(sort "$work/files" | uniq -d | tee "$work/twice")" ] ||
    fail "in two packages: $(paste -sd' ' "$work/twice")"
sh "$here/../abi/check_exports.sh" "$(echo "$work"/root/usr/lib/*/libtofucom.so.1)" \
    "$here/../../src/libtofucom.map" "$work/root/usr/include/utofu.h" || fail "exported names"
use_root "$work/root" "$work/root/usr/share/doc/libtofucom-dev/examples" "$@"
[ $failures = 0 ] && echo ok
[ $failures = 0 ]

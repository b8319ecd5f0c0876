#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The Debian packages build, lintian finds nothing, and the files that they install into an empty root are
# sufficient to build and run programs: one, with UT_BRIEFLY, or all examples. Needs dpkg-dev, debhelper and the build
# dependencies.
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

if ! DEB_BUILD_OPTIONS="nocheck noautodbgsym" "$here/../../scripts/build-deb" "$work/debs" >"$work/log" 2>&1; then
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
mapfile -t packages < <(sed -n 's/^Package: //p' "$here/../../debian/control")
[ ${#packages[@]} -ge 8 ] || fail "only ${packages[*]} are in debian/control"
for package in "${packages[@]}"; do
    deb=$(echo "$work/debs/${package}"_*.deb)
    dpkg-deb -x "$deb" "$work/root" || fail "dpkg-deb -x $package"
    dpkg-deb -c "$deb" | awk '$1 !~ /^d/ {print $6}' >>"$work/files"
    dpkg-deb -f "$deb" Depends >"$work/depends"
    case $package in
    libtofucom-dev | utofu-verbs-doc) continue ;;
    libacpbl-utofu1 | liblapi-utofu1 | libtofutop1 | libprdma-utofu | python3-utofu) needs=libtofucom1 ;;
    *) needs=libibverbs1 ;;
    esac
    grep -q "$needs" "$work/depends" || fail "$package does not depend on $needs"
done
for package in libfabric1 libpmix2; do # what is loaded at run time
    dpkg-deb -f "$work"/debs/libtofucom1_*.deb Recommends | grep -qw "$package" || fail "libtofucom1 does not recommend $package"
done
[ -d "$(compgen -G "$work/root/usr/lib/python3*/*-packages/utofu")" ] || fail 'python3-utofu has no package for Python'
[ -z "$(sort "$work/files" | uniq -d | tee "$work/twice")" ] ||
    fail "in two packages: $(paste -sd' ' "$work/twice")"
sh "$here/../abi/check_exports.sh" "$(echo "$work"/root/usr/lib/*/libtofucom.so.1)" \
    "$here/../../src/libtofucom.map" "$work/root/usr/include/utofu.h" || fail "exported names"
use_root "$work/root" "$work/root/usr/share/doc/utofu-verbs/examples" "$@"
[ $failures = 0 ] && echo ok
[ $failures = 0 ]

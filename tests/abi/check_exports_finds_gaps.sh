#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The bad twin of check_exports.sh: a list of names, or a library, that is not right does not pass.
#
# usage: check_exports_finds_gaps.sh LIB MAP HEADER CC...
set -u
here=$(dirname "$0")
lib=$1 map=$2 header=$3
shift 3
tmp=$(mktemp -d) || exit 2
trap 'rm -rf "$tmp"' EXIT
failed=0

# refused WHAT LIB MAP HEADER TEXT: the check fails and says TEXT
refused() {
    if sh "$here/check_exports.sh" "$2" "$3" "$4" >"$tmp/out" 2>&1; then
        echo "FAIL: $1: was not noticed"
        failed=1
    elif ! grep -q "$5" "$tmp/out"; then
        echo "FAIL: $1: not reported as \"$5\" but as:"
        cat "$tmp/out"
        failed=1
    fi
}

cp "$(dirname "$header")"/utofu*.h "$tmp"
sed '/^ *utofu_put;/d' "$map" >"$tmp/less.map"
refused "a name that the map does not list" "$lib" "$tmp/less.map" "$header" '< utofu_put$'
sed 's/^ *utofu_put;/&\n    utofu_push;/' "$map" >"$tmp/more.map"
refused "a name that the library lacks" "$lib" "$tmp/more.map" "$header" '> utofu_push$'
sed 's/^int utofu_nop(/int utofu_nap(/' "$header" >"$tmp/utofu.h"
refused "a name that the header lacks" "$lib" "$map" "$tmp/utofu.h" '> utofu_nop$'
cp "$header" "$tmp/utofu.h"
sed 's/^int putofu_nop(/int putofu_nap(/' "$(dirname "$header")/utofu_profile.h" >"$tmp/utofu_profile.h"
refused "a twin that is not declared" "$lib" "$map" "$tmp/utofu.h" '< putofu_nop$'
cp "$(dirname "$header")"/utofu*.h "$tmp"
sed 's/^int utofu_profile_stop(/int utofu_profile_stay(/' "$(dirname "$header")/utofu_ext.h" >"$tmp/utofu_ext.h"
refused "an extension that is not declared" "$lib" "$map" "$tmp/utofu.h" '> utofu_profile_stop$'
cp "$(dirname "$header")"/utofu*.h "$tmp"

# a library with the right names, but as two strong functions each, and with another soname
sed -n 's/^ *\(p*utofu_[a-z0-9_]*\);.*/void \1(void);\nvoid \1(void)\n{\n}/p' "$map" >"$tmp/strong.c"
if ! "$@" -shared -fPIC -Wl,-soname,libother.so.1 -Wl,--version-script="$map" "$tmp/strong.c" \
    -o "$tmp/strong.so"; then
    echo "FAIL: no library to try"
    exit 1
fi
refused "strong names" "$tmp/strong.so" "$map" "$header" 'utofu_put has the type T, not W'
refused "two functions" "$tmp/strong.so" "$map" "$header" 'utofu_put is another function than putofu_put'
refused "another soname" "$tmp/strong.so" "$map" "$header" 'the soname is "libother.so.1"'

[ $failed -eq 0 ] && echo "ok"
exit $failed

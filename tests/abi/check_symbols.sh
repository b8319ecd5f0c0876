#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# debian/libtofucom1.symbols lists each name of the version script with its symbol version, and no other one; a list
# with a name too few or too many, or of another version, is noticed.
#
# usage: check_symbols.sh MAP SYMBOLS
set -u
export LC_ALL=C
map=$1 symbols=$2
tmp=$(mktemp -d) || exit 2
trap 'rm -rf "$tmp"' EXIT

# listed_in_map: NAME@VERSION, and each version itself, as dpkg-gensymbols has it
awk '
    { sub(/#.*/, "") }
    $2 == "{" { version = $1; print version "@" version }
    /global:/ { wanted = 1; next }
    /local:|}/ { wanted = 0 }
    wanted && $1 ~ /;$/ { sub(/;/, "", $1); print $1 "@" version }' "$map" | sort >"$tmp/map"

# differs SYMBOLS: prints the names that only one of the two has
differs() {
    awk 'NR > 1 && /^ / { print $1 }' "$1" | sort | diff "$tmp/map" - >"$tmp/diff" && return 1
    sed -n 's/^</missing: /p; s/^>/not in the map: /p' "$tmp/diff"
}

[ "$(wc -l <"$tmp/map")" -gt 100 ] || { echo "FAIL: the map has only $(wc -l <"$tmp/map") names"; exit 1; }
differs "$symbols" && { echo "FAIL: $symbols is not what $map has"; exit 1; }

# bad twins
sed '/ putofu_put@/d' "$symbols" >"$tmp/few"
{ cat "$symbols"; echo ' utofu_gift@UTOFU_1.0 1.0.0'; } >"$tmp/many"
sed 's/utofu_wait_vcqs@UTOFU_1.1/utofu_wait_vcqs@UTOFU_1.0/' "$symbols" >"$tmp/other"
for twin in few many other; do
    cmp -s "$symbols" "$tmp/$twin" && { echo "FAIL: the bad twin $twin is the good one"; exit 1; }
    differs "$tmp/$twin" >"$tmp/out" || { echo "FAIL: a list with a name too $twin passes"; exit 1; }
done
echo "ok: $(wc -l <"$tmp/map") names"

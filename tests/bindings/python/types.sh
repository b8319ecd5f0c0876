#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# mypy --strict has nothing to say of the package and of a program that uses it rightly, and refuses each line of another
# one that has the word "wrong" in a comment, and no other line.
#
# usage: types.sh PACKAGES GOOD.py BAD.py
set -u
command -v mypy >/dev/null || { echo 'skipped: mypy is not installed'; exit 77; }
packages=$1 good=$2 bad=$3
export MYPYPATH=$packages
cache=$(mktemp -d)
trap 'rm -rf "$cache"' EXIT
mypy --strict --cache-dir "$cache" "$packages/utofu" || { echo 'FAIL: the package'; exit 1; }
mypy --strict --cache-dir "$cache" "$good" || { echo "FAIL: $good"; exit 1; }
found=$(mypy --strict --cache-dir "$cache" --no-error-summary "$bad" | sed -n 's/^[^:]*:\([0-9]*\): error.*/\1/p' | sort -nu)
wanted=$(grep -n '# wrong' "$bad" | cut -d: -f1)
[ "$found" = "$wanted" ] || { echo "FAIL: $bad: errors in the lines" $found, not in $wanted; exit 1; }
echo "ok: $(wc -w <<< "$found") errors"

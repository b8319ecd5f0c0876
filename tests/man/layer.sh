#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The manual pages of a layer: one for each function of its library, clean, with all sections, and
# listed in the page of the layer.
#
# usage: layer.sh LIBRARY PAGES LAYER FUNCTIONS-PATTERN LEAST-FUNCTIONS [FUNCTION EXAMPLE-NAMED-THERE]
library=$1 pages=$2 layer=$3 pattern=$4 least=$5
failures=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() {
    failures=$((failures + 1))
    echo "FAIL: $*"
}

names=$(nm -D --defined-only "$library" | sed -n "s/.* T \($pattern\)\(@.*\)\{0,1\}\$/\1/p")
[ "$(echo "$names" | wc -l)" -ge "$least" ] || fail "nm finds no functions: $names"
for name in $names; do
    page=$pages/$name.3
    target=$(sed -n 's|^\.so man3/||p' "$page")
    [ -z "$target" ] || page=$pages/$target
    for section in NAME LIBRARY SYNOPSIS 'RETURN VALUE' 'SEE ALSO'; do
        grep -q "^\.SH $section" "$page" || fail "$name: no $section in $page"
    done
    grep -q "^[^.].*\b$name(" "$page" || fail "$name: no declaration in $page"
    if [ -z "$target" ] && command -v mandoc >/dev/null; then
        mandoc -Tlint -W warning "$page" >"$work/out" || { fail "$page"; cat "$work/out"; }
    fi
    grep -q "\\\\fB$name\\\\fP(3)" "$pages/$layer.3" || fail "$layer.3 does not list $name"
done
[ $# -le 5 ] || grep -q "$7" "$pages/$6.3" || fail "$6: no example"
[ $failures = 0 ] && echo ok
[ $failures = 0 ]

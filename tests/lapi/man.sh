#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The manual pages of the layer: one for each function of the library, clean, and with all sections.
#
# usage: man.sh LIBRARY PAGES
library=$1 pages=$2
failures=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() {
    failures=$((failures + 1))
    echo "FAIL: $*"
}

names=$(nm -D --defined-only "$library" | sed -n 's/.* T \(LAPI_[A-Za-z0-9_]*\)\(@.*\)\{0,1\}$/\1/p')
[ "$(echo "$names" | wc -l)" -ge 30 ] || fail "nm finds no functions: $names"
for name in $names; do
    page=$pages/$name.3
    target=$(sed -n 's|^\.so man3/||p' "$page")
    [ -z "$target" ] || page=$pages/$target
    for section in NAME LIBRARY SYNOPSIS 'RETURN VALUE' 'SEE ALSO'; do
        grep -q "^\.SH $section" "$page" || fail "$name: no $section in $page"
    done
    grep -q "^\\\\fB.*\b$name(" "$page" || fail "$name: no declaration in $page"
    if [ -z "$target" ] && command -v mandoc >/dev/null; then
        mandoc -Tlint -W warning "$page" >"$work/out" || { fail "$page"; cat "$work/out"; }
    fi
    grep -q "\\\\fB$name\\\\fP(3)" "$pages/lapi.3" || fail "lapi.3 does not list $name"
done
grep -q 'lapi_message' "$pages/LAPI_Amsend.3" || fail "LAPI_Amsend: no example"
[ $failures = 0 ] && echo ok
[ $failures = 0 ]

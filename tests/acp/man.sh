#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The manual pages of the layer: one for each function of the library, clean, and with all sections;
# a function without a description is an error of make-man.
#
# usage: man.sh MAKE-MAN HEADER LIBRARY PAGES
make_man=$1 header=$2 library=$3 pages=$4
failures=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() {
    failures=$((failures + 1))
    echo "FAIL: $*"
}

names=$(nm -D --defined-only "$library" | sed -n 's/.* T \(acp_[a-z0-9_]*\)\(@.*\)\{0,1\}$/\1/p')
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
done
grep -q 'acp_relay' "$pages/acp_copy.3" || fail "acp_copy: no example"
for name in $names; do
    grep -q "\\\\fB$name\\\\fP(3)" "$pages/acp.3" || fail "acp.3 does not list $name"
done

sed '/^ \* @return 0: All have come/d; /^ \* @return -1: acp_init() was not called/d' "$header" >"$work/acp.h"
"$make_man" layer "$work/acp.h" acp acpbl_utofu "$work/pages" 2>"$work/out" &&
    fail "make-man takes a function without results"
grep -q 'acp_sync: no @return' "$work/out" || { fail "make-man says something else"; cat "$work/out"; }
[ $failures = 0 ] && echo ok
[ $failures = 0 ]

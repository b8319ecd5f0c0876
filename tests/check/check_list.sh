#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The document has a row for each finding, and utofu-info the same texts.
#
# usage: check_list.sh CHECK.md FINDINGS.h UTOFU-INFO
set -u
failed=0
list=$(mktemp)
trap 'rm -f "$list"' EXIT
"$3" --check-list >"$list" || failed=1
ids=$(sed -n 's/^X([A-Z_]*, "\([a-z-]*\)".*/\1/p' "$2")
[ "$(echo "$ids" | wc -w)" -ge 10 ] || failed=1
for id in $ids; do
    row=$(grep "^| \`$id\` |" "$1") || {
        echo "FAIL: $1 has no row of $id"
        failed=1
    }
    what=$(grep -A1 "^$id\$" "$list" | sed -n '2s/^ *//p')
    case $row in
    *"| $what |"*) ;;
    *)
        echo "FAIL: $1 says something else of $id than: $what"
        failed=1
        ;;
    esac
done
[ "$(grep -c '^[a-z]' "$list")" = "$(echo "$ids" | wc -w)" ] || failed=1
[ $failed -eq 0 ] && echo ok
exit $failed

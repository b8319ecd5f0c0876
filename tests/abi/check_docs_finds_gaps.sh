#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The bad twin of check_docs.sh: a header with one thing missing or wrong does not pass.
#
# usage: check_docs_finds_gaps.sh HEADER
set -u
here=$(dirname "$0")
header=$1
tmp=$(mktemp -d) || exit 2
trap 'rm -rf "$tmp"' EXIT
failed=0

# gap WHAT SED-SCRIPT: the header that the script makes is refused
gap() {
    sed "$2" "$header" >"$tmp/utofu.h"
    if cmp -s "$header" "$tmp/utofu.h"; then
        echo "FAIL: $1: the script changed nothing"
        failed=1
    elif sh "$here/check_docs.sh" "$tmp/utofu.h" >"$tmp/out"; then
        echo "FAIL: $1: was not noticed"
        failed=1
    fi
}

# in_put SCRIPT: apply it to the comment of utofu_put()
in_put() {
    printf '/^ \\* utofu_put - /,/^int utofu_put(/{%s\n}' "$1"
}

gap "no title" "$(in_put '/utofu_put - /d')"
gap "no parameter" "$(in_put '/@param edata/d')"
gap "other parameter" "$(in_put 's/@param edata/@param adata/')"
gap "parameter without direction" "$(in_put 's/\[in\]//')"
gap "no flags" "$(in_put '/@flags/d')"
gap "no such flag group" "$(in_put 's/@flags .*/@flags onesided-other/')"
gap "no return codes" "$(in_put '/@return/d')"
gap "no success" "$(in_put '/@return UTOFU_SUCCESS/d')"
gap "no such return code" "$(in_put 's/UTOFU_ERR_BUSY:/UTOFU_ERR_BUSIER:/')"
gap "no threads" "$(in_put '/@threads/d')"
gap "other threads" "$(in_put 's/@threads .*/@threads some/')"
gap "no manual" "$(in_put '/@manual/d')"
gap "no comment" "$(in_put '/^ \*/d')"
gap "no such function" 's/^int utofu_nop(/int nop(/'

[ $failed -eq 0 ] && echo "ok"
exit $failed

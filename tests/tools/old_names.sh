#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Variables that have become options work under their old names, and rank 0 alone prints the new form
# once; so do utofu-info -e and --check. To be removed with the old names.
# Usage: old_names.sh UTOFURUN UTOFU-INFO
set -u
run=$1 info=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
unset "${!UTOFU_@}"
export UTOFU_PROVIDER=shm
failed=0

# says TIMES TEXT: TIMES lines of the output have TEXT
says() {
    local found
    found=$(grep -cF -- "$2" "$folder/said")
    [ "$found" = "$1" ] && return
    echo "FAIL: $found lines, not $1, say: $2"
    cat "$folder/said"
    failed=1
}

UTOFU_STATS=job UTOFU_STATS_FILE=$folder/summary UTOFU_SHUFFLE_LEVEL=2 "$run" -n 3 "$info" --all >"$folder/said" 2>&1
says 1 'warning: [rank 0, process] old names of variables, which the next release will not accept: '
says 1 "UTOFU_STATS_FILE (write UTOFU_STATS=job,file=$folder/summary)"
says 1 'UTOFU_SHUFFLE_LEVEL (write UTOFU_SHUFFLE=level=2)'
grep -q 'summary of 3 of 3 ranks' "$folder/summary" || { echo "FAIL: no summary in the file"; failed=1; }

UTOFU_STATS=job,file=$folder/summary "$run" -n 2 "$info" >"$folder/said" 2>&1
says 0 'old names'

UTOFU_TRACE_LIMIT=x "$info" --check >"$folder/said" 2>/dev/null
says 1 "FAIL  environment: UTOFU_TRACE_LIMIT: 'x' is not allowed"

UTOFU_VERBS_INLINE=64 "$info" -e >"$folder/said" 2>/dev/null
says 1 'UTOFU_VERBS_TUNE=...,inline=64   (set)'
says 1 'UTOFU_VERBS_INLINE   (an old name, which the next release does not know; write UTOFU_VERBS_TUNE=inline=64)'

UTOFU_VERBS_INLINE=64 "$info" --check >"$folder/said" 2>/dev/null
says 1 'old names of variables'
exit $failed

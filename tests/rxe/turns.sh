#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# More busy peers than UTOFU_VERBS_MAX_QPS: nothing is lost, and connections were closed; with
# enough places none was closed.
# Usage: turns.sh UTOFURUN PROGRAM any|all|one|from PROCESSES QPS OPS CLOSED
# CLOSED: least number of connections closed; 0: none. PROGRAM is turns.
set -u
utofurun=$1 program=$2 whom=$3 processes=$4 closed=$7
export UTOFU_VERBS_MAX_QPS=$5 UTOFU_STATS=1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
start=$SECONDS
"$utofurun" -n "$processes" "$program" "$folder" "$whom" "$6" >"$folder/said" 2>&1 || {
    cat "$folder/said"
    exit 1
}
rests=$(sed -n 's/^.*stats: .* peer .* rests=\([0-9]*\)$/\1/p' "$folder/said" | awk '{ n += $1 } END { print n + 0 }')
echo "$processes processes, to $whom, $5 places: $rests ends of connections closed by the limit," \
    "$((SECONDS - start)) s"
((closed == 0 ? rests == 0 : rests >= closed)) && exit
grep stats "$folder/said"
exit 1

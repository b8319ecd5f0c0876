#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# UTOFU_STATS counts how often half of what a VCQ can receive had arrived before it was polled; and a
# connection whose send queue is full again and again is made anew once, with a longer one.
# Usage: crowd.sh WITH_ADAPTER UTOFURUN CROWD
set -u
with_adapter=$1 utofurun=$2 program=$3
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export UTOFU_PROVIDER=verbs UTOFU_STATS=1
failed=0

# run PUTS [NAME=VALUE...]: 20 times PUTS arrive at rank 0
run() {
    rm -rf "$folder/cards"
    mkdir "$folder/cards"
    env "${@:2}" "$with_adapter" -- "$utofurun" -n 2 "$program" "$folder/cards" "$1" >"$folder/said" 2>&1 && return
    echo "FAILED: $*"
    cat "$folder/said"
    failed=1
}

# check WHAT EXPECTED LINE FIELD: of the last run; a field that is not there is 0
check() {
    local found
    found=$(sed -n "s/^utofu: stats: $3 .* $4=\\([0-9]*\\).*/\\1/p" "$folder/said")
    if [[ ${found:-0} =~ ^($2)$ ]]; then
        echo "ok: $1: ${found:-0}"
        return
    fi
    echo "FAILED: $1: ${found:-0}"
    cat "$folder/said"
    failed=1
}

run 400
check 'crowds of 400' '[1-9][0-9]*' '\[rank 0\] vcq' crowded
for rank in 0 1; do
    check "rank $rank, a longer send queue" 1 "\\[rank $rank\\] peer" reconnects
    check "rank $rank, closed for others" 0 "\\[rank $rank\\] peer" rests
done
run 40
check 'crowds of 40' 0 '\[rank 0\] vcq' crowded
check 'no longer send queue' 0 '\[rank 1\] peer' reconnects
run 400 UTOFU_VERBS_TUNE=srq_depth=8192,sq_depth=63
check 'crowds of 400 where there are 2,048 receives' 0 '\[rank 0\] vcq' crowded
check 'no longer send queue is wanted' 0 '\[rank 1\] peer' reconnects
run 100 UTOFU_VERBS_TUNE=srq_depth=64
check 'crowds of 100 where 64 stay 64' '[2-9]|[1-9][0-9]+' '\[rank 0\] vcq' crowded
exit $failed

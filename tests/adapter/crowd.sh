#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# UTOFU_STATS counts how often half of what a VCQ can receive had arrived before it was polled.
# Usage: crowd.sh WITH_ADAPTER UTOFURUN CROWD
set -u
with_adapter=$1 utofurun=$2 program=$3
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export UTOFU_PROVIDER=verbs UTOFU_STATS=1
failed=0

# check WHAT EXPECTED PUTS DEPTH: what matches EXPECTED is the number of crowds among rank 0's arrivals,
# 20 times PUTS
check() {
    local crowds
    rm -rf "$folder/cards"
    mkdir "$folder/cards"
    if UTOFU_VERBS_SRQ_DEPTH=$4 "$with_adapter" -- "$utofurun" -n 2 "$program" "$folder/cards" "$3" \
        >"$folder/said" 2>&1; then
        crowds=$(sed -n 's/^utofu: stats: \[rank 0\] vcq .* crowded=\([0-9]*\).*/\1/p' "$folder/said")
        if [[ ${crowds:-0} =~ ^($2)$ ]]; then
            echo "ok: $1: ${crowds:-0}"
            return
        fi
    fi
    echo "FAILED: $1: ${crowds:-none}"
    cat "$folder/said"
    failed=1
}

check '400 at once' '[1-9][0-9]*' 400 1024
check '40 are none' 0 40 1024
check '400 are none where there are 2,048 receives' 0 400 8192
check 'where it cannot grow, they are one again and again' '[2-9]|[1-9][0-9]+' 100 64
exit $failed

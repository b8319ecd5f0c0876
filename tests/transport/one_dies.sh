#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A process of the transport is killed: each other one ends, with a line that names that one. The launcher does not
# help: it starts shells, which end with status 0.
#
# usage: one_dies.sh PROCESSES NODES UTOFURUN TRANSPORT RANK:AT... AT is how many messages RANK sends before.
processes=$1 nodes=$2 utofurun=$3 transport=$4
shift 4
failures=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export UTOFU_PEER_TIMEOUT=${UTOFU_PEER_TIMEOUT:-2} work transport

fail() {
    failures=$((failures + 1))
    echo "FAIL: $*"
    tail -n 5 "$work"/out.*
}

for case in "$@"; do
    victim=${case%:*}
    rm -f "$work"/*
    # shellcheck disable=SC2016
    UT_TRANSPORT_DIE=$case "$utofurun" -n "$processes" --nodes "$nodes" sh -c '
        "$transport" >"$work/out.$UTOFU_RANK" 2>&1
        echo $? >"$work/status.$UTOFU_RANK"' >"$work/job" 2>&1 || fail "$case: the job ends with status $?"
    for ((rank = 0; rank < processes; rank++)); do
        status=$(cat "$work/status.$rank" 2>/dev/null)
        if [ "$rank" = "$victim" ]; then
            [ "$status" = 137 ] || fail "$case: rank $rank was not killed, but ended with status $status"
        elif [ "$status" != 1 ] ||
            ! grep -q "^rank $rank: rank $victim has ended or cannot be reached" "$work/out.$rank"; then
            fail "$case: rank $rank has not named rank $victim: status '$status'"
        fi
    done
done
[ $failures = 0 ] && echo ok
[ $failures = 0 ]

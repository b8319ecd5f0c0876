#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# When a process of an example dies the others end with a message and do not hang. The
# launcher must not help: it starts shells, which always end with status 0.
#
# usage: one_dies.sh UTOFURUN DIE PROCESSES PROGRAM RANK-AT... DIE is die.so; RANK-AT is the rank
# that dies, and the number of its call.
utofurun=$1 die=$2 processes=$3 program=$4
shift 4
failures=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export UTOFU_PEER_TIMEOUT=3 work die

fail() {
    failures=$((failures + 1))
    echo "FAIL: $*"
    tail -n 5 "$work"/out.*
}

for case in "$@"; do
    rm -f "$work"/*
    # shellcheck disable=SC2016
    DIE_RANK=${case%-*} DIE_AT=${case#*-} "$utofurun" --timeout 50 -n "$processes" sh -c '
        LD_PRELOAD=$die "$0" >"$work/out.$UTOFU_RANK" 2>&1
        echo $? >"$work/status.$UTOFU_RANK"' "$program" >"$work/job" 2>&1 ||
        fail "$case: the job ends with status $?"
    for ((rank = 0; rank < processes; rank++)); do
        status=$(cat "$work/status.$rank" 2>/dev/null)
        if [ "$rank" = "${case%-*}" ]; then
            [ "$status" = 137 ] || fail "$case: rank $rank was not killed, but ended with status $status"
        elif [ "$status" != 1 ] || ! grep -q "^rank $rank: .*\(has ended or cannot be reached\|_PEER\|_OTHER\)" \
            "$work/out.$rank"; then
            fail "$case: rank $rank has not said that another one is gone: status '$status'"
        fi
    done
done
[ $failures = 0 ] && echo ok
[ $failures = 0 ]

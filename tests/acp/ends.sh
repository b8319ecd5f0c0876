#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# When one process of a job ends, the others end, too, with a message, in every call; and
# if all leave in order, no process prints anything. The launcher must not help: it starts shells, which
# always end with status 0. A process that is not ended ends itself after a minute,
# with another status; how long each job took is printed only, as that depends on the machine.
#
# usage: ends.sh UTOFURUN PROGRAM [HOW [WHERE]]: only these
utofurun=$1 program=$2 hows=${3:-kill abort exit} wheres=${4:-compute sync complete third own others}
export UTOFU_PEER_TIMEOUT=3
failures=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
    failures=$((failures + 1))
    echo "FAIL: $*"
    cat "$work/out"
}

# run HOW WHERE: the job; status RANK STATUS of each in $work/out
run() {
    # shellcheck disable=SC2016
    "$utofurun" -n 4 sh -c '"$0" "$1" "$2"; echo "status $UTOFU_RANK $?"' "$program" "$1" "$2" \
        >"$work/out" 2>&1
}

for how in $hows; do
    for where in $wheres; do
        begin=$(date +%s)
        run "$how" "$where"
        took=$(($(date +%s) - begin))
        for rank in 0 2 3; do
            grep -q "^status $rank 1\$" "$work/out" ||
                fail "$how, $where: rank $rank has not ended with status 1"
            grep -q "acp: \[rank $rank\] .*the job" "$work/out" ||
                fail "$how, $where: rank $rank has not said why"
        done
        if [ "$how" = abort ]; then
            grep -q 'acp: \[rank 1\] acp_abort: that is enough' "$work/out" || fail "abort: no message"
            # a process that uses rank 1 may find that it is gone before it is notified
            grep -q 'rank 1 \(ends the job\|has ended\|does not answer\)' "$work/out" ||
                fail "abort: nobody says who"
        fi
        echo "$how, $where: $took s with the start; UTOFU_PEER_TIMEOUT is $UTOFU_PEER_TIMEOUT"
    done
done
run finalize -
[ "$(grep -c '^status . 0$' "$work/out")" = 4 ] || fail "finalize: not all have ended well"
grep -q 'acp:' "$work/out" && fail "finalize: something was said"
[ $failures = 0 ] && echo ok
[ $failures = 0 ]

#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# When one task of a job ends, waiting calls of the others end with a code and their error handlers
# are called, in any call; and they continue. The launcher must not help: it starts shells,
# which always end with status 0.
#
# usage: ends.sh UTOFURUN PROGRAM [WHERE]: only there
#
# UT_TEST_TIMEOUT_SCALE: how much slower the machine is.
utofurun=$1 program=$2 wheres=${3:-counter nopoll gfence compute put large shared helping rmw}
export UTOFU_PEER_TIMEOUT=3
failures=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
    failures=$((failures + 1))
    echo "FAIL: $*"
    cat "$work/out"
}

for where in $wheres; do
    begin=$(date +%s)
    # shellcheck disable=SC2016
    "$utofurun" -n 4 sh -c '"$0" "$1"; echo "status $UTOFU_RANK $?"' "$program" "$where" \
        >"$work/out" 2>&1
    took=$(($(date +%s) - begin))
    for rank in 0 2 3; do
        grep -q "^status $rank 0\$" "$work/out" || fail "$where: rank $rank has not ended well"
    done
    # the time limit for the peers, and the time of a start
    [ "$took" -le $(((UTOFU_PEER_TIMEOUT + 2 + 2) * ${UT_TEST_TIMEOUT_SCALE:-1})) ] ||
        fail "$where: $took s"
done
[ $failures = 0 ] && echo ok
[ $failures = 0 ]

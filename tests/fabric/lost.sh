#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A lost message, and one that cannot be sent: the connection breaks, and operations that did not arrive are
# repeated. And fabrics that refuse something.
# Usage: lost.sh WITH-FABRIC UTOFURUN BUILD-FOLDER
set -u
with=$1 run=$2 build=$3
fail() { echo "lost: $*"; exit 1; }

export UTOFU_PROVIDER=ofi UTOFU_OFI_DOMAIN=lo UTOFU_LOG_LEVEL=info,category=ofi
for profile in plain unordered all; do
    out=$("$with" --profile $profile --fault lose=500 -- "$run" -n 2 "$build/examples/pingpong_notice" 2>&1) ||
        fail "lose, $profile: $out"
    echo "$out" | grep -q 'a connection breaks: a message was lost' || fail "nothing is lost, $profile: $out"
    echo "$out" | grep -q 'rank 1: 1000 rounds' || fail "lose, $profile: $out"
    # the bad twin: without the fault nothing breaks, even with reordering
    out=$("$with" --profile $profile -- "$run" -n 2 "$build/examples/pingpong_notice" 2>&1) || fail "$profile: $out"
    echo "$out" | grep -q 'a connection breaks' && fail "$profile breaks a connection: $out"
done
# the first message of each endpoint: replies to requests for connections, and the first message behind them
limit=$((100 * ${UT_TEST_TIMEOUT_SCALE:-1}))
out=$(timeout $limit "$with" --fault lose=1 -- "$run" -n 2 "$build/examples/pingpong_notice" 2>&1) || fail "lose=1: $out"
echo "$out" | grep -q 'rank 1: 1000 rounds' || fail "lose=1: $out"
out=$("$with" --fault fail=500 -- "$run" -n 2 "$build/examples/pingpong_notice" 2>&1) || fail "fail: $out"
echo "$out" | grep -q 'rank 1: 1000 rounds' || fail "fail: $out"

perf() { "$with" "$@" -- "$run" -n 2 "$build/tools/utofu-perf" --verify -s 20000,100000 -n 20 put-lat get-lat 2>&1; }
out=$(perf --profile no-delivery) || fail "no-delivery: $out"
echo "$out" | grep -q 'does not report delivery' || fail "FI_DELIVERY_COMPLETE is not refused: $out"
echo "$out" | grep -q 'a connection breaks' && fail "a refused write breaks a connection: $out"
out=$(perf --profile strict-mr --fault refuse-mr=1) || fail "refuse-mr: $out"
echo "$out" | grep -q 'the fabric cannot register' || fail "no registration is refused: $out"
exit 0

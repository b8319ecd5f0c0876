#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# wraps.sh LAUNCHER LIBRARIES METHOD PROGRAM ROUNDS: runs the program with counters about to wrap, and checks that they have.
set -u
launcher=$1 libraries=$2 method=$3 program=$4 rounds=$5
said=$(mktemp)
trap 'rm -f "$said"' EXIT
"$launcher" -n 2 env LD_PRELOAD="$libraries${LD_PRELOAD:+:$LD_PRELOAD}" PRDMA_METHOD="$method" PRDMA_STATS=1 "$program" "$rounds" >"$said" 2>&1
status=$?
cat "$said"
[ $status = 0 ] || exit $status
expected='[1-9][0-9]* TOQs and [1-9][0-9]* schedule pointers'
[ "$method" != eager ] || expected='[1-9][0-9]* TOQs and 0 schedule pointers'
[ "$(grep -c "counters: $expected have passed" "$said")" = 2 ] || { echo 'the counters have not wrapped'; exit 1; }
[ "$(grep -c "stats: .*method $method, .*$rounds rounds" "$said")" = 4 ] || { echo 'another method'; exit 1; }

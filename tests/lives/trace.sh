#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# trace.c finds what a life leaves behind, and nothing where nothing is left.
# Usage: trace.sh LIBLIVES-TRACE TEST-LIVES
set -u
trace=$1 lives=$2
fail() { echo "trace: $*"; exit 1; }
export UTOFU_PROVIDER=shm UT_LIVES=200 UT_TEST_KEEP_OUTPUT=1
run() { env LD_PRELOAD="$trace" "$@" "$lives" -j1 --filter lives/stadd_query 2>&1; }

out=$(run UT_LIVES_LEAK=heap) || fail "$out"
echo "$out" | grep -q 'trace: stadd_query, rank 0: 180000 bytes more, 180 blocks, of' || fail "the leak is not told: $out"
# the tables of trace.c grow: resident memory
out=$(run UT_LIVES_KEPT=50000) || fail "$out"
echo "$out" | grep -q 'trace: stadd_query, rank 0: 0 bytes more are allocated' || fail "something is left: $out"
exit 0

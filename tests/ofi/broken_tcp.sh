#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The kernel ends the TCP connections of a job of two processes, again and again (ss -K): libfabric connects again, and
# what was on the way is lost, in part without an error. The job ends with the right data. As root: in a network
# namespace of its own.
# Usage: broken_tcp.sh BUILD-FOLDER [inside]
set -u
build=$1
[ $# -gt 1 ] || { unshare -n true 2>/dev/null || { echo "skipped: not root"; exit 77; }; exec unshare -n "$0" "$build" inside; }
fail() { echo "broken_tcp: $*"; exit 1; }

ip link set lo up || fail "lo stays down"
export UTOFU_PROVIDER=ofi UTOFU_OFI_DOMAIN=lo UTOFU_LOG_LEVEL=info,category=ofi UTOFU_JOB_TIMEOUT=60 \
    UT_FUZZ_OPS=4000 UT_TEST_KEEP_OUTPUT=1
out=$(mktemp) || exit 1
trap 'rm -f "$out"' EXIT

run() { # KILLS
    "$build/tests/api/test_fuzz" -j1 --filter 'fuzz/two*' >"$out" 2>&1 &
    local job=$! left=$1
    while kill -0 $job 2>/dev/null && ((left-- > 0)); do
        sleep 0.3
        ss -K dst 127.0.0.1 >/dev/null 2>&1
    done
    wait $job || fail "with $1 kills: $(<"$out")"
}

run 0
grep -q 'a connection breaks' "$out" && fail "a connection breaks by itself: $(<"$out")"
run 12
grep -q 'a connection breaks' "$out" || fail "nothing breaks (does this kernel support ss -K?): $(<"$out")"
exit 0

#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Run on each of two linked guests, whose link has a netem qdisc: the link repeatedly loses all packets for a while, in one
# direction and then in both, with the ports up. Nothing is lost, and no peer counts as dead.
# Usage: silence.sh BUILD SECONDS...
set -eu
build=$1
shift
# Attempts to connect get longer and longer: on a slow machine the last one is long.
export UTOFU_JOB_KEY=00112233445566778899aabbccddeeff UTOFU_LOG_LEVEL=info UTOFU_PEER_TIMEOUT=60
UTOFU_RANK=$RXE_HOST UTOFU_SIZE=2 UTOFU_ROOT=10.77.0.1:7300 "$build/tests/rxe/silence" "$RXE_SHARED" >"$RXE_SHARED/said.$RXE_HOST" 2>&1 &
program=$!
trap 'cat "$RXE_SHARED/said.$RXE_HOST"' EXIT
until [[ -e $RXE_SHARED/flowing.0 && -e $RXE_SHARED/flowing.1 ]]; do
    kill -0 $program 2>/dev/null || { wait $program; exit; }
    sleep 0.2
done
both=
for seconds; do
    sleep 3
    if ((RXE_HOST == 1)) || [[ $both ]]; then
        tc qdisc change dev eth0 root netem loss 100%
    fi
    echo "silent for $seconds s${both:+ in both directions}"
    sleep "$seconds"
    tc qdisc change dev eth0 root netem loss 0%
    sleep 10
    both=${both:-yes}
done
echo x >"$RXE_SHARED/over.0"
wait $program
grep -q 'all [1-9][0-9]* arrived' "$RXE_SHARED/said.$RXE_HOST"

#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# On each of two linked guests: utofu-perf --listen and --connect, without a launcher, and the data are verified.
# Usage: perf_between_hosts.sh BUILD
set -eu
perf=$1/tools/utofu-perf
export UTOFU_JOB_KEY=00112233445566778899aabbccddeeff
unset UTOFU_PROVIDER
[ "$RXE_HOST" = 1 ] || exec "$perf" --listen 10.77.0.1:20710
said=$(mktemp)
trap 'rm -f "$said"' EXIT
"$perf" --connect 10.77.0.1 -q -n 20 -W 8 -s 8,64K --verify put-lat put-bw get-lat armw-lat relay-chain >"$said"
cat "$said"
grep -q "^# .*: 2 processes (none)" "$said"
! grep -q "were on CPU" "$said" # they have no CPU in common
[ "$(grep -c "^[a-z]" "$said")" = 9 ]
# no process listens now
if UTOFU_JOB_TIMEOUT=3 "$perf" --connect 10.77.0.1 -q -n 1 put-lat; then exit 1; fi

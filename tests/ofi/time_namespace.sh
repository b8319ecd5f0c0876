#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Processes of one host in different time namespaces, over libfabric: each sees that the others live.
# Usage: time_namespace.sh UTOFURUN BUILD
run=$1 program=$2/examples/pingpong_notice

if ! unshare -T -f --boottime 86400 true 2>/dev/null; then
    echo "skipped: no time namespaces here (unshare -T)"
    exit 77
fi
export UTOFU_PROVIDER=ofi UTOFU_OFI_DOMAIN=lo UTOFU_JOB_TIMEOUT=20 program
failures=0
# with OPTIONS...: rank 1 in such a namespace
with() {
    # shellcheck disable=SC2016 # each rank expands it
    if timeout 120 "$run" -n 2 sh -c '
        [ "$UTOFU_RANK" = 0 ] && exec "$program"
        exec unshare -T -f "$@" "$program"' sh "$@"; then
        echo "ok   $*"
    else
        echo "FAIL $*"
        failures=$((failures + 1))
    fi
}
with --boottime 86400
with --monotonic 86400
with --boottime 1 --monotonic 7
[ $failures = 0 ]

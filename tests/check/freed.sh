#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# freed.sh PROGRAM UTOFURUN: a VCQ that is freed with a communication under way is reported,
# although no communication is held.
set -u
program=$1 utofurun=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
unset "${!UTOFU_@}"
failures=0
for how in wrong:1 right:0; do
    UTOFU_CHECK=1 UTOFU_PEER_TIMEOUT=8 timeout -k 5 100 "$utofurun" -n 2 "$program" "${how%:*}" >"$folder/out" 2>&1
    status=$?
    found=$(grep -c '^utofu: check: \[rank 0\] vcq-freed: ' "$folder/out")
    others=$(grep -v vcq-freed "$folder/out" | grep -c '^utofu: check: \[rank [0-9]*\] [a-z-]*: ')
    [ "$status" = 0 ] && [ "$found" = "${how#*:}" ] && [ "$others" = 0 ] && continue
    echo "FAIL ${how%:*}: status $status, $found findings, $others others"
    cat "$folder/out"
    failures=$((failures + 1))
done
[ "$failures" = 0 ]

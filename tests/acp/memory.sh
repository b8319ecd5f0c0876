#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The memory of the layer in each process: a fixed part, which does not depend on how many processes
# the job has; up to 64 bytes for each registration; up to 64 for each process that is used. Prints
# the figures of docs/measurements/layers.md.
#
# usage: memory.sh UTOFURUN PROGRAM PROCS...
utofurun=$1 program=$2
shift 2
export ACP_MEMORY=1
failures=0
work=$(mktemp)
trap 'rm -f "$work"' EXIT

fail() {
    failures=$((failures + 1))
    echo "FAIL: $*"
    cat "$work"
}

# take PROCS PEERS REGIONS: sets the figures of the process that has most
take() {
    "$utofurun" -n "$1" "$program" "$2" "$3" >"$work" 2>&1 || fail "$*: status $?"
    [ "$(grep -c ' memory: ' "$work")" = "$1" ] || fail "$*: not all have printed it"
    read -r fixed region_bytes regions peer_bytes peers < <(
        sed -n 's/.* memory: \([0-9]*\) bytes, \([0-9]*\) for \([0-9]*\) regions, \([0-9]*\) for \([0-9]*\) of .*/\1 \2 \3 \4 \5/p' \
            "$work" | sort -n | tail -1)
    rank=
    [ "${peers:-0}" -gt 0 ] && rank=$((peer_bytes / peers))
    printf '%9d %10d %12d %10d %14d %11d %10s\n' "$1" "$fixed" "$region_bytes" "$regions" \
        "$peer_bytes" "$peers" "$rank"
}

echo 'processes      fixed  for regions    regions  for processes  of them used     each'
first=
for procs; do
    take "$procs" $((procs - 1)) 0
    : "${first:=$fixed}"
    [ "$fixed" -le $((512 * 1024)) ] || fail "$procs processes: the fixed part is $fixed bytes"
    [ $((fixed - first)) -le 512 ] || fail "$procs processes: the fixed part was $first, and is $fixed"
    [ "$peer_bytes" -le $((64 * peers)) ] || fail "$peers peers take $peer_bytes bytes"
    [ "$peers" -ge $((procs - 1)) ] || fail "$peers peers instead of $((procs - 1))"
done
for wanted in 2000 10000; do
    take 2 1 $wanted
    [ "$regions" = $wanted ] || fail "$regions regions instead of $wanted"
    [ "$region_bytes" -le $((64 * wanted)) ] || fail "$wanted regions take $region_bytes bytes"
done
take "$procs" 0 0
[ "$peer_bytes" = 0 ] || fail "who uses nobody has $peer_bytes bytes for peers"
[ $failures = 0 ]

#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# On each of two linked guests: two of four processes, with the provider that each pair chooses. Neighbours on one host
# share memory, those on two hosts use verbs, and the library's counters say so.
# Usage: both_providers.sh BUILD
set -eu
build=$1 folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export UTOFU_JOB_KEY=00112233445566778899aabbccddeeff UTOFU_PROVIDER=auto UTOFU_STATS=1
first=$((RXE_HOST * 2)) rc=0
run() {
    UTOFU_RANK=$1 UTOFU_SIZE=4 UTOFU_ROOT=10.77.0.1:7100 "$build/examples/halo_exchange" 2>"$folder/said.$1" &
}
run $first
process=$!
run $((first + 1))
wait $process || rc=$?
wait $! || rc=$?
cat "$folder"/said.*
[ $rc = 0 ] || exit $rc
sed -n "s/^.*stats: \[rank \([0-9]*\)\] peer .* rank=\([0-9]*\) provider=\([a-z]*\).*/\1 \2 \3/p" "$folder"/said.* |
    sort -u >"$folder/peers"
for rank in $first $((first + 1)); do
    for peer in $(((rank + 1) % 4)) $(((rank + 3) % 4)); do
        provider=verbs
        ((rank / 2 == peer / 2)) && provider=shm
        [ "$(grep "^$rank $peer " "$folder/peers")" = "$rank $peer $provider" ] || { echo "$rank $peer: not $provider"; rc=1; }
    done
done
exit $rc

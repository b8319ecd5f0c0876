#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Run on each of two linked guests: guest 1 is switched off in the middle of traffic; with "random" at a random moment within
# six seconds after its processes have published their VCQ ids. Both processes of guest 0 survive.
# Usage: host_dies.sh BUILD [random]
set -eu
build=$1 card=flowing after=0 ranks=(0 1)
[ -z "${2:-}" ] || { card=id after=$((RANDOM % 6)).$((RANDOM % 10)) ranks=(2 3); }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export UTOFU_JOB_KEY=00112233445566778899aabbccddeeff UTOFU_SIZE=4 UTOFU_ROOT=10.77.0.1:7200
run() { UTOFU_RANK=$1 "$build/tests/rxe/survivors" "$RXE_SHARED" >>"$folder/said" 2>&1 & }
run $((RXE_HOST * 2))
first=$!
run $((RXE_HOST * 2 + 1))
second=$!
if ((RXE_HOST == 0)); then
    rc=0
    wait $first || rc=$?
    wait $second || rc=$?
    cat "$folder/said"
    [ "$(grep -c survived "$folder/said")" = 2 ] || exit 1
    exit $rc
fi
for ((try = 0; try < 6000; try++)); do
    [[ -e $RXE_SHARED/$card.${ranks[0]} && -e $RXE_SHARED/$card.${ranks[1]} ]] && break
    kill -0 $first || { cat "$folder/said"; exit 1; }
    sleep 0.02
done
echo "this machine ends after $after s"
sleep "$after"
echo 0 >/run/rxe-vm/job/host1/status # the other host's result is that of the test
sync
echo b >/proc/sysrq-trigger # at once, without closing any connection
sleep 60

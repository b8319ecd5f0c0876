#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Two hosts without RDMA devices, with two processes each. The second host's processes are killed,
# or its link goes down, or its processes are stopped for a while and continue.
# Usage: deaths.sh NETNS-HOSTS BUILD-FOLDER killed|gone|stopped
set -u
hosts=$1 build=$2 how=$3
fail() { echo "deaths $how: $*"; exit 1; }

"$hosts" -- true >/dev/null 2>&1
rc=$?
if [ $rc = 77 ]; then
    echo "skipped: network namespaces cannot be made"
    exit 77
fi
[ $rc = 0 ] || fail "$hosts -- true: $rc"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

export UTOFU_PROVIDER=ofi UTOFU_PEER_TIMEOUT=4 UTOFU_JOB_TIMEOUT=20 UTOFU_SIZE=4 UTOFU_LOCAL_SIZE=2
unset UTOFU_OFI_DOMAIN
# rank 0's host continues; the other host ends as HOW says, once data flow on all four connections
# shellcheck disable=SC2016 # for the shells on the hosts
each='
host=$UTOFU_RANK survivors=$0 how=$1 folder=$2
run() { UTOFU_SIZE=4 UTOFU_LOCAL_SIZE=2 UTOFU_RANK=$1 UTOFU_LOCAL_RANK=$(($1 % 2)) "$survivors" "$folder" & }
run $((2 * host)); first=$!
run $((2 * host + 1)); second=$!
if [ "$host" = 0 ]; then
    wait $first && wait $second
    exit
fi
for ((try = 0; try < 6000; try++)); do
    [[ -e $folder/flowing.0 && -e $folder/flowing.1 && -e $folder/flowing.2 && -e $folder/flowing.3 ]] && break
    kill -0 $first || exit 1
    sleep 0.02
done
if [ "$how" = stopped ]; then # shorter than the peer timeout
    kill -STOP $first $second
    sleep 1.5
    kill -CONT $first $second
    sleep 1
    [ ! -e "$folder/survived.0" ] || { echo "given up too soon"; exit 1; }
fi
[ "$how" != gone ] || ip link set eth0 down # so that no peer is notified of closed connections
kill -KILL $first $second
wait $first
[ $? = 137 ]
'
out=$(timeout 100 "$hosts" -- bash -c "$each" "$build/tests/rxe/survivors" "$how" "$folder" 2>&1)
rc=$?
[ $rc = 0 ] || fail "exit status $rc: $out"
for rank in 0 1; do
    echo "$out" | grep -q "rank $rank: survived" || fail "rank $rank: $out"
done

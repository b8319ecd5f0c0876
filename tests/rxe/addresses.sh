#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Run on each of two linked guests, whose port has a hundred more addresses: UTOFU_VERBS_SUBNETS chooses the last of them,
# and the traffic_class of UTOFU_VERBS_CONNECT marks the packets of both directions; without them, the first address and no mark.
# Usage: addresses.sh BUILD
set -eu
here=$(cd "$(dirname "$0")" && pwd) program=$1/tests/rxe/silence
export UTOFU_JOB_KEY=00112233445566778899aabbccddeeff UTOFU_RANK=$RXE_HOST UTOFU_SIZE=2
trap 'ip addr flush dev eth0 to 10.88.0.0/16; ip addr flush dev eth0 to 10.99.0.0/16' EXIT
for ((i = 1; i <= 100; i++)); do
    ip addr add 10.88.$i.$((RXE_HOST + 1))/24 dev eth0
done
ip addr add 10.99.0.$((RXE_HOST + 1))/24 dev eth0
exchange() { # PORT NETWORK CLASS
    mkdir -p "$RXE_SHARED/$1"
    python3 "$here/sniff.py" "$2" "$3" "$RXE_SHARED/$1/over.0" &
    sniffer=$!
    UTOFU_ROOT=10.77.0.1:$1 "$program" "$RXE_SHARED/$1" &
    ours=$!
    until [[ -e $RXE_SHARED/$1/flowing.0 && -e $RXE_SHARED/$1/flowing.1 ]]; do
        kill -0 $ours 2>/dev/null || { wait $ours; exit 1; }
        sleep 0.2
    done
    sleep 1
    echo x >"$RXE_SHARED/$1/over.0"
    wait $ours
    wait $sniffer
}
exchange 7400 10.77.0. 0
export UTOFU_VERBS_SUBNETS="192.168.0.0/16, 10.99.0.0/16" UTOFU_VERBS_CONNECT=traffic_class=104
exchange 7401 10.99.0. 104

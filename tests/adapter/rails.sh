#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# UTOFU_STATS counts the puts that went in parts, by two ports, two devices, or both links of a bond: those of
# UTOFU_VERBS_TUNE=rails bytes or more. No puts go in parts by two functions of one physical port.
# Usage: rails.sh WITH_ADAPTER UTOFURUN UTOFU_PERF
set -u
with_adapter=$1 utofurun=$2 perf=$3
said=$(mktemp)
sys=$(mktemp -d)
trap 'rm -rf "$said" "$sys"' EXIT
export UTOFU_PROVIDER=verbs UTOFU_STATS=1 UT_ADAPTER_SYS=$sys
failed=0

# parted PUTS NAME=VALUE...: prints how many puts of 64 KiB, each of which takes milliseconds, went in parts
parted() {
    env "${@:2}" "$with_adapter" --profile "$profile" --fault rate=20000 -- "$utofurun" -n 2 "$perf" -t 1 -T 0 \
        -s 64K -n "$1" put-local-lat >"$said" 2>&1 || return
    sed -n 's/^utofu: stats: \[rank 0\] peer .* parted=\([0-9]*\).*/\1/p' "$said" | sort -n | tail -n 1
}

# check WHAT EXPECTED NAME=VALUE...: the second connection is made while puts go on; on a loaded machine more of them
check() {
    local found puts
    for puts in 40 160 640; do
        found=$(parted "$puts" "${@:3}") || break
        if [[ ${found:-0} =~ ^($2)$ ]]; then
            echo "ok: $1: ${found:-0} of $puts"
            return
        fi
    done
    echo "FAILED: $1: ${found:-0}"
    cat "$said"
    failed=1
}

# file NAME LINE: of /sys
file() {
    mkdir -p "$sys/sys/$(dirname "$1")"
    echo "$2" >"$sys/sys/$1"
}

profile=rails
export UTOFU_VERBS_DEVICES=rxe0
check 'puts in parts' '[1-9][0-9]*' UTOFU_VERBS_TUNE=rails=65536
check 'puts that are too short' 0 UTOFU_VERBS_TUNE=rails=65537
check 'puts that are too short, unless set' 0
check 'no puts in parts' 0 UTOFU_VERBS_TUNE=rails=0
export UTOFU_VERBS_TUNE=rails=65536
profile=twins
check 'puts in parts, by two devices' '[1-9][0-9]*' UTOFU_VERBS_DEVICES=rxe0,rxe1
file class/infiniband/rxe0/device/uevent PCI_SLOT_NAME=0000:03:00.0
file class/infiniband/rxe1/device/uevent PCI_SLOT_NAME=0000:03:02.1
file class/infiniband/rxe1/device/physfn/uevent PCI_SLOT_NAME=0000:03:00.0
check 'puts by a function and a virtual function of it' 0 UTOFU_VERBS_DEVICES=rxe0,rxe1
profile=lag
file class/net/bond0/bonding/ad_num_ports 2
check 'puts in parts, by both links of a bond' '[1-9][0-9]*' UTOFU_VERBS_DEVICES=mlx5_bond_0
file class/net/bond0/bonding/ad_num_ports 1
check 'puts by a bond that has one link' 0 UTOFU_VERBS_DEVICES=mlx5_bond_0
exit $failed

#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# ARMW by the adapter (UTOFU_ARMW=nic) is there only where all of a process's TNIs are atomic to each other.
# usage: atomics.sh WITH_ADAPTER UTOFU_INFO TEST_ARMW_ATOMICITY
set -eu
with_adapter=$1
info=$2
atomicity=$3
export UTOFU_PROVIDER=verbs
out=$(mktemp)
trap 'rm -f "$out"' EXIT

# says TEXT PROFILE VARIABLE=VALUE...
says() {
    text=$1
    profile=$2
    shift 2
    env "$@" "$with_adapter" --profile "$profile" -- "$info" >"$out" 2>&1 || true
    grep -q -- "$text" "$out" || {
        echo "$profile, $*: nothing says '$text':"
        cat "$out"
        exit 1
    }
}

# two devices, of which each is atomic within itself only
says 'needs one device: TNI 0 uses rxe0:1 .*and TNI 1 rxe1:1 .*with UTOFU_VERBS_DEVICES, or use UTOFU_ARMW=cpu' \
    twins UTOFU_ARMW=nic
says 'by the network adapter (nic)' twins UTOFU_ARMW=nic UTOFU_VERBS_DEVICES=rxe1
says "by the target's CPU (cpu)" twins UTOFU_ARMW=auto
# two ports of one device
says 'TNI 1 3 5$' rails UTOFU_ARMW=nic UTOFU_VERBS_DEVICES=rxe0
says 'by the network adapter (nic)' rails UTOFU_ARMW=nic UTOFU_VERBS_DEVICES=rxe0
# two devices that are atomic to everything
says 'by the network adapter (nic)' coherent UTOFU_ARMW=nic
says 'by the network adapter (nic)' coherent UTOFU_ARMW=auto

# ARMWs that come by both devices lose nothing
UT_ARMW_OPS=500 "$with_adapter" --profile twins -- "$atomicity" -j1 --filter 'atomicity/mixed*'

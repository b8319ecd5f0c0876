#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Two hosts without RDMA devices: auto takes ofi between them.
# Usage: two_networks.sh NETNS-HOSTS BUILD-FOLDER
set -u
hosts=$1
build=$2
fail() { echo "two_networks: $*"; exit 1; }

if [ -n "$(ls /sys/class/infiniband 2>/dev/null)" ]; then
    echo "skipped: there is an RDMA device"
    exit 77
fi
"$hosts" -- true >/dev/null 2>&1
rc=$?
if [ $rc = 77 ]; then
    echo "skipped: network namespaces cannot be made"
    exit 77
fi
[ $rc = 0 ] || fail "$hosts -- true: $rc"

unset UTOFU_PROVIDER UTOFU_OFI_PROVIDER UTOFU_OFI_DOMAIN
export UTOFU_LOG_LEVEL=info,category=process,ofi
for example in pingpong_notice pingpong_memory; do
    out=$("$hosts" -- "$build/examples/$example" 2>&1) || fail "$example: $out"
    for host in 0 1; do
        echo "$out" | grep -q "^\[host $host\] rank $host: 1000 rounds" || fail "$example, host $host: $out"
        echo "$out" | grep -q "^\[host $host\] .*providers shm ofi" || fail "host $host does not use ofi: $out"
        echo "$out" | grep -Eq "^\[host $host\] .*(net|tcp.*) on eth0" || fail "host $host, another fabric: $out"
    done
done

out=$("$hosts" -- "$build/tools/utofu-info" 2>&1) || fail "utofu-info: $out"
echo "$out" | grep -q "^\[host 0\] provider *shm on this host, ofi to other hosts" || fail "utofu-info: $out"
out=$("$hosts" -- "$build/tools/utofu-info" --check 2>&1) || fail "utofu-info --check: $out"
echo "$out" | grep -Eq "^\[host 0\] \[0 .*ok *libfabric: (net|tcp.*) on eth0 is used to other hosts" || fail "--check: $out"

# the bad twin: with shared memory alone one rank cannot reach the other, and tries for ever
if out=$(UTOFU_PROVIDER=shm "$hosts" -- timeout 20 "$build/examples/pingpong_notice" 2>&1); then
    fail "shm reaches another host: $out"
fi
echo "$out" | grep -q "this process has no active RDMA device and no fabric of libfabric" || fail "what is missing: $out"

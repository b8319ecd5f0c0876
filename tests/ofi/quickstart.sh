#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 scripts/quickstart --hosts 2, with the programs built. Usage:
# quickstart.sh QUICKSTART BUILD-FOLDER
set -u
fail() { echo "quickstart: $*"; exit 1; }

if [ -n "$(ls /sys/class/infiniband 2>/dev/null)" ]; then
    echo "skipped: there is an RDMA device"
    exit 77
fi
out=$("$1" --hosts 2 "$2" 2>&1)
rc=$?
if [ $rc = 77 ]; then
    echo "skipped: network namespaces cannot be made"
    exit 77
fi
[ $rc = 0 ] || fail "exit status $rc: $out"
for host in 0 1; do
    [ "$(echo "$out" | grep -c "^\[host $host\] rank $host: 1000 rounds")" = 2 ] || fail "host $host: $out"
done
echo "$out" | grep -q "^\[host 0\] provider *shm on this host, ofi to other hosts" || fail "host 0: $out"
"$1" --hosts 3 "$2" >/dev/null 2>&1
[ $? = 2 ] || fail "three hosts are not refused"

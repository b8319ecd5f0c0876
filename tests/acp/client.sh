#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A client of the layer gets all options, and its hooks are called where a process aborts.
#
# usage: client.sh UTOFURUN PROGRAM
# PROGRAM is acp_client_behind.
utofurun=$1 program=$2
failures=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() {
    failures=$((failures + 1))
    echo "FAIL: $*"
    cat "$work/out"
}

"$utofurun" -n 3 "$program" --acp-portfile /a/file --acp-host-remote a.host --acp-offsetrank 1 --acp-nprocs 3 \
    --acp-port-local 65535 --acp-port-remote 2 --acp-taskid 4294967295 --acp-size-smem 20000 options \
    --acp-size-smem-cl 30000 --acp-size-smem-dl 40000 --acp-malloc-hook-small 1 --acp-malloc-hook-large 1 \
    --acp-malloc-hook-huge 1 --acp-malloc-hook-low 7 --acp-malloc-hook-high 18446744073709551615 \
    --acp-ethernet-speed 1000 >"$work/out" 2>&1 || fail 'all options'
"$utofurun" -n 3 "$program" options --acp-nprocs 3 >"$work/out" 2>&1 && fail 'without most of them'

"$utofurun" -n 3 "$program" abort >"$work/out" 2>&1
[ $? = 1 ] || fail 'abort: another status'
[ "$(grep -E '^abort of|acp: \[rank 1\]' "$work/out")" = 'abort of the channels
abort of the data library
acp: [rank 1] acp_abort: (no message)' ] || fail 'abort: not the hooks and then the message'
[ $failures = 0 ] && echo ok
[ $failures = 0 ]

#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Memory that an adapter has, too, becomes mappable by the same rules as without one; only where
# another process of the job is on the host.
# Usage: pinned.sh WITH_ADAPTER UTOFURUN PINNED UTOFU_INFO
set -u
with_adapter=$1 utofurun=$2 pinned=$3 info=$4 failures=0
small=1048576 large=33554432
"$info" | grep -q 'shared memory, mapped' || { echo 'skipped: no memory can be mapped here'; exit 77; }
# expect "LINES" ARGUMENT...: each line as often as there are processes
expect() {
    local found
    found=$("$with_adapter" -- "${@:2}" "$pinned" $small $large | sort | uniq | tr '\n' ',')
    [ "$found" = "$1" ] || { echo "FAIL ${*:2}: $found, wanted $1"; failures=$((failures + 1)); }
}
unset UTOFU_SHM_MAP UTOFU_PROVIDER
expect "0 of $small,0 of $large," env
expect "$small of $small,$large of $large," "$utofurun" -n 2
expect "$small of $small,$large of $large," env UTOFU_SHM_MAP=eager "$utofurun" -n 2
expect "0 of $small,0 of $large," env UTOFU_SHM_MAP=0 "$utofurun" -n 2
echo "$failures failures"
[ "$failures" = 0 ]

#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The logical grid is that of UTOFU_SHAPE where it has as many nodes as the job; else the nodes stand in a
# row, and one process says so.
#
# usage: shapes.sh UTOFURUN PLACES
utofurun=$1 places=$2
failures=0
out=$(mktemp)
trap 'rm -f "$out"' EXIT
unset "${!UTOFU_@}"

# try SHAPE RANKS NODES LAYOUT X Y Z
try() {
    local shape=$1 ranks=$2 nodes=$3
    shift 3
    UTOFU_SHAPE=$shape "$utofurun" --timeout 60 -n "$ranks" --nodes "$nodes" "$places" "$@" >"$out" 2>&1 || {
        failures=$((failures + 1))
        echo "FAIL: '$shape', $ranks ranks on $nodes nodes"
        cat "$out"
    }
}

# lines COUNT
lines() {
    [ "$(grep -c 'jtofu: .*UTOFU_SHAPE=' "$out")" = "$1" ] && return
    failures=$((failures + 1))
    echo "FAIL: not $1 lines about the shape"
    cat "$out"
}

try 3x2 9 6 2:0,2:1,2:2,1:3,1:4,1:5 3 2 1
lines 0
try 1x2x2 4 4 1:0,1:1,1:2,1:3 1 2 2
lines 0
try 2x2x2 6 6 1:0,1:1,1:2,1:3,1:4,1:5 6 1 1
lines 1
grep -q 'UTOFU_SHAPE=2x2x2 has 8 nodes and the job 6: .*6 x 1 x 1; give numbers whose product is 6' "$out" ||
    { echo 'FAIL: the line says something else'; failures=$((failures + 1)); }
[ $failures = 0 ] && echo ok
[ $failures = 0 ]

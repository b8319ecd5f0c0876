#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Shapes of one to three dimensions, by UTOFU_SHAPE; a program that includes only mpi-ext.h and is not
# linked with the library finds it at run time, or prints the remedy; and the check mode counts none
# of its calls.
#
# usage: shape.sh UTOFURUN LINKED UNLINKED FOLDER-OF-THE-LIBRARY
utofurun=$1 linked=$2 unlinked=$3 folder=$4
failures=0
out=$(mktemp)
trap 'rm -f "$out"' EXIT
unset "${!UTOFU_@}" LD_LIBRARY_PATH

fail() {
    failures=$((failures + 1))
    echo "FAIL: $*"
    cat "$out"
}

# try SHAPE RANKS NODES DIMENSIONS X Y Z
try() {
    local program shape=$1 ranks=$2 nodes=$3
    shift 3
    for program in "$linked" "env LD_LIBRARY_PATH=$folder $unlinked"; do
        # shellcheck disable=SC2086
        UTOFU_SHAPE=$shape UTOFU_CHECK=1 "$utofurun" --timeout 60 -n "$ranks" --nodes "$nodes" $program \
            "$@" $((ranks / nodes)) >"$out" 2>&1 || fail "'$shape', $ranks ranks on $nodes nodes: $program"
        ! grep -q 'utofu_ext.h' "$out" || fail "'$shape': the check mode counts calls of mpi-ext.h"
    done
}

try '' 12 12 1 12 1 1
try 12 12 12 1 12 1 1
try 4x3 12 12 2 4 3 1
try 3x2x2 12 12 3 3 2 2
try 1x1x3 6 3 3 1 1 3
try 1 2 1 1 1 1 1
! grep -q 'mpi-ext.h' "$out" || fail "a line without a reason"
try 2x2x2 6 6 1 6 1 1
[ "$(grep -c 'mpi-ext.h: UTOFU_SHAPE=2x2x2 has 8 nodes and the job 6: .*product is 6' "$out")" = 1 ] ||
    fail "nobody says that the shape does not fit"

"$utofurun" --timeout 60 -n 1 "$unlinked" 1 1 1 1 1 >"$out" 2>&1
[ $? = 3 ] && grep -qx lost "$out" && [ "$(grep -c 'libtofucom.so.1 is not found: link with -ltofucom' "$out")" = 1 ] ||
    fail "a program without the library is not told what to do"
[ $failures = 0 ] && echo ok
[ $failures = 0 ]

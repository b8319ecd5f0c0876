#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# utofu_query_job() on simulated nodes, with nodes set by hand, and under the launchers of MPI.
#
# usage: job.sh UTOFURUN PROGRAM MPIRUN-OF-OPENMPI
utofurun=$1 program=$2 openmpi=$3
failures=0
unset "${!UTOFU_@}"

# expect NAME "LINE..." COMMAND...: the lines that the processes print, in any order
expect() {
    local name=$1 lines=$2 said
    shift 2
    said=$("$@" 2>&1 | sort)
    [ "$said" = "$lines" ] && return
    failures=$((failures + 1))
    printf 'FAIL: %s:\n%s\ninstead of\n%s\n' "$name" "$said" "$lines"
}

expect alone 'rank 0 of 1, node 0 of 1, local rank 0 of 1, most 1' "$program"
expect 'nodes that are not full' 'rank 0 of 5, node 0 of 2, local rank 0 of 3, most 3
rank 1 of 5, node 0 of 2, local rank 1 of 3, most 3
rank 2 of 5, node 0 of 2, local rank 2 of 3, most 3
rank 3 of 5, node 1 of 2, local rank 0 of 2, most 3
rank 4 of 5, node 1 of 2, local rank 1 of 2, most 3' "$utofurun" -n 5 --nodes 2 "$program"
expect 'UTOFU_NODE alone' 'rank 0 of 1, node 7 of 0, local rank 0 of 1, most 1' env UTOFU_NODE=7 "$program"
expect 'all three by hand' 'rank 0 of 1, node 7 of 0, local rank 2 of 6, most 6' \
    env UTOFU_NODE=7 UTOFU_LOCAL_RANK=2 UTOFU_LOCAL_SIZE=6 "$program"
two='rank 0 of 2, node 0 of 1, local rank 0 of 2, most 2
rank 1 of 2, node 0 of 1, local rank 1 of 2, most 2'
! command -v mpirun.openmpi >/dev/null || expect 'Open MPI' "$two" "$openmpi" -n 2 "$program"
! command -v mpiexec.mpich >/dev/null || expect MPICH "$two" mpiexec.mpich -n 2 "$program"
[ $failures = 0 ] && echo ok
[ $failures = 0 ]
